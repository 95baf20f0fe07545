"""Names of the files of a partition, in kafka-backup's form. Pure.

    <topic>/index_partition_000                                      partition index
    <topic>/segment_partition_000_from_offset_0000000000_index       segment index
    <topic>/segment_partition_000_from_offset_0000000000_records     records
    <topic>/consumer_offsets_partition_000                           committed offsets of groups, JSON

Numbers are padded to 3 and 10 digits and grow beyond. The folder is the topic: users rename a topic by renaming the
folder.
"""

from __future__ import annotations

import re

_SEGMENT = re.compile(r"(segment_partition_([0-9]+)_from_offset_([0-9]+))_(records|index)")
_PARTITION_FILE = re.compile(r"(index|consumer_offsets)_partition_([0-9]+)")

RECORDS, INDEX = "records", "index"
PARTITION_INDEX, CONSUMER_OFFSETS = "index", "consumer_offsets"


def segment_stem(partition: int, start: int) -> str:
    """Return a segment's name in the partition index: the names of both files without the suffix."""
    return f"segment_partition_{partition:03d}_from_offset_{start:010d}"


def records_key(topic: str, stem: str) -> str:
    return f"{topic}/{stem}_{RECORDS}"


def index_key(topic: str, stem: str) -> str:
    return f"{topic}/{stem}_{INDEX}"


def partition_index_key(topic: str, partition: int) -> str:
    return f"{topic}/{PARTITION_INDEX}_partition_{partition:03d}"


def consumer_offsets_key(topic: str, partition: int) -> str:
    return f"{topic}/{CONSUMER_OFFSETS}_partition_{partition:03d}"


def match_segment_file(name: str) -> tuple[str, int, int, str] | None:
    """Return stem, partition, start offset and `RECORDS` or `INDEX`; None for another file."""
    match = _SEGMENT.fullmatch(name)
    return None if match is None else (match[1], int(match[2]), int(match[3]), match[4])


def match_partition_file(name: str) -> tuple[str, int] | None:
    """Return the kind of a partition's file, `PARTITION_INDEX` or `CONSUMER_OFFSETS`, and the partition; None for
    another file."""
    match = _PARTITION_FILE.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def stem_start(stem: str) -> int | None:
    """Return the start offset in a segment's stem; None for an invalid stem."""
    parts = match_segment_file(f"{stem}_{RECORDS}")
    return None if parts is None else parts[2]
