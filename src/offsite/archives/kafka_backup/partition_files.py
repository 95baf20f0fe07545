"""The files of a partition, found from names alone, and what they contradict before a record is read: files of another
version, missing segments.

    <topic>/index_partition_000                                      partition index
    <topic>/segment_partition_000_from_offset_0000000000_index       segment index
    <topic>/segment_partition_000_from_offset_0000000000_records     records
    <topic>/consumer_offsets_partition_000                           committed offsets of groups, JSON

Numbers are padded to 3 and 10 digits and grow beyond. The folder is the topic: users rename a topic by renaming the
folder. The partition index is a version byte, then per segment the stem (length i32, UTF-8) and start (i64). It only
saves a listing: file names hold the same facts, and offsite's reader trusts the names. The index may lag after a
writer's crash, and may name segments deleted since.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from offsite.archives.archive import Damage, LostOffset, OnDamage
from offsite.archives.files import Files, check_claims
from offsite.log.range import TopicPartition

_SEGMENT = re.compile(r"(segment_partition_([0-9]+)_from_offset_([0-9]+))_(records|index)")
_PARTITION_FILE = re.compile(r"(index|consumer_offsets)_partition_([0-9]+)")

RECORDS, INDEX = "records", "index"
PARTITION_INDEX, CONSUMER_OFFSETS = "index", "consumer_offsets"
NO_FILE = -1
VERSION = b"\x01"
_LENGTH = struct.Struct(">i")
_START = struct.Struct(">q")
_LONGEST_STEM_BYTES = 200  # twice the size of two numbers of 20 digits with the words around


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """The two files of a segment; a missing file has the size `NO_FILE`. `start`: the offset in the name."""

    topic: str
    partition: int
    start: int
    stem: str
    records_bytes: int = NO_FILE
    index_bytes: int = NO_FILE

    @property
    def records_key(self) -> str:
        return records_key(self.topic, self.stem)

    @property
    def index_key(self) -> str:
        return index_key(self.topic, self.stem)


@dataclass(slots=True, kw_only=True)
class PartitionFiles:
    """The files of a partition. `segments`: with a records file, ordered by start; `orphan_indexes`: without a records
    file."""

    topic: str
    partition: int
    segments: list[SegmentFile] = field(default_factory=list)
    orphan_indexes: list[SegmentFile] = field(default_factory=list)
    partition_index: str | None = None
    group_file: str | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)


def list_partitions(files: Files, topic: str | None = None) -> list[PartitionFiles]:
    """Return every partition with a file of any kind, by topic and number. Unknown names are ignored. Raises
    `DamagedArchive` for an impossible partition or offset in a name."""
    folders: dict[tuple[str, int], _Folder] = {}
    for info in files.list("" if topic is None else f"{topic}/"):
        folder, separator, name = info.key.rpartition("/")
        if separator and "/" not in folder:
            _note(folders, folder, name, info.size_bytes)
    return [folders[key].partition_files(*key) for key in sorted(folders)]


def list_partition(files: Files, topic: str, partition: int) -> PartitionFiles:
    """Return the files of a partition; possibly none."""
    matching = (candidate for candidate in list_partitions(files, topic) if candidate.partition == partition)
    return next(matching, PartitionFiles(topic=topic, partition=partition))


class _Folder:
    """The files of a partition found so far."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[int, str], dict[str, int]] = {}
        self.others: dict[str, str] = {}

    def partition_files(self, topic: str, partition: int) -> PartitionFiles:
        segments = list(self._segments(topic, partition))
        return PartitionFiles(
            topic=topic,
            partition=partition,
            segments=[segment for segment in segments if segment.records_bytes != NO_FILE],
            orphan_indexes=[segment for segment in segments if segment.records_bytes == NO_FILE],
            partition_index=self.others.get(PARTITION_INDEX),
            group_file=next((key for kind, key in self.others.items() if kind != PARTITION_INDEX), None),
        )

    def _segments(self, topic: str, partition: int) -> Iterator[SegmentFile]:
        for (start, stem), sizes in sorted(self.sizes.items()):
            yield SegmentFile(
                topic=topic,
                partition=partition,
                start=start,
                stem=stem,
                records_bytes=sizes.get(RECORDS, NO_FILE),
                index_bytes=sizes.get(INDEX, NO_FILE),
            )


