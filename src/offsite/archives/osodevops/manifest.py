"""`manifest.json`: the only list of a backup's files. Pure: reads the manifest and never trusts the times.

Offsets are half-open here, unlike in the file (segments and `pruned` include the last offset, `gaps` do not).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from offsite.archives.archive import ArchiveHole
from offsite.archives.files import is_partition
from offsite.archives.osodevops.fields import NotTheTools, ToolObject
from offsite.log.range import LogRange, Span, TopicPartition, uncovered
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS

__all__ = ["ListedSegment", "Manifest", "ManifestPartition", "ManifestTopic"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ListedSegment:
    """A file with offsets in `[start, end)`, by the manifest or the file's own header. `key`: path below the archive's
    root. Unknown values: `records` -1, `sha256` empty. `size_bytes`: of the whole file."""

    start: int
    end: int
    key: str
    size_bytes: int
    records: int = -1
    sha256: str = ""

    @property
    def offsets(self) -> str:
        return f"offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPartition:
    """A partition in a manifest. `segments`: rising by start, possibly overlapping; `lost`: ranges pruned, or never
    available."""

    partition: int
    segments: tuple[ListedSegment, ...]
    lost: tuple[LogRange, ...] = ()

    @property
    def end(self) -> int | None:
        """The first offset not handled by the tool; None if the tool handled none."""
        return max((end for _, end in self.spans()), default=None)

    def spans(self) -> list[Span]:
        """Return the accounted offsets as rising `[start, end)` ranges."""
        lost = [(lost_range.start, lost_range.end) for lost_range in self.lost]
        return sorted([(segment.start, segment.end) for segment in self.segments] + lost)

    def holes(self) -> Iterator[ArchiveHole]:
        """Yield lost ranges outside every segment, an offset once, rising."""
        next_offset = 0
        segment_spans = sorted((segment.start, segment.end) for segment in self.segments)
        for lost in sorted(self.lost):
            for start, end in uncovered(max(lost.start, next_offset), lost.end, segment_spans):
                yield ArchiveHole(range=replace(lost, start=start, end=end), reason="retention")
            next_offset = max(next_offset, lost.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTopic:
    topic: str
    partition_count: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    partitions: tuple[ManifestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of the archive below `prefix` (empty, or ending in `/`)."""

    prefix: str
    backup_id: str = ""
    cluster_id: str = ""
    topics: tuple[ManifestTopic, ...] = ()
    document: ToolObject = field(default_factory=lambda: ToolObject.of({}, "the file"))
    """The whole file, with members unknown to offsite."""

    @classmethod
    def parse(cls, data: bytes, *, prefix: str) -> Manifest:
        """Parse the manifest in `data`. Raises `NotTheTools`."""
        document = ToolObject.parse(data)
        backup_id = document.text("backup_id")
        return cls(
            prefix=prefix,
            backup_id=backup_id,
            cluster_id=document.optional_text("source_cluster_id") or "",
            topics=tuple(_topic(topic, f"{backup_id}/", prefix) for topic in document.children("topics")),
            document=document,
        )

    def partitions(self) -> Iterator[tuple[TopicPartition, ManifestPartition]]:
        for topic in self.topics:
            for partition in topic.partitions:
                yield TopicPartition(topic=topic.topic, partition=partition.partition), partition

    def segments(self) -> Iterator[ListedSegment]:
        for _, partition in self.partitions():
            yield from partition.segments


def _topic(fields: ToolObject, stored_prefix: str, prefix: str) -> ManifestTopic:
    topic = fields.text("name")
    partitions = [
        _partition(partition_document, topic, stored_prefix, prefix)
        for partition_document in fields.children("partitions")
    ]
    partitions.sort(key=lambda partition: partition.partition)
    listed_count = max((partition.partition for partition in partitions), default=-1) + 1
    count = max(listed_count, fields.integer_or("original_partition_count", 0))
    if count > MAX_PARTITIONS:
        raise NotTheTools(f"{count} partitions of topic {topic!r} are invalid")
    return ManifestTopic(
        topic=topic,
        partition_count=count,
        replication_factor=fields.integer_or("source_replication_factor", -1),
        configs=fields.text_map("configurations"),
        partitions=tuple(partitions),
    )


def _partition(fields: ToolObject, topic: str, stored_prefix: str, prefix: str) -> ManifestPartition:
    partition = fields.integer("partition_id")
    if not is_partition(partition):
        raise NotTheTools(f"partition {partition} of topic {topic!r} is invalid")
    segments = [_segment(segment_document, stored_prefix, prefix) for segment_document in fields.children("segments")]
    lost = [*_ranges(fields, "gaps", last_is_inside=0), *_ranges(fields, "pruned", last_is_inside=1)]
    return ManifestPartition(
        partition=partition,
        segments=tuple(sorted(segments)),
        lost=tuple(LogRange(topic=topic, partition=partition, start=start, end=end) for start, end in lost),
    )


def _segment(fields: ToolObject, stored_prefix: str, prefix: str) -> ListedSegment:
    start, end = _range(fields, last_is_inside=1)
    return ListedSegment(
        key=prefix + fields.text("key").removeprefix(stored_prefix),
        start=start,
        end=end,
        size_bytes=fields.integer_or("compressed_size", 0),
        records=fields.integer_or("record_count", -1),
        sha256=(fields.optional_text("sha256") or "").lower(),
    )


def _ranges(fields: ToolObject, name: str, *, last_is_inside: int) -> list[tuple[int, int]]:
    return [_range(range_document, last_is_inside=last_is_inside) for range_document in fields.children(name)]


def _range(fields: ToolObject, *, last_is_inside: int) -> tuple[int, int]:
    start, end = fields.integer("start_offset"), fields.integer("end_offset") + last_is_inside
    if not 0 <= start <= end <= MAX_OFFSET:
        raise NotTheTools(f"offsets from {start} to {end} are invalid")
    return start, end
