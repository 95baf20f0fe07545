from __future__ import annotations

import pytest

from offsite.archives.kafka_backup.partition_files import (
    list_partitions,
    match_partition_file,
    match_segment_file,
    segment_stem,
    stem_start,
)
from tests.unit.archives.kafka_backup.memory_files import MemoryFiles


@pytest.mark.parametrize(
    ("partition", "start", "stem"),
    [
        (0, 0, "segment_partition_000_from_offset_0000000000"),
        (12, 345, "segment_partition_012_from_offset_0000000345"),
        (1234, 12345678901, "segment_partition_1234_from_offset_12345678901"),
    ],
)
def test_numbers_are_padded_and_grow_beyond(partition: int, start: int, stem: str) -> None:
    assert segment_stem(partition, start) == stem
    assert stem_start(stem) == start
    assert match_segment_file(f"{stem}_records") == (stem, partition, start, "records")
    assert match_segment_file(f"{stem}_index") == (stem, partition, start, "index")


@pytest.mark.parametrize(
    "name", ["index_partition_", "consumer_offsets_partition_1x", "segment_partition_000_from_offset_0_data", "x"]
)
def test_other_names_match_nothing(name: str) -> None:
    assert match_segment_file(name) is None
    assert match_partition_file(name) is None


def test_segments_stand_in_the_order_of_their_offsets_not_of_their_names() -> None:
    starts = (9_999_999_999, 10_000_000_000, 5)
    files = MemoryFiles({f"t/{segment_stem(0, start)}_records": b"\x01" for start in starts})
    (partition,) = list_partitions(files)
    assert [segment.start for segment in partition.segments] == sorted(starts)
