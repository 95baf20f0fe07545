"""Finds the files of an archive: topics, partitions and segments, from names alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from offsite.archives.files import Files, check_claims
from offsite.archives.kafka_backup.names import (
    INDEX,
    PARTITION_INDEX,
    RECORDS,
    index_key,
    match_partition_file,
    match_segment_file,
    records_key,
)
from offsite.log.range import TopicPartition

NO_FILE = -1


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
