"""Reads a backup of osodevops/kafka-backup (0.1 to 0.25): segments of the manifest, and orphans on request.

The rest of offsite sees pieces and records only. Manifest times are ignored: the times belong to the first and last
record. Orphans are segments missing from every manifest: left behind by a crash of the tool, described by their own
headers. The manifest does not name the tool's version; `sha256` of segments exists since 0.21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from offsite.archives.archive import (
    ArchiveContents,
    ArchiveTopic,
    Damage,
    LostOffset,
    OnDamage,
    Piece,
    ignore_damage,
    refuse_damage,
)
from offsite.archives.files import Files
from offsite.archives.osodevops.group_snapshot import limit_to_ends, parse_snapshot
from offsite.archives.osodevops.manifest import (
    SEGMENT_KEY,
    SNAPSHOT,
    ListedSegment,
    Manifest,
    ManifestPartition,
    ManifestTopic,
    NotTheTools,
    find_prefix,
    read_manifest,
    segment_partition,
)
from offsite.archives.osodevops.segment import strip_added_headers
from offsite.archives.osodevops.segment_file import read_segment, segment_at
from offsite.archives.overlap import SortedRun, clip_to_piece, merge_runs
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import Span, TopicPartition, uncovered
from offsite.log.records.record import Record
from offsite.model.bounds import whole_number
from offsite.model.cleanup_policy import is_compacted
from offsite.model.names import amount

ALWAYS = (
    "timestamp types are unknown: CreateTime is assumed, and LogAppendTime topics have the times of their producers",
    "leader epochs, producer ids, batch boundaries, transactions and topic ids are not kept",
    "header names were converted to UTF-8",
    "committed offsets of groups are kept without metadata and leader epochs, and not at one moment with the records",
    "the tool keeps no checksum of its manifest, group snapshot and JSON segments: they cannot be verified",
    "up to version 0.23 of the tool, only the last header of each name was kept, and their order may have changed",
    "up to version 0.24 of the tool, records of aborted transactions and transaction markers may be among the records",
    "up to version 0.24 of the tool, its checkpoint could skip records that were not stored",
)
NULL_HEADERS = "up to version 0.17 of the tool, a null header value was stored as an empty value"
NO_CONFIGS = "configurations of topics are not kept"
NO_CLUSTER = "the source cluster is unknown"
_CONTROL_TYPES = (b"\0\0", b"\0\1")
PIECE_BYTES = 64 << 20
"""Stored bytes read by a task, about: a segment has at most some 128 MiB before compression."""


def make_pieces(
    manifest: Manifest, *, sizes: Mapping[str, int], piece_bytes: int, on_damage: OnDamage
) -> Iterator[Piece]:
    """Yield pieces of about `piece_bytes` stored bytes. `sizes`: of the existing files. A missing file is reported, and
    stays in its piece: reading finds the lost offsets."""
    for of, partition in manifest.partitions():
        for segment in partition.segments:
            if segment.key not in sizes:
                problem = f"is missing; the manifest lists it for {segment.offsets}"
                on_damage(Damage(file=segment.key, position=0, problem=problem))
        segments = [replace(listed, size_bytes=sizes.get(listed.key, 0)) for listed in partition.segments]
        if segments:
            yield from _cut(of, segments, piece_bytes)


def _cut(of: TopicPartition, segments: Sequence[ListedSegment], piece_bytes: int) -> Iterator[Piece]:
    """Cut at the start of a segment; a file across a cut is read for both sides."""
    starts = _starts(segments, piece_bytes)
    ends = [*starts[1:], max(segment.end for segment in segments)]
    for start, end in zip(starts, ends, strict=True):
        within = [segment for segment in segments if segment.start < end and segment.end > start]
        yield Piece(
            topic=of.topic,
            partition=of.partition,
            start=start,
            end=end,
            files=tuple(dict.fromkeys(segment.key for segment in within)),
            size_bytes=sum(segment.size_bytes for segment in within),
        )


def _starts(segments: Sequence[ListedSegment], piece_bytes: int) -> list[int]:
    starts: list[int] = []
    filled = piece_bytes
    for start, group in groupby(segments, key=lambda segment: segment.start):
        if filled >= piece_bytes:
            starts.append(start)
            filled = 0
        filled += sum(segment.size_bytes for segment in group)
    return starts


def find_orphans(keys: Iterable[str], manifest: Manifest) -> list[str]:
    """Return the keys of segments missing from every manifest, left behind by a crash of the tool."""
    listed = {segment.key for segment in manifest.segments()}
    return sorted(key for key in keys if key not in listed and segment_partition(key, manifest.prefix))


def with_orphans(files: Files, manifest: Manifest, orphans: Mapping[str, int], on_damage: OnDamage) -> Manifest:
    """Return the manifest as if the files (key → size) were listed."""
    by_partition: dict[TopicPartition, list[ListedSegment]] = {}
    for key, size_bytes in orphans.items():
        segment, of = segment_at(files, key, size_bytes), segment_partition(key, manifest.prefix)
        if segment is None or of is None:
            problem = "is not listed, and its first bytes are not those of a segment"
            on_damage(Damage(file=key, position=0, problem=problem, lost_at=_lost_at(key, of)))
        else:
            by_partition.setdefault(of, []).append(segment)
    topics = {topic.topic: topic for topic in manifest.topics}
    for of, segments in sorted(by_partition.items()):
        manifest_topic = topics.get(of.topic) or ManifestTopic(topic=of.topic, partition_count=0, partitions=())
        topics[of.topic] = _joined(manifest_topic, of.partition, segments)
    return replace(manifest, topics=tuple(topics.values()))


def _lost_at(key: str, of: TopicPartition | None) -> LostOffset | None:
    """Return the start offset in the name of a segment."""
    start = re.search(r"/segment-(\d+)", key)
    offset = whole_number(start[1]) if start else None
    return LostOffset(topic=of.topic, partition=of.partition, offset=offset) if of and offset is not None else None


def _joined(topic: ManifestTopic, number: int, segments: Sequence[ListedSegment]) -> ManifestTopic:
    partitions = {partition.partition: partition for partition in topic.partitions}
    manifest_partition = partitions.get(number) or ManifestPartition(partition=number, segments=())
    partitions[number] = replace(manifest_partition, segments=tuple(sorted((*manifest_partition.segments, *segments))))
    return replace(
        topic,
        partition_count=max(topic.partition_count, number + 1),
        partitions=tuple(partitions[partition_number] for partition_number in sorted(partitions)),
    )


def describe_fidelity(manifest: Manifest) -> list[str]:
    """Describe the properties of the source missing from a backup of the tool, a sentence per property."""
    is_recent = any(segment.sha256 for segment in manifest.segments())
    sentences = [*ALWAYS, *(() if is_recent else (NULL_HEADERS,))]
    if not any(topic.configs for topic in manifest.topics):
        sentences.append(NO_CONFIGS)
    if not manifest.cluster_id:
        sentences.append(NO_CLUSTER)
    return sentences + [sentence for topic in manifest.topics for sentence in _breaks(topic)]


def is_control_like(record: Record) -> bool:
    """Whether a record looks like a transaction marker: the tool up to 0.24 stored markers among the records."""
    key, value = record.key, record.value
    return (
        key is not None
        and value is not None
        and len(key) == 4
        and len(value) == 6
        and key[:2] == value[:2] == b"\0\0"
        and key[2:] in _CONTROL_TYPES
        and not record.headers
    )


def _breaks(topic: ManifestTopic) -> Iterable[str]:
    """Yield a sentence for every partition with gaps between segments; gaps are legal in a compacted topic."""
    if is_compacted(dict(topic.configs)):
        return
    for partition in topic.partitions:
        missing = list(_missing(partition))
        if missing:
            where = TopicPartition(topic=topic.topic, partition=partition.partition)
            count = sum(end - start for start, end in missing)
            yield (
                f"{where}: {count} offsets between segments are in no file, first {missing[0][0]} to "
                f"{missing[0][1] - 1}: transaction markers, compaction, or records that the tool lost"
            )


def _missing(partition: ManifestPartition) -> Iterable[Span]:
    spans = partition.spans()
    return uncovered(spans[0][0], max(end for _, end in spans), spans) if spans else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OsodevopsReader:
    """Reads osodevops backups. `backup_id`: needed when the root holds several backups. `adopt_orphans`: take segments
    missing from the manifest, left behind by a crash of the tool, or all segments without a manifest.
    `drop_control_like`: leave out records that look like transaction markers; else such records are noted."""

    files: Files
    backup_id: str = ""
    adopt_orphans: bool = False
    drop_control_like: bool = False
    piece_bytes: int = PIECE_BYTES

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        prefix = find_prefix(self.files, self.backup_id, needs_manifest=not self.adopt_orphans)
        listed = read_manifest(self.files, prefix, on_damage)
        manifest = listed or Manifest(prefix=prefix)
        sizes = {info.key: info.size_bytes for info in self.files.list(prefix)}
        fidelity = describe_fidelity(manifest)
        orphans = find_orphans(sizes, manifest)
        if orphans and (self.adopt_orphans or listed is None):
            manifest = with_orphans(self.files, manifest, {key: sizes[key] for key in orphans}, on_damage)
            fidelity.append(f"{amount(len(orphans), 'segment')} adopted that no manifest lists")
        elif orphans:
            fidelity.append(f"{amount(len(orphans), 'segment')} left out that the manifest does not list")
        groups, moved = self._groups(manifest, on_damage)
        return ArchiveContents(
            topics=tuple(_archive_topic(topic) for topic in manifest.topics),
            pieces=tuple(make_pieces(manifest, sizes=sizes, piece_bytes=self.piece_bytes, on_damage=on_damage)),
            fidelity=(*fidelity, *moved),
            groups=groups,
            holes=tuple(hole for _, partition in manifest.partitions() for hole in partition.holes()),
            cluster_id=manifest.cluster_id,
        )

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        match = SEGMENT_KEY.search(piece.files[0])
        prefix = piece.files[0][: match.start()] if match else find_prefix(self.files, self.backup_id)
        manifest = read_manifest(self.files, prefix, ignore_damage) or Manifest(prefix=prefix)  # `contents` has told
        runs = [
            SortedRun(file=segment.key, start=segment.start, open=partial(self._records, segment, on_damage))
            for segment in self._segments(piece, manifest)
        ]
        return clip_to_piece(piece, merge_runs(runs, on_damage))

    def _segments(self, piece: Piece, manifest: Manifest) -> Iterator[ListedSegment]:
        """Yield every entry of the manifest, also several entries for a file; then files without an entry."""
        unlisted = dict.fromkeys(piece.files)
        piece_keys = set(unlisted)
        for segment in manifest.segments():
            if segment.key in piece_keys:
                unlisted.pop(segment.key, None)
                yield segment
        for key in unlisted:
            if orphan := segment_at(self.files, key, 0):
                yield orphan

    def _records(self, segment: ListedSegment, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        """Yield the records of a file as sent by their producers."""
        first_marker: int | None = None
        for batch in read_segment(self.files, segment, on_damage):
            records = list(map(strip_added_headers, batch))
            markers = {record.offset for record in records if is_control_like(record)}
            if markers and first_marker is None:
                first_marker = min(markers)
            if markers and self.drop_control_like:
                records = [record for record in records if record.offset not in markers]
            yield records
        if first_marker is not None:
            outcome = "left out" if self.drop_control_like else "kept"
            problem = f"records that look like transaction markers were {outcome}, the first at offset {first_marker}"
            on_damage(Damage(file=segment.key, position=0, problem=problem, is_note=True))

    def _groups(self, manifest: Manifest, on_damage: OnDamage) -> tuple[dict[str, GroupOffsets], list[str]]:
        key = manifest.prefix + SNAPSHOT
        data = self.files.get(key)
        if data is None:
            return {}, []
        try:
            groups = parse_snapshot(data)
        except NotTheTools as error:
            on_damage(Damage(file=key, position=error.position, problem=str(error)))
            return {}, []
        ends = {of: partition.end for of, partition in manifest.partitions()}
        return limit_to_ends(groups, {of: end for of, end in ends.items() if end is not None})


def _archive_topic(topic: ManifestTopic) -> ArchiveTopic:
    return ArchiveTopic(
        topic=topic.topic,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=topic.configs,
    )
