from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from offsite.log.batch import CRC_START, scan
from offsite.log.range import LogRange
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.points.point_in_time import PartitionChain
from offsite.repository.backup import Backup
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.restore.write.pieces import DataPiece, LogPiece, SourcePieces, TransactionEnd, UnusedOffsets
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup
from tests.batches import chunk_of, make_control_batch

SOURCE = PARTITIONS[0]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_backup(open_store(str(tmp_path)))


def test_plain_batches_come_as_they_are(backup: Backup) -> None:
    log = [batch(0, 1, 2), batch(3, 4)]
    pieces = taken(backup, [(0, 5, log)])
    assert [(type(piece), piece.start, piece.end) for piece in pieces] == [(DataPiece, 0, 3), (DataPiece, 3, 5)]
    assert [bytes(piece.batch) for piece in pieces if isinstance(piece, DataPiece)] == log


def test_gaps_between_in_and_behind_batches_leave_no_offset_out(backup: Backup) -> None:
    pieces = taken(backup, [(0, 10, [batch(2, 3, 6), batch(8)])], end=12)
    assert spans(pieces) == [
        ("gap", 0, 2),
        ("data", 2, 4),
        ("gap", 4, 6),
        ("data", 6, 7),
        ("gap", 7, 8),
        ("data", 8, 9),
        ("gap", 9, 12),
    ]


def test_a_log_that_starts_inside_a_batch_has_the_whole_batch_and_counts_what_is_left(backup: Backup) -> None:
    source = chain(backup, [(102, 110, [batch(*range(100, 110))])], end=110)
    pieces = SourcePieces(source, backup.store)
    assert spans(list(pieces.pieces())) == [("data", 100, 110)]
    assert (pieces.first_offset, pieces.visible_records) == (100, 8)


@pytest.mark.parametrize(("target_end", "start"), [(0, 100), (100, 100), (104, 104), (106, 106), (120, 106)])
def test_in_a_target_that_ends_inside_that_batch_it_begins_there(backup: Backup, target_end: int, start: int) -> None:
    source = chain(backup, [(106, 110, [batch(*range(100, 103), *range(105, 110))])], end=110)
    pieces = SourcePieces(source, backup.store, target_end=target_end)
    (*gaps, last) = spans(list(pieces.pieces()))
    assert last == ("data", max(start, 105), 110)
    assert all(kind == "gap" or end == 103 for kind, _, end in gaps)
    assert (pieces.first_offset, pieces.visible_records) == (start, 4)


def test_behind_a_hole_only_the_records_that_were_left_come(backup: Backup) -> None:
    segments = [(0, 3, [batch(0, 1, 2)]), (102, 110, [batch(*range(100, 110))])]
    pieces = SourcePieces(chain(backup, segments, end=110), backup.store)
    assert spans(list(pieces.pieces())) == [("data", 0, 3), ("gap", 3, 102), ("data", 102, 110)]
    assert pieces.visible_records == 11


def test_the_end_may_lie_inside_a_batch(backup: Backup) -> None:
    assert spans(taken(backup, [(0, 10, [batch(*range(10))])], end=4)) == [("data", 0, 4)]


def test_broker_given_times_become_the_records_own(backup: Backup) -> None:
    (piece,) = taken(backup, [(0, 2, [log_append_time(batch(0, 1), 77)])])
    assert isinstance(piece, DataPiece)
    (header,) = scan(piece.batch)
    assert (header.timestamp_type, {r.timestamp_ms for r in decode(piece.batch, header)}) == (0, {77})


def test_transactions_keep_their_producers_and_outcomes(backup: Backup) -> None:
    log = [batch(0, 1, producer=7), batch(2, producer=8), control(3, 8, committed=False), control(4, 7, committed=True)]
    pieces = SourcePieces(chain(backup, [(0, 5, log)], end=5), backup.store)
    found = list(pieces.pieces())
    assert [piece.producer_id for piece in found if isinstance(piece, DataPiece)] == [7, 8]
    assert found[2:] == [TransactionEnd(3, 4, 8, committed=False), TransactionEnd(4, 5, 7, committed=True)]
    assert (pieces.visible_records, pieces.invisible_records, pieces.undecided) == (2, 1, 0)