def _note(folders: dict[tuple[str, int], _Folder], topic: str, name: str, size_bytes: int) -> None:
    if (segment := match_segment_file(name)) is not None:
        stem, partition, start, end = segment
        check_claims(f"{topic}/{name}", partition=partition, start=start)
        folder = folders.setdefault((topic, partition), _Folder())
        folder.sizes.setdefault((start, stem), {})[end] = size_bytes
    elif (other := match_partition_file(name)) is not None:
        kind, partition = other
        check_claims(f"{topic}/{name}", partition=partition)
        folders.setdefault((topic, partition), _Folder()).others[kind] = f"{topic}/{name}"


class IndexedSegment(NamedTuple):
    """An entry, with the position in the file."""

    stem: str
    start: int
    position: int = 0


def encode_partition_index(segments: Iterable[tuple[str, int]]) -> bytes:
    """Encode the whole file, from stems and start offsets in rising order of offsets."""
    return VERSION + b"".join(encode_entry(stem, start) for stem, start in segments)


def encode_entry(stem: str, start: int) -> bytes:
    name = stem.encode()
    return _LENGTH.pack(len(name)) + name + _START.pack(start)


def decode_partition_index(data: bytes) -> list[IndexedSegment]:
    """Decode the entries up to the first torn or impossible entry. `data` begins with the version byte, or is empty."""
    entries = []
    at = len(VERSION)
    while (entry := _entry_at(data, at)) is not None:
        entries.append(entry)
        at += _LENGTH.size + len(entry.stem.encode()) + _START.size
    return entries


def _entry_at(data: bytes, at: int) -> IndexedSegment | None:
    if at + _LENGTH.size > len(data):
        return None
    (name_bytes,) = _LENGTH.unpack_from(data, at)
    name_start = at + _LENGTH.size
    if not 0 < name_bytes <= _LONGEST_STEM_BYTES or name_start + name_bytes + _START.size > len(data):
        return None
    try:
        stem = data[name_start : name_start + name_bytes].decode()
    except UnicodeDecodeError:
        return None
    return IndexedSegment(stem, _START.unpack_from(data, name_start + name_bytes)[0], at)


def find_sound_segments(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> list[SegmentFile]:
    """Return the segments with readable records. Reports unreadable segments, indexes of an unknown version (their
    segments are read without), and missing segments listed by the partition index between existing segments.

    Missing first segments are fine: people delete old segments. Missing, short and torn indexes are fine: crashes leave
    such indexes.
    """
    _check_partition_index(files, partition, on_damage)
    for segment in partition.segments:
        is_sound(files, segment.index_key, segment.index_bytes, on_damage)
    return [
        segment
        for segment in partition.segments
        if is_sound(files, segment.records_key, segment.records_bytes, with_start_offset(segment, on_damage))
    ]


def with_start_offset(segment: SegmentFile, on_damage: OnDamage) -> OnDamage:
    """Make an `OnDamage` that adds the start offset of a completely unreadable segment."""
    lost = LostOffset(topic=segment.topic, partition=segment.partition, offset=segment.start)
    return lambda damage: on_damage(replace(damage, lost_at=lost))


def is_sound(files: Files, key: str, size_bytes: int, on_damage: OnDamage) -> bool:
    """Whether the file has the known version, or is too short for a version; reports another version."""
    version = files.get_range(key, 0, 1) if size_bytes > 0 else b""
    if version and version != VERSION:
        on_damage(Damage(file=key, position=0, problem=f"its version is {version[0]}, but only version 1 is supported"))
    return not version or version == VERSION


def _check_partition_index(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> None:
    key = partition.partition_index
    data = (files.get(key) if key is not None else b"") or b""
    if key is None or not is_sound(files, key, len(data), on_damage) or not partition.segments:
        return
    present = {segment.stem for segment in partition.segments}
    for entry in decode_partition_index(data):
        if entry.stem not in present and stem_start(entry.stem) != entry.start:
            on_damage(Damage(file=key, position=entry.position, problem="it names a segment that cannot exist"))
        elif entry.stem not in present and entry.start > partition.segments[0].start:
            missing = records_key(partition.topic, entry.stem)
            lost = LostOffset(topic=partition.topic, partition=partition.partition, offset=entry.start)
            problem = f"{missing} is missing"
            on_damage(Damage(file=key, position=entry.position, problem=problem, lost_at=lost))
