"""Reads a backup of osodevops/kafka-backup (0.1 to 0.25): what its manifest lists, and orphans if asked for.

The rest of offsite sees pieces and records only. Manifest times are never looked at: they are of first and last record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from offsite.archives.archive import ArchiveContents, ArchiveTopic, Damage, OnDamage, Piece, refuse_damage
from offsite.archives.files import Files
from offsite.archives.osodevops.added_headers import without_added_headers
from offsite.archives.osodevops.fidelity import fidelity_of, is_control_like
from offsite.archives.osodevops.fields import NotTheTools
from offsite.archives.osodevops.group_snapshot import parse_snapshot, within_ends
from offsite.archives.osodevops.manifest import Manifest, ManifestPartition, ManifestTopic, Segment
from offsite.archives.osodevops.place import SEGMENT_KEY, SNAPSHOT, find_prefix, read_manifest, segment_partition
from offsite.archives.osodevops.segment_file import read_segment, segment_at
from offsite.archives.overlap import Run, clipped, merged
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import TopicPartition
from offsite.log.record import Record
from offsite.model.errors import ArchiveNotFound

__all__ = ["PIECE_BYTES", "OsodevopsReader"]

PIECE_BYTES = 64 << 20
"""Stored bytes that one task reads, about: a segment is some 128 MiB before compression at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OsodevopsReader:
    """`backup_id` is needed when the root holds several backups. `adopt_orphans` takes segments that the manifest does
    not list, which a crash of the tool leaves behind, or all of them when there is no manifest. `drop_control_like`
    leaves out records that look like transaction markers; else they are noted.
    """

    files: Files
    backup_id: str = ""
    adopt_orphans: bool = False
    drop_control_like: bool = False
    piece_bytes: int = PIECE_BYTES

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        prefix = find_prefix(self.files, self.backup_id, needs_manifest=not self.adopt_orphans)
        listed = read_manifest(self.files, prefix, on_damage)
        if listed is None and not self.adopt_orphans and not self._has_manifest(prefix):
            raise ArchiveNotFound(f"{self.files.url} holds no manifest.json of backup {self.backup_id!r}")
        sizes = {info.key: info.size_bytes for info in self.files.list(prefix)}
        orphans = sorted(_orphans(sizes, listed, prefix))
        manifest = listed or Manifest(prefix=prefix)
        fidelity = fidelity_of(manifest)
        if orphans and (self.adopt_orphans or listed is None):
            manifest = self._adopting(manifest, {key: sizes[key] for key in orphans}, on_damage)
            fidelity.append(f"{len(orphans)} segments that no manifest lists were adopted")
        elif orphans:
            fidelity.append(f"{len(orphans)} segments that the manifest does not list were left out")
        groups, moved = self._groups(manifest, on_damage)
        return ArchiveContents(
            topics=tuple(_archive_topic(topic) for topic in manifest.topics),
            pieces=tuple(self._pieces(manifest, sizes, on_damage)),
            fidelity=(*fidelity, *moved),
            groups=groups,
            holes=tuple(hole for _, partition in manifest.partitions() for hole in partition.holes),
            cluster_id=manifest.cluster_id,
        )

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        match = SEGMENT_KEY.search(piece.files[0])
        prefix = piece.files[0][: match.start()] if match else find_prefix(self.files, self.backup_id)
        manifest = read_manifest(self.files, prefix, lambda _: None) or Manifest(prefix=prefix)  # `contents` has told
        runs = [
            Run(start=segment.start, open=partial(self._records, segment, on_damage))
            for segment in self._segments(piece, manifest)
        ]
        return clipped(piece, merged(runs))

    def _segments(self, piece: Piece, manifest: Manifest) -> Iterator[Segment]:
        """Every entry of the manifest, also when several name one file; then files that have none."""
        unlisted = dict.fromkeys(piece.files)
        wanted = set(unlisted)
        for segment in manifest.segments():
            if segment.key in wanted:
                unlisted.pop(segment.key, None)
                yield segment
        for key in unlisted:
            if orphan := segment_at(self.files, key, 0):
                yield orphan

    def _records(self, segment: Segment, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        """The records of one file as their producers made them."""
        like_control: list[int] = []
        for batch in read_segment(self.files, segment, on_damage):
            records = list(map(without_added_headers, batch))
            found = [record.offset for record in records if is_control_like(record)]
            like_control += found[:1] if like_control else found
            if found and self.drop_control_like:
                records = [record for record in records if not is_control_like(record)]
            yield records
        if like_control:
            on_damage(self._note(segment, like_control[0]))

    def _note(self, segment: Segment, offset: int) -> Damage:
        done = "left out" if self.drop_control_like else "kept"
        problem = f"records that look like transaction markers were {done}, the first at offset {offset}"
        return Damage(file=segment.key, position=0, problem=problem, is_note=True)

    def _has_manifest(self, prefix: str) -> bool:
        return self.files.get_range(f"{prefix}manifest.json", 0, 1) is not None

    def _adopting(self, manifest: Manifest, orphans: Mapping[str, int], on_damage: OnDamage) -> Manifest:
        """The manifest as if it listed these files (key → size) too."""
        found: dict[TopicPartition, list[Segment]] = {}
        for key, size_bytes in orphans.items():
            segment, of = segment_at(self.files, key, size_bytes), segment_partition(key, manifest.prefix)
            if segment is None or of is None:
                on_damage(Damage(file=key, position=0, problem="is not listed, and no segment by its first bytes"))
            else:
                found.setdefault(of, []).append(segment)
        return _with_segments(manifest, found)

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
        return within_ends(groups, {of: end for of, end in ends.items() if end is not None})

    def _pieces(self, manifest: Manifest, sizes: Mapping[str, int], on_damage: OnDamage) -> Iterator[Piece]:
        for of, partition in manifest.partitions():
            segments = []
            for segment in partition.segments:
                if segment.key in sizes:
                    segments.append(replace(segment, size_bytes=sizes[segment.key]))
                else:
                    problem = f"is missing; the manifest lists it for offsets {segment.start} to {segment.end - 1}"
                    on_damage(Damage(file=segment.key, position=0, problem=problem))
            yield from _pieces_of(of, segments, self.piece_bytes)


def _pieces_of(of: TopicPartition, segments: Sequence[Segment], piece_bytes: int) -> Iterator[Piece]:
    """Cut at the start of a segment; a file that reaches over a cut is read for both sides."""
    starts: list[int] = []
    filled = piece_bytes
    for start, group in groupby(segments, key=lambda segment: segment.start):
        if filled >= piece_bytes:
            starts.append(start)
            filled = 0
        filled += sum(segment.size_bytes for segment in group)
    ends = [*starts[1:], max((segment.end for segment in segments), default=0)]
    for start, end in zip(starts, ends, strict=True) if starts else ():
        within = [segment for segment in segments if segment.start < end and segment.end > start]
        yield Piece(
            topic=of.topic,
            partition=of.partition,
            start=start,
            end=end,
            files=tuple(segment.key for segment in within),
            size_bytes=sum(segment.size_bytes for segment in within),
        )


def _orphans(keys: Iterable[str], manifest: Manifest | None, prefix: str) -> set[str]:
    listed = {segment.key for segment in manifest.segments()} if manifest else set()
    return {key for key in keys if key not in listed and segment_partition(key, prefix)}


def _with_segments(manifest: Manifest, found: Mapping[TopicPartition, Sequence[Segment]]) -> Manifest:
    topics = {topic.topic: topic for topic in manifest.topics}
    for of, segments in sorted(found.items()):
        topic = topics.get(of.topic) or ManifestTopic(topic=of.topic, partition_count=0, partitions=())
        partitions = {partition.partition: partition for partition in topic.partitions}
        known = partitions.get(of.partition) or ManifestPartition(partition=of.partition, segments=())
        joined = sorted((*known.segments, *segments), key=lambda segment: (segment.start, segment.end, segment.key))
        partitions[of.partition] = replace(known, segments=tuple(joined))
        topics[of.topic] = replace(
            topic,
            partition_count=max(topic.partition_count, of.partition + 1),
            partitions=tuple(partitions[number] for number in sorted(partitions)),
        )
    return replace(manifest, topics=tuple(topics.values()))


def _archive_topic(topic: ManifestTopic) -> ArchiveTopic:
    return ArchiveTopic(
        topic=topic.topic,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        configs=topic.configs,
    )