def test_an_undecided_transaction_is_aborted_in_the_place_of_its_last_record(backup: Backup) -> None:
    log = [batch(0, 1, producer=7), batch(2), batch(3, 4, 5, producer=7), batch(6, producer=9), batch(7)]
    pieces = SourcePieces(chain(backup, [(0, 8, log)], end=8), backup.store)
    found = list(pieces.pieces())
    assert spans(found) == [
        ("data", 0, 2),
        ("data", 2, 3),
        ("data", 3, 5),
        ("outcome", 5, 6),
        ("outcome", 6, 7),
        ("data", 7, 8),
    ]
    assert found[3] == TransactionEnd(5, 6, 7, committed=False)
    assert (pieces.visible_records, pieces.invisible_records, pieces.undecided) == (2, 6, 2)


def test_what_is_decided_only_after_the_end_is_undecided(backup: Backup) -> None:
    log = [batch(0, 1, producer=7), batch(2), control(3, 7, committed=True)]
    assert spans(taken(backup, [(0, 4, log)], end=3)) == [("data", 0, 1), ("outcome", 1, 2), ("data", 2, 3)]


def test_what_is_open_where_a_hole_begins_is_aborted_there_whatever_its_producer_commits_behind_it(
    backup: Backup,
) -> None:
    before = [batch(0, 1, producer=7), batch(2)]
    behind = [batch(6, producer=7), control(7, 7, committed=True), batch(8, 9, producer=7)]
    source = chain(backup, [(0, 3, before), (6, 10, behind)], end=10)
    pieces = SourcePieces(replace(source, hole_starts=(3,)), backup.store)
    found = list(pieces.pieces())
    assert [piece for piece in found if isinstance(piece, TransactionEnd)] == [
        TransactionEnd(1, 2, 7, committed=False),
        TransactionEnd(7, 8, 7, committed=True),
        TransactionEnd(9, 10, 7, committed=False),
    ]
    assert (pieces.visible_records, pieces.invisible_records, pieces.undecided) == (2, 4, 2)


def test_an_empty_log_has_no_pieces(backup: Backup) -> None:
    pieces = SourcePieces(chain(backup, [], end=40), backup.store)
    assert (list(pieces.pieces()), pieces.first_offset) == ([], 40)


def taken(
    backup: Backup, segments: Sequence[tuple[int, int, Sequence[bytes]]], *, end: int | None = None
) -> list[LogPiece]:
    source = chain(backup, segments, end=end if end is not None else segments[-1][1])
    return list(SourcePieces(source, backup.store).pieces())


def chain(backup: Backup, segments: Sequence[tuple[int, int, Sequence[bytes]]], *, end: int) -> PartitionChain:
    """A partition in segments `(start, end, batches)`."""
    written = tuple(segment(backup, start, stop, b"".join(log)) for start, stop, log in segments)
    return PartitionChain(source=SOURCE, segments=written, end=end)


def segment(backup: Backup, start: int, end: int, log: bytes) -> Segment:
    log_range = LogRange(topic=SOURCE.topic, partition=SOURCE.partition, start=start, end=end)
    with SegmentWriter(
        store=backup.store, layout=backup.layout, log_range=log_range, topic_id=SOURCE.topic_id
    ) as writer:
        writer.append(chunk_of(log))
        (made,) = writer.close()
    return made


def batch(*offsets: int, producer: int | None = None) -> bytes:
    """Records at these offsets, in a transaction of `producer` if there is one."""
    records = [Record(offset, offset, 0, b"k", b"v") for offset in offsets]
    producer_id = -1 if producer is None else producer
    return bytes(encode(records, producer_id=producer_id, is_transactional=producer is not None))


def control(offset: int, producer_id: int, *, committed: bool) -> bytes:
    return make_control_batch(offset, producer_id=producer_id, committed=committed)


def log_append_time(data: bytes, time_ms: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(">h", changed, CRC_START, 0x08)
    struct.pack_into(">q", changed, 35, time_ms)
    struct.pack_into(">I", changed, 17, crc32c(changed[CRC_START:]))
    return bytes(changed)


def spans(pieces: Sequence[LogPiece]) -> list[tuple[str, int, int]]:
    names = {DataPiece: "data", UnusedOffsets: "gap", TransactionEnd: "outcome"}
    return [(names[type(piece)], piece.start, piece.end) for piece in pieces]
