"""Reads a backup of osodevops/kafka-backup (0.1 to 0.25): segments of the manifest, and orphans on request.

The rest of offsite sees pieces and records only. Manifest times are ignored: the times belong to the first and last
record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from offsite.archives.archive import ArchiveContents, ArchiveTopic, Damage, OnDamage, Piece, refuse_damage
from offsite.archives.files import Files
from offsite.archives.osodevops.added_headers import strip_added_headers
from offsite.archives.osodevops.contents import (
    describe_fidelity,
    find_orphans,
    is_control_like,
    make_pieces,
    with_orphans,
)
from offsite.archives.osodevops.fields import NotTheTools
from offsite.archives.osodevops.group_snapshot import limit_to_ends, parse_snapshot
from offsite.archives.osodevops.manifest import ListedSegment, Manifest, ManifestTopic
from offsite.archives.osodevops.place import SEGMENT_KEY, SNAPSHOT, find_prefix, read_manifest
from offsite.archives.osodevops.segment_file import read_segment, segment_at
from offsite.archives.overlap import SortedRun, clip_to_piece, merge_runs
from offsite.log.group_offsets import GroupOffsets
from offsite.log.records.record import Record

__all__ = ["PIECE_BYTES", "OsodevopsReader"]

PIECE_BYTES = 64 << 20
"""Stored bytes read by a task, about: a segment has at most some 128 MiB before compression."""


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
            fidelity.append(f"{len(orphans)} segments that no manifest lists were adopted")
        elif orphans:
            fidelity.append(f"{len(orphans)} segments that the manifest does not list were left out")
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
        manifest = read_manifest(self.files, prefix, lambda _: None) or Manifest(prefix=prefix)  # `contents` has told
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
