from __future__ import annotations

from itertools import pairwise

import pytest

from offsite.archives.archive import Damage
from offsite.archives.kafka_backup import IndexState, inspect, inspect_records
from offsite.archives.kafka_backup.segments.record import encode_record
from offsite.model.errors import ArchiveNotFound, DamagedArchive
from tests.unit.archives.kafka_backup.made_archives import INDEX, RECORDS, TOPIC, made, one_segment, records
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles

PARTITION_INDEX = f"{TOPIC}/index_partition_000"


def index_state(files: MemoryFiles) -> IndexState:
    return inspect(files).partitions[0].segments[0].index


def partition_index_state(files: MemoryFiles) -> IndexState:
    return inspect(files).partitions[0].index


def test_segments_are_listed_with_offsets_records_and_sizes() -> None:
    files = made(records(3, 40))
    (partition,) = inspect(files).partitions
    assert (partition.topic, partition.partition, partition.records) == (TOPIC, 0, 37)
    assert partition.segments[0].first_offset == 3
    assert partition.segments[-1].last_offset == 39
    assert {segment.file: segment.size_bytes for segment in partition.segments} == {
        key: len(data) for key, data in files.contents.items() if key.endswith("_records")
    }
    assert partition.index is IndexState.OK
    assert not partition.has_groups


def test_the_state_of_a_segment_index_is_told() -> None:
    whole = one_segment(records(0, 9)).contents
    index = whole[INDEX]
    states = {
        b"": IndexState.TORN,
        b"\x01": IndexState.LAGGING,
        b"\x02" + index[1:]: IndexState.WRONG,
        index[:-24]: IndexState.LAGGING,
        index[:-1]: IndexState.TORN,
        index[:-1] + b"\x05": IndexState.WRONG,
        index: IndexState.OK,
    }
    for data, state in states.items():
        assert index_state(MemoryFiles({**whole, INDEX: data})) is state, data
    del whole[INDEX]
    assert index_state(MemoryFiles(whole)) is IndexState.MISSING


def test_a_deep_look_finds_what_is_wrong_between_the_ends() -> None:
    whole = one_segment(records(0, 9)).contents
    index = whole[INDEX]
    for data in (index[:30] + b"\x05" + index[31:], index + index[-24:]):
        files = MemoryFiles({**whole, INDEX: data})
        assert index_state(files) is IndexState.OK
        inspection = inspect(files, deep=True)
        assert inspection.partitions[0].segments[0].index is IndexState.WRONG
        assert [each.file for each in inspection.damage] == [INDEX]
    assert inspect(MemoryFiles(whole), deep=True) == inspect(MemoryFiles(whole))


def test_the_state_of_a_partition_index_is_told() -> None:
    whole = made(records(0, 40)).contents
    index = whole[PARTITION_INDEX]
    entry_bytes = 4 + 44 + 8
    states = {
        index: IndexState.OK,
        index[:-entry_bytes]: IndexState.LAGGING,
        index[:-1]: IndexState.TORN,
        b"": IndexState.TORN,
        b"\x09" + index[1:]: IndexState.WRONG,
    }
    for data, state in states.items():
        assert partition_index_state(MemoryFiles({**whole, PARTITION_INDEX: data})) is state, data
    del whole[RECORDS]
    assert partition_index_state(MemoryFiles(whole)) is IndexState.WRONG
    del whole[PARTITION_INDEX]
    assert partition_index_state(MemoryFiles(whole)) is IndexState.MISSING


def test_damage_is_listed_and_does_not_stop_the_inspection() -> None:
    files = one_segment(records(0, 9))
    files.contents[RECORDS] = files.contents[RECORDS][:-1]
    inspection = inspect(files)
    assert inspection.partitions[0].records == 8
    assert [each.file for each in inspection.damage] == [RECORDS]


def test_records_are_listed_with_their_place() -> None:
    some = records(5, 12)
    placed = list(inspect_records(one_segment(some), RECORDS))
    assert [each.record for each in placed] == some
    assert placed[0].position == 1
    for each, following in pairwise(placed):
        assert each.size_bytes == len(encode_record(each.record))
        assert each.position + each.size_bytes == following.position


def test_records_around_damage_are_listed_when_it_is_taken() -> None:
    files = one_segment(records(0, 9))
    data = bytearray(files.contents[RECORDS])
    data[60:80] = b"\xff" * 20
    files.contents[RECORDS] = bytes(data)
    with pytest.raises(DamagedArchive):
        list(inspect_records(files, RECORDS))
    damage: list[Damage] = []
    found = [each.record for each in inspect_records(files, RECORDS, damage.append)]
    assert damage
    assert found[-7:] == records(2, 9)


def test_a_place_or_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ArchiveNotFound):
        inspect(MemoryFiles())
    with pytest.raises(ArchiveNotFound, match="orders/nothing"):
        list(inspect_records(one_segment(records(0, 9)), "orders/nothing"))
