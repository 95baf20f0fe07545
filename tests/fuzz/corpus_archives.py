"""Archives as targets: a fresh export of each format, what other tools wrote, and what their formats allow."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from unittest.mock import patch

from offsite.archives import kafka_backup
from offsite.archives.archive import ArchiveTopic, Damage
from offsite.archives.formats import WriteOptions, open_reader, open_writer
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode_batches
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from tests.archive_records import odd_records, plain_records, write_range
from tests.fuzz.layers import layers_of
from tests.fuzz.places import NOW_MS, files_below
from tests.fuzz.reading import Reading
from tests.fuzz.renewal import renewed
from tests.fuzz.target import Files, Target, Trust
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles
from tests.unit.archives.trivadis.made_archives import container, lines, row

PEERS = Path(__file__).resolve().parents[1] / "fixtures" / "peers"
TOPIC = ArchiveTopic(topic="orders", partitions=2, replication_factor=1, configs=(("a.b", "1"),), topic_id="id")
GROUPS = {
    "g": GroupOffsets(
        group="g", kind="classic", state="Empty", topics=(TopicOffsets.of("orders", [CommittedOffset(0, 5, 3, "m")]),)
    )
}
_LONGEST_VALUE = 1_000
_FAR = 1 << 60
_BATCH_CODEC = 0
_JSON = ("manifest.json", "consumer-groups-snapshot.json")
"""The files of osodevops that have neither a hash nor a checksum."""


def export(kind: str, *, trust: Trust, compression: str | None = None, file_bytes: int | None = None) -> Target:
    return _target(kind, exported(kind, compression=compression, file_bytes=file_bytes), trust)


def peers(kind: str, folder: str, *, trust: Trust) -> Target:
    """An archive that another tool wrote; its format has no hash that covers all of it."""
    return _target(kind, files_below(PEERS / folder), trust)


def trivadis(*, trust: Trust = Trust.UNHASHED) -> Target:
    """Objects in each of the forms that the tool writes."""
    records = plain_records(0, 40)
    in_lines = [row(each, partition=1) for each in records[20:]]
    files = {
        "orders/0/orders-0-000000000000000.avro": container([row(each) for each in records[:10]], block_bytes=100),
        "orders/0/orders-0-000000000000010.avro": container([row(each) for each in records[10:20]], codec="deflate"),
        "orders/1/index-20.avro-messages": lines(in_lines[:10]),
        "orders/1/index-30.avro-messages": gzip.compress(lines(in_lines[10:]), mtime=0),
    }
    return _target("trivadis", files, trust)


def exported(kind: str, *, compression: str | None, file_bytes: int | None) -> dict[str, bytes]:
    """Two partitions in two runs each, with everything that the format can hold."""
    places = MemoryFiles()
    options = WriteOptions(lossy=True, compression=compression, segment_bytes=file_bytes)
    with patch.object(SystemClock, "now_ms", lambda _: NOW_MS):
        _export_into(places, kind, options)
    return places.contents


def _export_into(places: MemoryFiles, kind: str, options: WriteOptions) -> None:
    odd = [each for each in odd_records(40) if len(each.value or b"") < _LONGEST_VALUE]
    runs = [(0, plain_records(0, 30)), (0, odd), (1, plain_records(7, 20))]
    for partition, records in runs:
        writer = open_writer(kind, places, options)
        writer.ends()
        start = 30 if records is odd else records[0].offset
        written = write_range(writer, records, start=start, end=records[-1].offset + 1, partition=partition, at_once=10)
        writer.finish([written], [TOPIC], GROUPS)


def read_archive(kind: str, files: Files) -> Reading:
    """As an import does with --skip-damaged: all that is whole, as batches; damage is named."""
    found = Reading()
    with found.part():
        reader = open_reader(kind, MemoryFiles(dict(files)))
        damages: list[Damage] = []
        contents = reader.contents(damages.append)
        found.data["topics"] = contents.topics
        found.data["groups"] = dict(contents.groups)
        found.data["holes"] = contents.holes
        found.data["cluster"] = contents.cluster_id
        records: dict[tuple[str, int], list[Record]] = {}
        for piece in contents.pieces:
            with found.part():
                taken = records.setdefault((piece.topic, piece.partition), [])
                for run in reader.read(piece, damages.append):
                    taken += run
        found.data["records"] = records
        for some in records.values():
            with found.part():
                _as_batches(some)
        found.named += [str(each) for each in damages if not each.is_note]
        found.hear((*contents.fidelity, *(str(each) for each in damages if each.is_note)))
    return found


def appended(kind: str) -> Target:
    """A damaged archive that the next export would go on with: what it reads of it first, and what it then makes."""
    whole = exported(kind, compression=None, file_bytes=None)
    return Target(files=whole, read=partial(_append, kind), trust=Trust.RENEWED, seal=renewed, layers=layers_of)


def _append(kind: str, files: Files) -> Reading:
    places, found = MemoryFiles(dict(files)), Reading()
    with found.part():
        writer = open_writer(kind, places, WriteOptions(lossy=True))
        ends = writer.ends()
        found.data["ends"] = dict(ends)
        found.data["ids"] = dict(writer.topic_ids())
        found.data["left alone"] = writer.left_alone()
        start = ends.get(TopicPartition(topic=TOPIC.topic, partition=1), 0)
        if start < _FAR:  # or the records themselves could not be numbered
            written = write_range(writer, plain_records(start, start + 5), start=start, end=start + 5, partition=1)
            writer.finish([written], [TOPIC], GROUPS)
    return found


def tools() -> Target:
    """What shows and mends archives of kafka-backup."""
    return Target(
        files=exported("kafka-backup", compression=None, file_bytes=1_000),
        read=_use_tools,
        trust=Trust.RENEWED,
        layers=layers_of,
    )


def _use_tools(files: Files) -> Reading:
    places, found, damages = MemoryFiles(dict(files)), Reading(), list[Damage]()
    with found.part():
        found.data["inspected"] = kafka_backup.inspect(places, deep=True)
    for key in sorted(files):
        if key.endswith("_records"):
            with found.part():
                found.data[key] = list(kafka_backup.inspect_records(places, key, damages.append))
    with found.part():
        found.data["reindexed"] = kafka_backup.reindex(places)
    return found


def _as_batches(records: Iterable[Record]) -> None:
    """What was read must be fit to be stored."""
    for batch in encode_batches([list(records)], codec=_BATCH_CODEC):
        del batch


def _target(kind: str, files: Files, trust: Trust) -> Target:
    is_renewed = trust is Trust.RENEWED
    return Target(
        files=files,
        read=lambda mutant: read_archive(kind, mutant),
        trust=trust,
        seal=renewed if is_renewed else lambda known, key, data: {**known, key: data},
        layers=layers_of if is_renewed else lambda _key, _data: (),
        doubted=lambda key: kind != "osodevops" or key.endswith(_JSON),
    )
