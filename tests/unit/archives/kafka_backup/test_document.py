"""The files of an archive, byte by byte as the tool's own document describes them, written down a second time."""

from __future__ import annotations

import struct

from offsite.archives.archive import ArchiveTopic
from offsite.archives.kafka_backup import KafkaBackupWriter
from offsite.archives.kafka_backup.groups import decode_group_file, encode_group_file
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.records.record import Record
from tests.unit.archives.kafka_backup.made_archives import INDEX, RECORDS, TOPIC, encoded, made, one_segment, record
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles

MAGIC = b"\x01"
LAST = Record(7, 1_767_225_600_007, 1, None, b"", (("", b"\xff"), ("trace", None)))
OFFSETS = b"""{
  "consumer-group1": 100,
  "consumer-group2": 200,
  "consumer-group3": 300,
  "consumer-group4": 300
}
"""


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def field(content: bytes | None) -> bytes:
    return int32(-1) if content is None else int32(len(content)) + content


def one_each() -> MemoryFiles:
    """A segment for each of two records: the smallest size that one can ask for."""
    return made([record(0), LAST], segment_bytes=1)


def test_a_folder_has_the_four_kinds_of_files_and_in_the_extreme_a_segment_for_each_record() -> None:
    files = one_each()
    group = GroupOffsets(group="a", topics=(TopicOffsets.of(TOPIC, [CommittedOffset(0, 7)]),))
    KafkaBackupWriter(files=files).finish([], [ArchiveTopic(topic=TOPIC, partitions=1)], {"a": group})
    stems = [f"{TOPIC}/segment_partition_000_from_offset_{start:010d}" for start in (0, 7)]
    segments = {f"{stem}_{kind}" for stem in stems for kind in ("records", "index")}
    kept = {f"{TOPIC}/index_partition_000", f"{TOPIC}/consumer_offsets_partition_000"}
    assert set(files.contents) == kept | segments
    assert files.contents[f"{TOPIC}/consumer_offsets_partition_000"] == b'{"a":7}'


def test_a_partition_index_is_the_name_and_the_start_of_each_segment() -> None:
    names = {start: f"segment_partition_000_from_offset_{start:010d}".encode() for start in (0, 7)}
    entries = b"".join(field(name) + int64(start) for start, name in names.items())
    assert one_each().contents[f"{TOPIC}/index_partition_000"] == MAGIC + entries


def test_a_segment_index_is_the_offset_the_position_and_the_length_of_each_record() -> None:
    files = one_segment([record(0), record(2), record(7)])
    first, second, third = (len(encoded(offset)) for offset in (0, 2, 7))
    rows = [(0, 1, first), (2, 1 + first, second), (7, 1 + first + second, third)]
    assert files.contents[INDEX] == MAGIC + b"".join(int64(number) for row in rows for number in row)


def test_records_are_their_fields_one_after_the_other() -> None:
    untimed = Record(3, -1, -1, b"key", None)
    assert one_segment([untimed, LAST]).contents[RECORDS] == b"".join(
        [
            MAGIC,
            *(int64(3), int32(-1), field(b"key"), field(None), int32(0)),
            *(int64(7), int32(1), int64(1_767_225_600_007), field(None), field(b""), int32(2)),
            *(field(b""), field(b"\xff"), field(b"trace"), field(None)),
        ]
    )


def test_the_offsets_of_the_example_are_read_and_written_as_such_a_map() -> None:
    offsets = {"consumer-group1": 100, "consumer-group2": 200, "consumer-group3": 300, "consumer-group4": 300}
    assert decode_group_file(OFFSETS) == decode_group_file(encode_group_file(offsets)) == offsets
