"""Imports a foreign archive as a normal backup, with a list of properties missing from the archive.

A run makes one commit. A further run continues: records below the committed positions are not read again. A run with a
failure, or with damage not to be skipped, leaves garbage only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from offsite.archives.archive import ArchiveContents, ArchiveReader, ArchiveTopic, Damage, Piece, collect_damage
from offsite.archives.import_task import (
    EarlierImports,
    ImportedSpan,
    ImportEnds,
    ImportReceipt,
    ImportTask,
    import_piece,
)
from offsite.engine.runner import OnProgress, Runner, job_named
from offsite.groups.snapshots import SavedGroups, save_groups
from offsite.kafka.groups import FetchedGroups
from offsite.log.range import GapEvidence, PartitionId, TopicPartition, uncovered
from offsite.model.errors import BackupExists, BackupNotFound, NoSuchTopic
from offsite.model.ids import random_id
from offsite.model.names import amount
from offsite.model.selection import TopicSelection
from offsite.reports.point_report import HoleReport, hole_reports
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, ProvenGap, RecordedHole, TopicShape
from offsite.repository.coverage import UnaccountedRange, find_unaccounted
from offsite.repository.descriptor import import_origin, origin_options
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState

EVERYTHING = TopicSelection(include=("*",), internal=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """Import the archive of `format` at `place` (a URL) as `backup`. `selection` None: the selection of the first run,
    all topics for a new backup. `skip_damaged`: take the undamaged rest of damaged files."""

    backup: str
    format: str
    place: str
    selection: TopicSelection | None = None
    skip_damaged: bool = False

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        return origin_options(self.format, self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """A decided import; nothing is written yet. `base`: the state to continue from. `damages`: of the archive's
    indexes."""

    request: ImportRequest
    selection: TopicSelection
    contents: ArchiveContents
    shapes: tuple[TopicShape, ...]
    tasks: tuple[ImportTask, ...]
    damages: tuple[Damage, ...]
    base: BackupState

    @property
    def estimated_bytes(self) -> int:
        return sum(task.piece.size_bytes for task in self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """The additions of a run. `commit`: the newest, also when nothing was added. `fidelity`: properties of the source
    missing from the archive, known before or found while reading. `damaged`: left-out parts, by file and byte."""

    backup: str
    commit: int
    format: str
    archive: str
    topics: int
    partitions: int
    segments: int
    records: int
    bytes: int
    stored_bytes: int
    holes: tuple[HoleReport, ...]
    fidelity: tuple[str, ...]
    damaged: tuple[Damage, ...]
    groups: SavedGroups | None
    head_hash: str = ""

    @property
    def complete(self) -> bool:
        return not self.holes and not self.damaged


def plan_import(repository: Repository, reader: ArchiveReader, request: ImportRequest) -> ImportPlan:
    """Plan a run. Changes nothing.

    Raises `ArchiveNotFound`, `DamagedArchive`, `NoSuchTopic`, and `BackupExists` for a backup of another origin.
    """
    existing = _existing_backup(repository, request)
    selection = _selection(request, existing)
    damages: list[Damage] = []
    contents = reader.contents(collect_damage(damages, skip=request.skip_damaged))
    base = existing.state() if existing else BackupState(backup=BackupLayout(backup=request.backup).backup)
    topics = _selected(contents.topics, selection, request)
    chosen = {topic.topic for topic in topics}
    return ImportPlan(
        request=request,
        selection=selection,
        contents=contents,
        shapes=tuple(_shape(topic, contents.pieces) for topic in topics),
        tasks=tuple(_tasks([piece for piece in contents.pieces if piece.topic in chosen], base, damages)),
        damages=tuple(damages),
        base=base,
    )


def run_import(
    plan: ImportPlan,
    *,
    repository: Repository,
    reader: ArchiveReader,
    runner: Runner,
    on_progress: OnProgress | None = None,
) -> ImportResult:
    """Copy and commit. The first run creates the backup after the copy, so a failed run leaves no empty backup.

    Raises `DamagedArchive` (then nothing is committed), `CommitLost`, and the errors of archive and repository.
    """
    request = plan.request
    ends = ImportEnds(
        reader=reader,
        store=repository.store,
        layout=BackupLayout(backup=request.backup),
        skip_damaged=request.skip_damaged,
    )
    with job_named(f"import {request.backup}: {amount(len(plan.tasks), 'piece')}"):
        read = partial(import_piece, ends=ends)
        receipts = runner.run(plan.tasks, read, on_progress=on_progress) if plan.tasks else []
    backup = _backup(repository, plan)
    fetched = FetchedGroups(groups=plan.contents.groups, failed=()) if plan.contents.groups else None
    snapshot, saved = save_groups(backup, plan.base, fetched, plan.shapes)
    changes = _changes(plan, receipts, snapshot)
    is_news = bool(changes.segments or changes.holes or snapshot or not plan.base.seq)
    state = backup.commit(changes, base=plan.base, writer=random_id(16)) if is_news else plan.base
    return _result(plan, backup, state, changes, receipts, saved)


def _existing_backup(repository: Repository, request: ImportRequest) -> Backup | None:
    try:
        backup = repository.backup(request.backup)
    except BackupNotFound:
        return None
    if not set(request.options) <= set(backup.descriptor.options):
        origin = import_origin(backup.descriptor) or f"cluster {backup.descriptor.cluster_id}"
        raise BackupExists(
            f"backup {request.backup} was made from {origin}, not from the {request.format} archive {request.place}",
            hint="choose another name with --backup",
        )
    return backup


def _selection(request: ImportRequest, existing: Backup | None) -> TopicSelection:
    if existing is None:
        return request.selection or EVERYTHING
    if request.selection not in (None, existing.descriptor.selection):
        raise BackupExists(
            f"backup {request.backup} was imported with topics {', '.join(existing.descriptor.selection.include)}",
            hint="omit --topics to continue this backup, or choose another name with --backup",
        )
    return existing.descriptor.selection


def _selected(topics: Sequence[ArchiveTopic], selection: TopicSelection, request: ImportRequest) -> list[ArchiveTopic]:
    by_name = {topic.topic: topic for topic in topics}
    missing, names = selection.missing(by_name), selection.select(by_name)
    if missing or not names:
        missing_names = ", ".join(missing or selection.include)
        raise NoSuchTopic(
            f"the archive {request.place} has no topic {missing_names}",
            hint=f"list its topics: offsite archive inspect {request.place} --format {request.format}",
        )
    return [by_name[name] for name in names]


def _shape(topic: ArchiveTopic, pieces: Sequence[Piece]) -> TopicShape:
    highest = max((piece.partition for piece in pieces if piece.topic == topic.topic), default=-1)
    return TopicShape(
        topic=topic.topic,
        topic_id="",
        partitions=max(topic.partitions, highest + 1),
        replication_factor=topic.replication_factor,
        configs=tuple(sorted(topic.configs)),
    )


def _ends(base: BackupState) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic=partition.topic, partition=partition.partition): position.end
        for partition, position in base.positions.items()
    }


def _tasks(pieces: Sequence[Piece], base: BackupState, damages: Sequence[Damage]) -> Iterator[ImportTask]:
    """Yield tasks for the parts of the pieces behind the positions of `base`."""
    ends = _ends(base)
    started = set(ends)
    lost_at = _lost_at(damages)
    for piece in sorted(pieces, key=lambda piece: (piece.topic, piece.partition, piece.start)):
        key = TopicPartition(topic=piece.topic, partition=piece.partition)
        start = max(piece.start, ends.get(key, 0))
        if piece.end is None or start < piece.end:
            lost = lost_at.get(key, ())
            yield ImportTask(
                piece=replace(piece, start=start),
                is_first=key not in started,
                lost_at=tuple(lost),
                earlier=_earlier(piece, base) if piece.end is None and start > piece.start else None,
            )
        started.add(key)


def _earlier(piece: Piece, base: BackupState) -> EarlierImports:
    """Return the part of the partition in `base`. Ranges removed by retention, compaction or damage say nothing about
    the archive."""
    partition_id = _id(TopicPartition(topic=piece.topic, partition=piece.partition))
    holes = [(hole.start, hole.end) for hole in base.holes if hole.partition_id == partition_id]
    gone = sorted((*holes, *base.expired.get(partition_id, ()), *base.compacted.get(partition_id, ())))
    spans, end = list[ImportedSpan](), 0
    for segment in base.segments.get(partition_id, ()):
        is_judged = not any(low < segment.end and segment.start < high for low, high in gone)
        spans.append(ImportedSpan(segment.start, segment.end, segment.records if is_judged else None))
    covered = [(span.start, span.end) for span in spans]
    for low, high in gone:
        start = max(low, end)
        spans += (ImportedSpan(gap_start, gap_end, None) for gap_start, gap_end in uncovered(start, high, covered))
        end = max(end, high)
    return EarlierImports(start=piece.start, spans=tuple(sorted(spans)))


def _lost_at(damages: Sequence[Damage]) -> dict[TopicPartition, list[int]]:
    """Return per partition the offsets known to be lost by the archive before a piece is read."""
    offsets: dict[TopicPartition, list[int]] = {}
    for damage in damages:
        if (lost := damage.lost_at) is not None:
            offsets.setdefault(TopicPartition(topic=lost.topic, partition=lost.partition), []).append(lost.offset)
    return offsets


def _backup(repository: Repository, plan: ImportPlan) -> Backup:
    """Open or create the backup. Only the first run describes the backup: the fidelity of an archive may change as the
    archive grows."""
    existing = _existing_backup(repository, plan.request)
    return existing or repository.create_backup(
        plan.request.backup,
        cluster_id=plan.contents.cluster_id,
        selection=plan.selection,
        options=plan.request.options,
        fidelity=plan.contents.fidelity,
    )


def _changes(plan: ImportPlan, receipts: Sequence[ImportReceipt], group_snapshot: str | None) -> CommitChanges:
    recorded = set(plan.base.holes)
    chosen = {shape.topic for shape in plan.shapes}
    archive_holes = [
        RecordedHole(partition_id=_id(h.range.topic_partition), start=h.range.start, end=h.range.end, reason=h.reason)
        for h in plan.contents.holes
        if h.range.topic in chosen
    ]
    lost = (part for receipt in receipts for hole in _lost(receipt) for part in _without(hole, archive_holes))
    changes = CommitChanges(
        segments=tuple(segment for receipt in receipts for segment in receipt.segments),
        holes=tuple(hole for hole in (*archive_holes, *lost) if hole not in recorded),
        positions=tuple(_positions(plan.base, receipts)),
        topics=plan.shapes,
        groups=group_snapshot,
    )
    gaps = map(_held_nothing, find_unaccounted(changes, plan.base.accounted_ends()))
    return replace(changes, gaps=tuple(gaps), accounted=True)


def _lost(receipt: ImportReceipt) -> Iterator[RecordedHole]:
    """Yield ranges of a piece lost by damage: the contents are unknown."""
    partition_id = _id(TopicPartition(topic=receipt.topic, partition=receipt.partition))
    for lost in receipt.lost:
        yield RecordedHole(partition_id=partition_id, start=lost.start, end=lost.end, reason="damage")


def _without(hole: RecordedHole, archive_holes: Sequence[RecordedHole]) -> Iterator[RecordedHole]:
    """Yield the parts of `hole` outside the holes reported by the archive."""
    covered = sorted((other.start, other.end) for other in archive_holes if other.partition_id == hole.partition_id)
    for start, end in uncovered(hole.start, hole.end, covered):
        yield replace(hole, start=start, end=end)


def _held_nothing(silent: UnaccountedRange) -> ProvenGap:
    """Prove a gap: an archive is read completely, so a range without a record is empty."""
    return ProvenGap(
        partition_id=silent.partition_id,
        start=silent.start,
        end=silent.end,
        evidence=GapEvidence.ARCHIVE.value,
        seen_at=silent.end,
    )


def _positions(base: BackupState, receipts: Sequence[ImportReceipt]) -> Iterator[Position]:
    reached: dict[PartitionId, Position] = {}
    for receipt in receipts:
        key = _id(TopicPartition(topic=receipt.topic, partition=receipt.partition))
        previous = reached.get(key) or base.positions.get(key)
        log_start = receipt.start if previous is None else previous.log_start
        end = receipt.end if previous is None else max(previous.end, receipt.end)
        reached[key] = Position(partition_id=key, log_start=log_start, end=end)
    yield from reached.values()


def _id(key: TopicPartition) -> PartitionId:
    return PartitionId(topic=key.topic, topic_id="", partition=key.partition)


def _result(  # noqa: PLR0913, PLR0917  # what a run came to
    plan: ImportPlan,
    backup: Backup,
    state: BackupState,
    changes: CommitChanges,
    receipts: Sequence[ImportReceipt],
    saved: SavedGroups | None,
) -> ImportResult:
    segments = changes.segments
    damages = (*plan.damages, *(damage for receipt in receipts for damage in receipt.damages))
    return ImportResult(
        backup=backup.descriptor.name,
        commit=state.seq,
        head_hash=state.head_hash,
        format=plan.request.format,
        archive=plan.request.place,
        topics=len(plan.shapes),
        partitions=sum(shape.partitions for shape in plan.shapes),
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.raw_bytes for segment in segments),
        stored_bytes=sum(segment.stored_bytes for segment in segments),
        holes=hole_reports(changes.holes),
        fidelity=(*backup.descriptor.fidelity, *dict.fromkeys(str(damage) for damage in damages if damage.is_note)),
        damaged=tuple(dict.fromkeys(damage for damage in damages if not damage.is_note)),
        groups=saved,
    )
