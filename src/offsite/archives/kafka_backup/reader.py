"""Reads archives of kafka-backup segments: written by itadventurer/kafka-backup, crashed or not, or by offsite. A
partition is divided among tasks: small segments are joined, large segments are cut by their index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from offsite.archives.archive import ArchiveContents, ArchiveTopic, Damage, OnDamage, Piece, refuse_damage
from offsite.archives.files import Files
from offsite.archives.kafka_backup.groups import read_groups
from offsite.archives.kafka_backup.partition_files import (
    PartitionFiles,
    SegmentFile,
    find_sound_segments,
    list_partition,
    list_partitions,
    with_start_offset,
)
from offsite.archives.kafka_backup.segments.files import FIRST_POSITION, SegmentIndexFile
from offsite.archives.kafka_backup.segments.reader import SegmentExtent, SegmentRecords, find_extent
from offsite.archives.overlap import SortedRun, group_overlapping, merge_runs
from offsite.log.records.record import Record
from offsite.model.errors import ArchiveNotFound

PIECE_BYTES = 96 << 20
FIDELITY = (
    "kafka-backup keeps no topic settings, replication factor or topic id",
    "kafka-backup keeps no leader epochs, producer ids, transactions or batches",
    "kafka-backup keeps no checksums: its records, indexes and group files cannot be verified",
    "kafka-backup keeps committed offsets of groups without their metadata and leader epoch",
)
_SMALL_BYTES = 64 << 10
"""Of a records file: by default the tool makes files of 1 KiB, hundreds of thousands."""
EMPTY_AS_NULL = (
    "empty keys and header values were read as null, because you said that this archive is from before March 2020"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """An indivisible part: a group of overlapping segments, or a part of a segment."""

    start: int
    files: tuple[str, ...]
    size_bytes: int


def plan_pieces(files: Files, runs: Sequence[list[SegmentExtent]], piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """Yield disjoint, rising pieces of a partition. With damage behind the last record, the last piece has no end, so
    its task reports the damage. Yields nothing for no runs."""
    if not runs:
        return
    segment = runs[0][0].segment
    parts = [part for run in runs for part in _parts(files, run, piece_bytes)]
    joined = list(_joined(parts, piece_bytes))
    ends: list[int | None] = [part.start for part in joined[1:]]
    for part, end in zip(joined, [*ends, _end(runs[-1])], strict=True):
        yield Piece(
            topic=segment.topic,
            partition=segment.partition,
            start=part.start,
            end=end,
            files=part.files,
            size_bytes=part.size_bytes,
        )


def _end(last_run: Sequence[SegmentExtent]) -> int | None:
    is_whole = all(extent.ends_whole for extent in last_run)
    return max(extent.last for extent in last_run) + 1 if is_whole else None


def _parts(files: Files, run: list[SegmentExtent], piece_bytes: int) -> Iterator[_Part]:
    size_bytes = sum(extent.segment.records_bytes for extent in run)
    names = tuple(extent.segment.records_key for extent in run)
    cuts = _cuts(files, run[0], piece_bytes) if len(run) == 1 and run[0].is_indexed else {}
    starts = {0: run[0].first, **cuts}
    for (position, start), (end, _) in pairwise([*starts.items(), (size_bytes, 0)]):
        yield _Part(start, names, end - position)


def _cuts(files: Files, extent: SegmentExtent, piece_bytes: int) -> dict[int, int]:
    """Return position → offset of the records that begin further parts of a large segment."""
    index = SegmentIndexFile.of(files, extent.segment)
    cuts: dict[int, int] = {}
    lowest = extent.first
    for target in range(piece_bytes, extent.segment.records_bytes - piece_bytes // 2, piece_bytes):
        entry = index.entries(index.first_at(target), 1)
        if len(entry) and lowest < entry.offsets[0] <= extent.last and entry.positions[0] >= target:
            lowest = entry.offsets[0]
            cuts[entry.positions[0]] = lowest
    return cuts


def _joined(parts: Sequence[_Part], piece_bytes: int) -> Iterator[_Part]:
    group: list[_Part] = []
    size_bytes = 0
    for part in parts:
        if group and size_bytes + part.size_bytes > piece_bytes:
            yield _join(group)
            group, size_bytes = [], 0
        group.append(part)
        size_bytes += part.size_bytes
    yield _join(group)


def _join(group: Sequence[_Part]) -> _Part:
    names = dict.fromkeys(name for part in group for name in part.files)
    return _Part(group[0].start, tuple(names), sum(part.size_bytes for part in group))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBackupReader:
    """Reads kafka-backup archives. `files`: the folder above the topics' folders.

    `empty_as_null`: for archives written before 2020-02-28, which store null keys and null header values as empty.
    `own_group`: the group of the tool's own connector, always left out; by default `connect-backup-sink` (the name in
    the tool's script), else the only group whose name begins with `connect-`.
    """

    files: Files
    empty_as_null: bool = False
    own_group: str = ""
    piece_bytes: int = PIECE_BYTES

    def contents(self, on_damage: OnDamage = refuse_damage) -> ArchiveContents:
        """List the contents. File names decide the number of partitions. Reads a few bytes of every file, and whole
        segments without a trusted index. Reports files of an unknown version, and segments missing although indexed."""
        partitions = list_partitions(self.files)
        if not partitions:
            raise ArchiveNotFound(
                f"{self.files.url} has no topic folder with kafka-backup segments",
                hint="give the folder that contains the topic folders (target.dir of the connector)",
            )
        groups, left_out = read_groups(self.files, partitions, self.own_group)
        return ArchiveContents(
            topics=tuple(_topics(partitions)),
            pieces=tuple(piece for partition in partitions for piece in self._pieces(partition, on_damage)),
            fidelity=FIDELITY + ((EMPTY_AS_NULL,) if self.empty_as_null else ()) + left_out,
            groups=groups,
        )

    def read(self, piece: Piece, on_damage: OnDamage = refuse_damage) -> Iterator[Sequence[Record]]:
        """See `ArchiveReader`; memory is a few windows of 4 MiB, more only for a larger record."""
        names = set(piece.files)
        present = list_partition(self.files, piece.topic, piece.partition).segments
        segments = [segment for segment in present if segment.records_key in names]
        if len(segments) < len(names):
            gone = names - {segment.records_key for segment in segments}
            on_damage(Damage(file=min(gone), position=0, problem="it was removed after the archive was listed"))
        for records in merge_runs(list(self._runs(segments, piece, on_damage)), on_damage):
            yield _with_nulls(records) if self.empty_as_null else records

    def _runs(self, segments: Sequence[SegmentFile], piece: Piece, on_damage: OnDamage) -> Iterator[SortedRun]:
        if len(segments) == 1:
            yield self._run(segments[0], piece.start, piece, on_damage)
            return
        for segment in segments:
            extent = self._extent(segment)
            if extent is not None:
                yield self._run(segment, extent.first, piece, on_damage)

    def _run(self, segment: SegmentFile, start: int, piece: Piece, on_damage: OnDamage) -> SortedRun:
        records = SegmentRecords(self.files, segment, piece, on_damage)
        return SortedRun(file=segment.records_key, start=start, open=records.batches)

    def _extent(self, segment: SegmentFile) -> SegmentExtent | None:
        return find_extent(self.files, segment, small_bytes=min(_SMALL_BYTES, self.piece_bytes // 2))

    def _pieces(self, partition: PartitionFiles, on_damage: OnDamage) -> Iterator[Piece]:
        extents = []
        for segment in find_sound_segments(self.files, partition, on_damage):
            extent = self._extent(segment)
            if extent is not None:
                extents.append(extent)
            elif segment.records_bytes > FIRST_POSITION:
                problem = f"no whole record in its {segment.records_bytes} bytes"
                damage = Damage(file=segment.records_key, position=FIRST_POSITION, problem=problem)
                with_start_offset(segment, on_damage)(damage)
        return plan_pieces(self.files, list(group_overlapping(extents, attrgetter("first", "last"))), self.piece_bytes)


def _topics(partitions: Sequence[PartitionFiles]) -> Iterator[ArchiveTopic]:
    for topic, group in groupby(partitions, key=lambda partition: partition.topic):
        yield ArchiveTopic(topic=topic, partitions=max(partition.partition for partition in group) + 1)


def _with_nulls(records: Sequence[Record]) -> list[Record]:
    return [
        record._replace(key=record.key or None, headers=tuple((name, value or None) for name, value in record.headers))
        for record in records
    ]
