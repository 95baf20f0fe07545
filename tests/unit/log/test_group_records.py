from __future__ import annotations

import struct

import pytest

from offsite.log.batch import scan
from offsite.log.group_fold import GroupFold, GroupPartition, OffsetRecord, parse_group_record
from offsite.log.group_offsets import CommittedOffset
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import DamagedBatch
from tests.batches import make_control_batch

OF = GroupPartition("billing", "orders", 7)
TIMES = struct.pack(">qq", 1_700_000_000_000, 1_700_000_999_000)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def key(of: GroupPartition = OF, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(of.group) + text(of.topic) + struct.pack(">i", of.partition)


def value(offset: int, *, version: int = 3, epoch: int = 5, metadata: str = "m") -> bytes:
    head = struct.pack(">hq", version, offset)
    if version == 4:
        tagged_topic_id = b"\1\0\x10" + bytes(16)
        return (
            head
            + struct.pack(">i", epoch)
            + bytes([len(metadata) + 1])
            + metadata.encode()
            + TIMES[:8]
            + tagged_topic_id
        )
    times = TIMES if version == 1 else TIMES[:8]
    return head + (struct.pack(">i", epoch) if version == 3 else b"") + text(metadata) + times


def record(position: int, of: GroupPartition = OF, offset: int | None = 0, *, time_ms: int = 1000) -> Record:
    return Record(position, time_ms, 0, key(of), None if offset is None else value(offset))


def fed(fold: GroupFold, *batches: bytes | bytearray) -> GroupFold:
    for batch in batches:
        fold.feed(memoryview(batch), scan(batch))
    return fold


def offsets(fold: GroupFold) -> dict[GroupPartition, int]:
    return {
        GroupPartition(group.group, topic.topic, partition): offset
        for group in fold.table().values()
        for topic in group.topics
        for partition, offset in topic.by_partition().items()
    }


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("key_version", [0, 1])
def test_every_version_of_a_commit_is_read(version: int, key_version: int) -> None:
    parsed = parse_group_record(Record(3, 0, 0, key(version=key_version), value(42, version=version)))
    assert parsed is not None
    assert (parsed.position, parsed.group_partition) == (3, OF)
    assert parsed.committed() == CommittedOffset(7, 42, 5 if version >= 3 else -1, "m")


def test_long_and_foreign_metadata_of_the_flexible_version_is_read() -> None:
    long = "ü" * 100
    packed = struct.pack(">hqi", 4, 1, 0) + b"\xc9\x01" + long.encode() + TIMES[:8] + b"\0"
    parsed = parse_group_record(Record(0, 0, 0, key(), packed))
    assert parsed is not None
    assert parsed.committed().metadata == long


@pytest.mark.parametrize("empty", [None, b""])
def test_an_empty_value_removes_the_commit(empty: bytes | None) -> None:
    assert parse_group_record(Record(3, 0, 0, key(), empty)) == OffsetRecord(3, OF, None)


@pytest.mark.parametrize(
    "unknown",
    [
        Record(0, 0, 0, struct.pack(">h", 2) + text("billing"), b"\0\3..."),  # a classic group's description
        Record(0, 0, 0, struct.pack(">h", 3) + b"\x08billing", b""),  # a consumer group's, KIP-848
        Record(0, 0, 0, struct.pack(">h", 99), b"?"),
        Record(0, 0, 0, key(), struct.pack(">hq", 5, 42)),
        Record(0, 0, 0, None, None),
    ],
)
def test_records_of_other_kinds_and_unknown_versions_are_skipped(unknown: Record) -> None:
    assert parse_group_record(unknown) is None
    assert fed(GroupFold(), encode([unknown])).table() == {}


@pytest.mark.parametrize("size", [3, 10, 12, 20])
def test_a_cut_key_is_damage(size: int) -> None:
    with pytest.raises(DamagedBatch, match="offset 9"):
        parse_group_record(Record(9, 0, 0, key()[:size], value(1)))


@pytest.mark.parametrize("size", [1, 9, 13, 16])
def test_a_cut_commit_that_lasts_is_damage(size: int) -> None:
    fold = fed(GroupFold(), encode([Record(9, 0, 0, key(), value(1)[:size])]))
    with pytest.raises(DamagedBatch, match="offset 9"):
        fold.table()


def test_the_last_commit_counts_and_a_removal_removes() -> None:
    other = OF._replace(partition=8)
    fold = fed(GroupFold(), encode([record(0, offset=1), record(1, other, 5), record(2, offset=9)]))
    assert offsets(fold) == {OF: 9, other: 5}
    assert offsets(fed(fold, encode([record(3, other, None)]))) == {OF: 9}


def test_a_group_that_was_deleted_later_is_known_at_the_time_before() -> None:
    batches = encode([record(0, offset=4, time_ms=1000)]), encode([record(1, offset=None, time_ms=2000)])
    assert offsets(fed(GroupFold(until_ms=1999), *batches)) == {OF: 4}
    assert offsets(fed(GroupFold(until_ms=2000), *batches)) == {}


def transactional(*records: Record, producer_id: int = 7) -> bytearray:
    return encode(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def test_a_transactional_commit_counts_from_its_commit_marker_on() -> None:
    fold = fed(GroupFold(), encode([record(0, offset=1)]), transactional(record(1, offset=8)))
    assert offsets(fold) == {OF: 1}
    assert offsets(fed(fold, make_control_batch(2, producer_id=7, committed=True))) == {OF: 8}


def test_an_aborted_commit_never_counts() -> None:
    fold = fed(GroupFold(), transactional(record(0, offset=8)), make_control_batch(1, producer_id=7, committed=False))
    assert offsets(fold) == {}


def test_a_transactional_commit_does_not_undo_a_later_plain_one() -> None:
    fold = fed(GroupFold(), transactional(record(0, offset=8)), encode([record(1, offset=20)]))
    assert offsets(fed(fold, make_control_batch(2, producer_id=7, committed=True))) == {OF: 20}


def test_the_table_has_columns_by_rising_partition() -> None:
    fold = fed(GroupFold(), encode([record(0, OF._replace(partition=9), 1), record(1, OF, 2)]))
    (topic,) = fold.table()["billing"].topics
    assert list(topic) == [CommittedOffset(7, 2, 5, "m"), CommittedOffset(9, 1, 5, "m")]
