"""Every reader of a chain's batches sees the ids of the target, the same bytes each time, and counts them once."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain as joined
from pathlib import Path

import fastavro
import pytest
from crc32c import crc32c

from offsite.log.batch import CRC_START, scan, verify_crc
from offsite.log.range import LogRange
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.model.errors import DamagedObject
from offsite.model.options import SchemaIdsWay
from offsite.model.schema_registry import RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.points.point_in_time import PartitionChain
from offsite.points.record_rewrite import LeftFields, RewriteCounts, counts_of
from offsite.points.source_view import SourceView, rewritten, stored_log
from offsite.repository.backup import Backup
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.schema_ids import (
    BatchLimit,
    MappedId,
    RestoredSchemaIds,
    get_schema_ids,
    put_schema_ids,
    put_schemas,
)
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.restore import rewritten_ids
from offsite.restore.rewritten_ids import SAMPLED_EVERY, IdRewrite
from offsite.restore.write.pieces import DataPiece, SourcePieces, TransactionEnd
from offsite.schemas.id_rewrite import NO_FIT
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup
from tests.batches import chunk_of, make_control_batch
from tests.framed_topics import framed

SOURCE = PARTITIONS[0]
SUBJECT = f"{SOURCE.topic}-value"
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "x", "type": "double"}]}
OLD, NEW = 3, 70_000


def number(x: float, schema_id: int = OLD) -> bytes:
    fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(NUMBER), {"x": x})
    return framed(schema_id, out.getvalue())


def registry(schema_id: int, text: str = json.dumps(NUMBER)) -> RegistrySnapshot:
    return RegistrySnapshot(
        schemas=(StoredSchema(id=schema_id, kind="AVRO", text=text),),
        versions=(SubjectVersion(subject=SUBJECT, version=1, id=schema_id),),
    )


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    rewritten_ids._OPENED.clear()
    return new_backup(open_store(str(tmp_path)))


def rewrite(
    backup: Backup,
    *,
    limit_bytes: int | None = None,
    held: RegistrySnapshot | None = None,
    there: RegistrySnapshot | None = None,
) -> IdRewrite:
    layout = RestoreLayout(backup=backup.layout, restore="r")
    ids = RestoredSchemaIds(
        way=SchemaIdsWay.REWRITE,
        registry="http://there",
        ids=(MappedId(id=OLD, there=NEW),),
        limits=() if limit_bytes is None else (BatchLimit(topic=SOURCE.topic, size_bytes=limit_bytes),),
        schemas=put_schemas(backup.store, layout, held or registry(OLD)),
        there=put_schemas(backup.store, layout, there or registry(NEW)),
    )
    put_schema_ids(backup.store, layout, ids, on_record=lambda _key, _data: None)
    stored = get_schema_ids(backup.store, layout)
    assert stored is not None
    assert stored[0] == ids
    return IdRewrite(ref=stored[1])


def chain_of(backup: Backup, *segments: tuple[int, int, Sequence[bytes]], end: int | None = None) -> PartitionChain:
    """A partition in segments `(start, end, batches)`, whose ids change."""
    written = tuple(segment(backup, start, stop, b"".join(log)) for start, stop, log in segments)
    return PartitionChain(source=SOURCE, segments=written, end=segments[-1][1] if end is None else end)


def segment(backup: Backup, start: int, end: int, log: bytes) -> Segment:
    log_range = LogRange(topic=SOURCE.topic, partition=SOURCE.partition, start=start, end=end)
    with SegmentWriter(
        store=backup.store, layout=backup.layout, log_range=log_range, topic_id=SOURCE.topic_id
    ) as writer:
        writer.append(chunk_of(log))
        (made,) = writer.close()
    return made


def batch(*offsets: int, codec: int = 4, producer: int | None = None) -> bytes:
    records = [Record(offset, offset, 0, None, number(offset)) for offset in offsets]
    producer_id = -1 if producer is None else producer
    return bytes(encode(records, codec=codec, producer_id=producer_id, is_transactional=producer is not None))


def view_of(chain: PartitionChain, backup: Backup, **words: bool) -> SourceView:
    return SourceView(chain, backup.store, **{"read_committed": True, **words})


def values(view: SourceView) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for batch in view.batches() for record in batch.records()]


def expected(*offsets: int) -> list[tuple[int, bytes | None]]:
    return [(offset, number(offset, NEW)) for offset in offsets]


def test_without_a_rewrite_the_very_batches_pass() -> None:
    batches = iter(())
    assert rewritten(batches, None) is batches


def test_all_readers_see_the_same_changed_records(backup: Backup) -> None:
    log = [batch(0, 1, 2), batch(3, 5), batch(6, codec=0)]
    chain = replace(chain_of(backup, (0, 7, log)), rewrite=rewrite(backup))
    assert values(view_of(chain, backup)) == expected(0, 1, 2, 3, 5, 6)
    records = [record for batch in stored_log(chain, backup.store) for record in batch.records()]
    assert [(record.offset, record.value) for record in records] == expected(0, 1, 2, 3, 5, 6)
    pieces = list(SourcePieces(chain, backup.store).pieces())
    data = [piece for piece in pieces if isinstance(piece, DataPiece)]
    assert [(piece.start, piece.end) for piece in data] == [(0, 3), (3, 4), (5, 6), (6, 7)]
    written_records = joined.from_iterable(decode(piece.batch, scan(piece.batch)[0]) for piece in data)
    assert [(record.offset, record.value) for record in written_records] == expected(0, 1, 2, 3, 5, 6)


def test_each_reading_makes_the_same_bytes(backup: Backup) -> None:
    log = [batch(*range(start, start + 50)) for start in range(0, 500, 50)]
    chain = replace(chain_of(backup, (0, 500, log)), rewrite=rewrite(backup, limit_bytes=200))
    readings = []
    for proves in (False, True, False):
        rewritten_ids._OPENED.clear()  # as in another process
        batches = list(view_of(pickle.loads(pickle.dumps(chain)), backup, proves=proves).batches())
        readings.append([bytes(batch.header.view(batch.data)) for batch in batches])
    assert readings[0] == readings[1] == readings[2]
    assert max(map(len, readings[0])) <= 200
    assert len(readings[0]) > len(log)


def test_a_chain_stays_small_and_a_process_reads_the_schemas_once(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(backup, (0, 3, [batch(0, 1, 2)]))
    made = rewrite(backup)
    changed = replace(chain, rewrite=made)
    assert len(pickle.dumps(changed)) - len(pickle.dumps(chain)) < 1_000
    assert len({changed, replace(chain, rewrite=IdRewrite(ref=made.ref))}) == 1, "tasks are keys"
    view_of(changed, backup)
    monkeypatch.setattr(rewritten_ids, "get_schemas", None)
    assert values(view_of(changed, backup)) == expected(0, 1, 2)


@pytest.mark.parametrize("reader", ["view", "pieces"])
def test_a_record_counts_once_and_only_where_it_is_restored(backup: Backup, reader: str) -> None:
    """The log began in its first batch, a segment overlaps, the point ends in the last batch."""
    first, second, third = batch(0, 1, 2, 3), batch(4, 5), batch(6, 7, 8)
    chain = chain_of(backup, (2, 6, [first, second]), (4, 9, [second, third]), end=8)
    chain = replace(chain, rewrite=rewrite(backup))
    if reader == "view":
        view = view_of(chain, backup)
        assert values(view) == expected(2, 3, 4, 5, 6, 7)
        assert counts_of([view.rewriting]) == RewriteCounts(changed=6)
    else:
        pieces = SourcePieces(chain, backup.store)
        list(pieces.pieces())
        assert pieces.visible_records == 6
        assert counts_of([pieces.rewriting]) == RewriteCounts(changed=6)


def test_a_time_that_python_does_not_know_is_proven_by_its_number(backup: Backup) -> None:
    text = json.dumps({"type": "long", "logicalType": "timestamp-millis"})
    fastavro.schemaless_writer(out := io.BytesIO(), "long", 253_402_300_800_000)  # the year 10000
    log = bytes(encode([Record(0, 0, 0, None, framed(OLD, out.getvalue()))], codec=0))
    made = rewrite(backup, held=registry(OLD, text), there=registry(NEW, text))
    view = view_of(replace(chain_of(backup, (0, 1, [log])), rewrite=made), backup, proves=True)
    assert values(view) == [(0, framed(NEW, out.getvalue()))]
    assert view.rewriting is not None
    assert view.rewriting.finding is None


def test_records_that_no_consumer_sees_count_only_where_they_are_written(backup: Backup) -> None:
    log = [
        batch(0, 1, producer=7),
        make_control_batch(2, producer_id=7, committed=False),
        batch(3, producer=7),
        make_control_batch(4, producer_id=7, committed=True),
        batch(5, producer=7),
    ]
    chain = replace(chain_of(backup, (0, 6, log)), rewrite=rewrite(backup))
    view = view_of(chain, backup)
    assert values(view) == expected(3)
    assert counts_of([view.rewriting]) == RewriteCounts(changed=1)
    pieces = SourcePieces(chain, backup.store)
    log_pieces = list(pieces.pieces())
    assert [(piece.start, piece.committed) for piece in log_pieces if isinstance(piece, TransactionEnd)] == [
        (2, False),
        (4, True),
        (5, False),
    ]
    assert counts_of([pieces.rewriting]).changed == 4


def test_a_marker_is_never_an_id(backup: Backup) -> None:
    """The epoch of a coordinator may look like one."""
    marker = bytearray(make_control_batch(3, producer_id=7, committed=True))
    marker[-7:-1] = struct.pack(">hi", 0, OLD << 8)
    struct.pack_into(">I", marker, 17, crc32c(bytes(marker[CRC_START:])))
    text = json.dumps({"type": "record", "name": "Byte", "fields": [{"name": "x", "type": "int"}]})
    made = rewrite(backup, held=registry(OLD, text), there=registry(NEW, text))
    chain = replace(chain_of(backup, (0, 4, [batch(0, 1, 2), bytes(marker)])), rewrite=made)
    *_, last = stored_log(chain, backup.store)
    assert bytes(last.header.view(last.data)) == bytes(marker)


def test_what_is_left_is_told_with_the_first_offset(backup: Backup) -> None:
    records = [Record(0, 0, 0, None, number(0)), *(Record(n, n, 0, None, framed(OLD, b"?")) for n in (4, 5))]
    chain = replace(chain_of(backup, (0, 6, [bytes(encode(records))])), rewrite=rewrite(backup))
    view = view_of(chain, backup)
    values(view)
    left = LeftFields(reason=NO_FIT, partition=SOURCE.partition, first_offset=4, fields=2)
    assert counts_of([view.rewriting]) == RewriteCounts(changed=1, left=(left,))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_grew_is_split_and_keeps_offsets_times_and_producer(backup: Backup, codec: int) -> None:
    stored = batch(*range(0, 40, 2), codec=codec, producer=7)
    log = [stored, make_control_batch(40, producer_id=7, committed=True)]
    whole = replace(chain_of(backup, (0, 41, log)), rewrite=rewrite(backup, limit_bytes=150))
    batches = list(view_of(whole, backup).batches())
    assert len(batches) > 1
    for part in batches:
        data = part.header.view(part.data)
        verify_crc(data, scan(data))
        assert (len(data) <= 150, part.header.producer_id, part.header.is_transactional) == (True, 7, True)
        assert part.header.codec == codec
    records = [record for part in batches for record in part.records()]
    assert [(r.offset, r.timestamp_ms, r.value) for r in records] == [(n, n, number(n, NEW)) for n in range(0, 40, 2)]


def test_a_single_record_is_never_split(backup: Backup) -> None:
    chain = replace(chain_of(backup, (0, 2, [batch(0, 1)])), rewrite=rewrite(backup, limit_bytes=10))
    assert [batch.header.record_count for batch in view_of(chain, backup).batches()] == [1, 1]


@pytest.mark.parametrize("x", [0.0, float("nan"), float("inf")], ids=["a number", "no number", "infinite"])
def test_a_proof_finds_the_same_meaning_in_any_value(backup: Backup, x: float) -> None:
    stored = bytes(encode([Record(0, 0, 0, None, number(x))]))
    chain = replace(chain_of(backup, (0, 1, [stored])), rewrite=rewrite(backup))
    view = view_of(chain, backup, proves=True)
    list(view.batches())
    assert view.rewriting is not None
    assert view.rewriting.finding is None


OTHER = json.dumps({**NUMBER, "fields": [{"name": "y", "type": "double"}]})
UNREADABLE = json.dumps({**NUMBER, "fields": [{"name": "x", "type": "string"}]})


@pytest.mark.parametrize("there", [registry(NEW, OTHER), registry(NEW, UNREADABLE), registry(NEW + 1)])
def test_a_proof_finds_that_the_target_says_otherwise(backup: Backup, there: RegistrySnapshot) -> None:
    chain = replace(chain_of(backup, (0, 3, [batch(0, 1, 2)])), rewrite=rewrite(backup, there=there))
    for proves, has_finding in ((True, True), (False, False)):
        view = view_of(chain, backup, proves=proves)
        list(view.batches())
        assert view.rewriting is not None
        assert (view.rewriting.finding is not None) == has_finding


def test_a_proof_decodes_the_first_of_each_id_and_one_in_a_thousand(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    monkeypatch.setattr(rewritten_ids, "_is_same", lambda *meanings: decoded.append(meanings) or True)
    count = 2 * SAMPLED_EVERY + 10
    log = [batch(*range(start, min(start + 500, count))) for start in range(0, count, 500)]
    chain = replace(chain_of(backup, (0, count, log)), rewrite=rewrite(backup))
    list(view_of(chain, backup, proves=True).batches())
    assert len(decoded) == 3


def test_ids_that_are_missing_or_others_are_damage(backup: Backup) -> None:
    chain = chain_of(backup, (0, 3, [batch(0, 1, 2)]))
    made = rewrite(backup)
    with pytest.raises(DamagedObject):
        view_of(replace(chain, rewrite=IdRewrite(ref=replace(made.ref, hash="blake3:00"))), backup)
    backup.store.delete(made.ref.key)
    with pytest.raises(DamagedObject):
        view_of(replace(chain, rewrite=made), backup)


def test_a_transaction_that_ends_between_two_parts_of_a_split_batch_is_ended(backup: Backup) -> None:
    """As without a split: a reader of committed records would wait for ever."""
    made, log = rewrite(backup, limit_bytes=150), [batch(*range(0, 40, 2), producer=7)]
    source = chain_of(backup, (0, 39, log))
    for end in range(1, 40):
        for pieces in (
            SourcePieces(replace(source, end=end), backup.store),
            SourcePieces(replace(source, end=end, rewrite=made), backup.store),
        ):
            ends = [piece for piece in pieces.pieces() if isinstance(piece, TransactionEnd)]
            assert ends == [TransactionEnd(end - 1, end, 7, committed=False)]
