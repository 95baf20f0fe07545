"""Makes the commits of a run, and remembers the previous commit from round to round.

The last commit contains facts that are known only at the end of a pass. The cut of the previous commit tells where
transactions began that are still open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from offsite.backup.cluster_settings import PreviousSettings
from offsite.backup.copy_pass import Committable, PassSummary
from offsite.backup.cut.deletions import explain_consumed, explain_declared, offsets_of_cut
from offsite.backup.late_reads import LateReads, Readings, with_marks
from offsite.backup.pass_cut import NoCut, PassCut, cut_of_pass
from offsite.backup.plan import BackupPlan
from offsite.backup.registry import RegistryReadings, RegistryReport
from offsite.groups.snapshots import PreviousGroups, SavedGroups, save_groups
from offsite.log.range import PartitionId
from offsite.log.transactions import OpenTransaction
from offsite.model.clock import Clock, Stopwatch
from offsite.model.errors import DamagedObject, OffsiteError, ParticipantFailed
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.model.selection import ALL_GROUPS
from offsite.model.uninterrupted import uninterrupted
from offsite.repository.backup import Backup, without_unchanged
from offsite.repository.commit import (
    UNACCOUNTED,
    Checkpoint,
    CommitChanges,
    LeftBehindPartition,
    PassProgress,
    RecordedHole,
    SnapshotRef,
    TopicShape,
)
from offsite.repository.heads import RememberedHead, head_of
from offsite.repository.repository import Repository
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, CommitCut, get_commit_cut, put_commit_cut
from offsite.repository.snapshots.named_object import put_cluster_snapshot
from offsite.repository.state import BackupState

_HOLES_JUDGED = 10_000
"""At most so many losses of earlier runs, newest first, are examined again in every run."""
REMEMBERED_PASSES = 100
"""Kafka Streams deletes every 30 s, and a run that follows has a round every 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """What all passes of a run share. With `only_news`, a commit without news is not made. For `memory`, `on_commit`
    and `participants_complete` see `run.carry_out`."""

    repository: Repository
    backup: Backup
    clock: Clock
    memory: PassMemory
    only_news: bool = False
    on_commit: Callable[[], None] | None = None
    participants_complete: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    """The judgement on a whole pass."""

    checkpoint: Checkpoint | None
    cut: PassCut | NoCut

    @property
    def lost(self) -> frozenset[PartitionId]:
        return self.cut.lost if isinstance(self.cut, PassCut) else frozenset()


class PassCommits:
    """Makes the commits of a run.

    `checkpoint_problem`: why the last commit did not complete its checkpoint: a failed participant, a contradicting
    cut, or records lost at the source meanwhile. Such a commit is a plain restore point with a cut of its own.
    `no_cut`: why restores of the last commit go to the ends as copied; empty where a cut exists.

    `lost`: partitions with records deleted at the source before a group had read them, as of the cut. If the run
    `may_go_on`, the last commit marks the run as incomplete. `explained`: harmless holes of the run and before, with
    the explanation as their reason.
    """

    def __init__(self, plan: BackupPlan, shared: PassContext, *, may_go_on: bool = False) -> None:
        self.groups: SavedGroups | None = None
        self.lost: frozenset[PartitionId] = frozenset()
        self.explained: dict[RecordedHole, RecordedHole] = {}
        self.checkpoint_problem = self.no_cut = ""
        self.took_s: list[float] = []
        self._was_interrupted = False
        self._late = LateReads(plan.base, plan.source.tombstones_ms)
        self._plan, self._shared, self._may_go_on = plan, shared, may_go_on
        self._backup, self._memory = shared.backup, shared.memory

    def make(self, committable: Committable, base: BackupState, summary: PassSummary | None) -> BackupState | None:
        """Make a commit of `committable`, found since the previous commit, unless nothing is new. The commit that
        completes the pass also contains the groups and the failed partitions, and is judged by the `summary` of the
        pass. An interrupt while the schema registry is read is raised after the commit: the records are copied."""
        state = self._make(committable, base, summary)
        if self._was_interrupted:
            raise KeyboardInterrupt
        return state

    def _make(self, committable: Committable, base: BackupState, summary: PassSummary | None) -> BackupState | None:
        snapshot, cut, judged = None, None, None
        if summary is not None:
            plan = self._plan
            snapshot, self.groups = save_groups(
                self._backup,
                base,
                plan.groups,
                plan.source.shapes,
                unseen=plan.unseen,
                patterns=plan.request.groups,
                before=self._memory.groups,
            )
            judged = self._judged(summary)
            self._explain(summary, judged)
            if self._may_go_on and judged.lost:
                self.lost = judged.lost
                snapshot, summary = None, None
        registry = None if summary is None else self._read_registry(base)
        changes = replace(self._changes(committable, base), groups=snapshot, registry=registry)
        if summary is None:  # an earlier failure stays until a pass is known to have got further
            progress = _progress(self._plan, committable)
            changes = replace(changes, incomplete=True, progress=progress, left_behind=base.left_behind)
        changes = self._with_readings(changes, committable, base, is_last=summary is not None)
        if base is self._plan.base:
            changes = replace(changes, cut_back=self._plan.cuts)  # the first commit of the pass goes on from the cut
        if judged is not None:
            changes = self._with_verdict(changes, judged, committable, is_last=summary is not None)
            cut = None if summary is None else self._report_cut(judged.cut)
        has_news = _is_news(changes, base) or self._memory.cut.is_healed_by(cut, self._backup, base)
        if self._shared.only_news and not has_news:
            self._memory.note_quiet(base, self._plan.since_read, is_whole=summary is not None)
            return None
        if cut is not None:
            changes = replace(changes, cut=self._put_cut(cut, base), cut_refused=bool(cut.refused))
        began_s = self._shared.clock.monotonic_s()
        with uninterrupted():
            state = self._backup.commit(changes, base=base, writer=random_id(16))
            RememberedHead(repository=self._shared.repository, backup=self._plan.backup).remember(head_of(state))
        self.took_s.append(self._shared.clock.monotonic_s() - began_s)
        self._memory.registry.is_behind |= bool(changes.segments) and registry is None
        if self.lost and judged is not None and isinstance(judged.cut, PassCut):
            self._memory.cut.keep_amid(state, judged.cut.cut)
        if self._shared.on_commit is not None:
            self._shared.on_commit()
        return state

    @property
    def registry(self) -> RegistryReport | None:
        """The newest reading of the schema registry; None without one."""
        return None if self._plan.registry is None else self._memory.registry.report

    def _read_registry(self, base: BackupState) -> SnapshotRef | None:
        """The registry for the commit that completes the pass; None where it stays as `base` has it."""
        readings, clock = self._memory.registry, self._shared.clock
        if self._plan.registry is None or not readings.is_due(clock):
            return None
        try:
            return readings.read(self._plan.registry, store=self._backup.store, base=base, clock=clock)
        except KeyboardInterrupt:
            self._was_interrupted = True
            return None

    def _with_verdict(
        self, changes: CommitChanges, judged: _Judgement, committable: Committable, *, is_last: bool
    ) -> CommitChanges:
        """Add to `changes` the facts known only at the end of a pass. Deleted topics are marked even if the run goes
        on, because the next plan takes a recreated topic for a known topic."""
        changes = replace(changes, topics=(*changes.topics, *_marked(self._backup, self._plan)))
        if not is_last:
            return changes
        explained = tuple(self.explained[hole] for hole in self._committed_before(committable))
        return replace(changes, checkpoint=judged.checkpoint, explained=explained)

    def _with_readings(
        self, changes: CommitChanges, copied: Committable, base: BackupState, *, is_last: bool
    ) -> CommitChanges:
        """Add to `changes` the topics read too late, and when the ends of the logs were read if topics are compacted.
        The first commit of a backup says so even amid a pass."""
        plan = self._plan
        if self._late.may_be_late(copied):
            copied_ms = self._backup.store.now_ms()
            quiet = self._memory.quiet.get(plan.base.head_hash)
            readings = Readings(
                base=plan.base,
                began_ms=max(0, copied_ms - plan.since_read.elapsed_ms),
                copied_ms=copied_ms,
                quiet_ms=0 if quiet is None else copied_ms - quiet.elapsed_ms,
            )
            self._late.note(copied, readings)
        shapes = self._late.shapes(changes.topics)
        if is_last:
            failed = {failure.topic for failure in copied.failed}
            behind = [shape.incarnation for shape in shapes if shape.topic in failed]
            shapes = with_marks(shapes, plan.base, unread={*behind, *plan.unseen})
        says_when = (is_last or not base.seq) and any(shape.was_compacted for shape in shapes)
        return replace(changes, topics=shapes, read_ago_ms=plan.since_read.elapsed_ms if says_when else 0)

    def _judged(self, whole: PassSummary) -> _Judgement:
        """Judge the pass: make the cut, and the checkpoint if all participants have completed their parts and the cut
        keeps the records read by participants."""
        carried, checkpoint = _completed(self._plan, whole), self._plan.checkpoint
        lost = _lost_since_taken(self._plan, whole) if carried is not None else ""
        participants = checkpoint.participants if carried is not None and checkpoint is not None else ()
        cut = self._cut(whole, participants)
        self.checkpoint_problem = lost or self._not_complete(participants) or self._contradiction(cut, participants)
        if self.checkpoint_problem and participants:
            cut = self._cut(whole, ())
        return _Judgement(checkpoint=None if self.checkpoint_problem else carried, cut=cut)

    def _explain(self, whole: PassSummary, judged: _Judgement) -> None:
        """Find the harmless holes: declared holes, and holes passed by every reader of the partition. Includes holes of
        earlier runs, which may have been broken off before the judgement."""
        plan, cut = self._plan, judged.cut
        earlier = (hole for hole in reversed(plan.base.holes) if hole.is_loss and hole.reason != UNACCOUNTED)
        holes = (*islice(earlier, _HOLES_JUDGED), *whole.holes)
        are_all_seen = plan.groups is not None and not plan.groups.failed and plan.request.groups == ALL_GROUPS
        if are_all_seen:  # else an unseen group may read there
            if isinstance(cut, PassCut):
                offsets = cut.offsets
            else:
                emptied = {hole.partition_id for hole in holes}
                offsets = offsets_of_cut(self._memory.groups.newest, (), emptied)
            self.explained = explain_consumed(holes, offsets, plan.source.shapes)
        if plan.request.expect_deletes is not None:
            self.explained = explain_declared(holes, plan.request.expect_deletes) | self.explained

    def _committed_before(self, committable: Committable) -> list[RecordedHole]:
        """The explained holes of earlier commits."""
        now = set(committable.holes)
        return [hole for hole in self.explained if hole not in now]

    def _not_complete(self, participants: tuple[CheckpointParticipant, ...]) -> str:
        if not participants or self._shared.participants_complete is None:
            return ""
        try:
            self._shared.participants_complete()
        except ParticipantFailed as error:
            return error.message
        return ""

    def _contradiction(self, cut: PassCut | NoCut, participants: tuple[CheckpointParticipant, ...]) -> str:
        """Why a restore could not use a cut with the positions and stamps of participants; empty where a restore
        can."""
        if self._plan.stamps is None and not any(participant.positions for participant in participants):
            return ""
        if isinstance(cut, NoCut):
            return f"there is no consistent cut to compare its participants with: {cut.why}"
        refused = cut.cut.refused
        return f"its cut contradicts its participants, or is unusable: {refused}" if refused else ""

    def _cut(self, whole: PassSummary, participants: tuple[CheckpointParticipant, ...]) -> PassCut | NoCut:
        known_open = self._memory.cut.open_at(self._backup, self._plan.base)
        groups = self._memory.groups.newest
        try:
            return cut_of_pass(
                self._plan,
                whole,
                groups,
                known_open=known_open,
                participants=participants,
                exactly_once=self._memory.cut.exactly_once(self._backup, self._plan.base),
            )
        except OffsiteError as error:  # the copied records count, whatever is wrong with the cut
            return NoCut(why=error.message, error=error.id)

    def _report_cut(self, cut: PassCut | NoCut) -> CommitCut | None:
        """The cut for the commit. Logs once why the commit has none, or has an unusable cut."""
        missing = cut if isinstance(cut, NoCut) else NoCut(why=cut.cut.refused)
        self.no_cut = missing.why
        if missing.why:
            warned("no_cut", why=missing.why, **({"error": missing.error} if missing.error else {}))
        return None if isinstance(cut, NoCut) else cut.cut

    def _put_cut(self, cut: CommitCut, base: BackupState) -> SnapshotRef:
        ref = put_commit_cut(self._backup.store, base, cut)
        self._memory.cut.keep(ref, cut)
        return ref

    def _changes(self, committable: Committable, base: BackupState) -> CommitChanges:
        plan, store = self._plan, self._backup.store
        return CommitChanges(
            segments=committable.segments,
            holes=tuple(self.explained.get(hole, hole) for hole in committable.holes),
            gaps=committable.gaps,
            accounted=True,
            left_behind=tuple(_left_behind(plan, committable)),
            positions=committable.positions,
            topics=plan.source.shapes,
            metadata=put_cluster_snapshot(store, base, plan.settings.known(self._memory.settings, store, base)),
        )


def _completed(plan: BackupPlan, whole: PassSummary) -> Checkpoint | None:
    """The checkpoint that the pass completes. None unless every partition ends exactly at the end of the checkpoint."""
    checkpoint = plan.checkpoint
    if checkpoint is None or checkpoint.sick or whole.failed:
        return None
    reached = {position.partition_id: position.end for position in whole.positions}
    return (
        checkpoint.carried()
        if reached == {taken_end.partition_id: taken_end.end for taken_end in checkpoint.ends}
        else None
    )


def _lost_since_taken(plan: BackupPlan, whole: PassSummary) -> str:
    """The records that the source still had when the checkpoint was taken and lost before the copy, in words; empty for
    none."""
    log_starts = {bounds.partition_id: bounds.log_start for bounds in plan.copy.bounds}
    for hole in whole.holes:
        at, log_start = hole.partition_id, log_starts.get(hole.partition_id, 0)
        if hole.end > log_start:
            first = max(hole.start, log_start)
            return (
                f"{at.topic}/{at.partition}: the source lost offsets {first} to {hole.end - 1} ({hole.reason}) after "
                "the checkpoint and before the copy"
            )
    return ""


def _progress(plan: BackupPlan, committable: Committable) -> PassProgress:
    ends = {position.partition_id: position.end for position in committable.positions}
    planned = remaining = 0
    for bounds in plan.copy.bounds:
        start = plan.copy.starts.get(bounds.partition_id, bounds.log_start)
        planned += max(0, bounds.end - start)
        remaining += max(0, bounds.end - ends.get(bounds.partition_id, start))
    return PassProgress(copied=max(0, planned - remaining), planned=planned)


def _marked(backup: Backup, plan: BackupPlan) -> Iterator[TopicShape]:
    if plan.gone.deleted:
        now_ms = backup.store.now_ms()
        yield from (replace(plan.base.topics[incarnation], deleted_ms=now_ms) for incarnation in plan.gone.deleted)


def _left_behind(plan: BackupPlan, committable: Committable) -> Iterator[LeftBehindPartition]:
    topic_ids = {shape.topic: shape.topic_id for shape in plan.base.latest_shapes().values()}
    ids = {**topic_ids, **plan.source.ids}  # hidden topics, and visible topics
    for failure in committable.failed:
        partition_id = PartitionId(topic=failure.topic, topic_id=ids[failure.topic], partition=failure.partition)
        yield LeftBehindPartition(partition_id=partition_id, error=failure.error)


def _is_news(changes: CommitChanges, base: BackupState) -> bool:
    """Whether a commit of `changes` would say anything new beside `base`."""
    of_the_run = replace(changes, accounted=False, left_behind=(), incomplete=False, progress=None, read_ago_ms=0)
    differs = (changes.left_behind, changes.incomplete) != (base.left_behind, base.incomplete)
    return differs or without_unchanged(of_the_run, base) != CommitChanges()


class PreviousCut:
    """The cut of the previous commit, read once and kept for the rounds of a run that follows."""

    def __init__(self) -> None:
        self._ref: SnapshotRef | None = None
        self._cut = CommitCut()
        self._amid: tuple[str, CommitCut] | None = None

    def open_at(self, backup: Backup, base: BackupState) -> Mapping[PartitionId, Sequence[OpenTransaction]] | None:
        """The transactions open at the end of `base`; None: `base` has no usable cut."""
        if (former := self._get(backup, base)) is None:
            return None
        open_transactions: defaultdict[PartitionId, list[OpenTransaction]] = defaultdict(list)
        for transaction in former.open:
            first = transaction.first_offset
            open_transactions[transaction.partition_id].append(
                OpenTransaction(producer_id=transaction.producer_id, first_offset=first, last_offset=first)
            )
        return open_transactions

    def exactly_once(self, backup: Backup, base: BackupState) -> frozenset[str]:
        """The groups known to have committed in transactions up to `base`."""
        former = self._get(backup, base)
        if former is None and base.cuts:  # the previous commit was made amid a run, or has no cut
            former = self._read(backup, base.cuts[-1].ref)
        return frozenset(former.exactly_once) if former is not None else frozenset()

    def is_healed_by(self, cut: CommitCut | None, backup: Backup, base: BackupState) -> bool:
        """Whether `cut`, of the same ends, keeps transactions that the cut of `base` had to leave out. A producer that
        ended meanwhile may never write again, and no later commit would bring its last transaction back."""
        if cut is None or cut.refused:
            return False
        former = self._get(backup, base)
        is_hurt = former is not None and bool(
            former.refused or any(partition.markers for partition in former.partitions)
        )
        return former is not None and is_hurt and (former.refused, former.partitions) != (cut.refused, cut.partitions)

    def keep(self, ref: SnapshotRef, cut: CommitCut) -> None:
        self._ref, self._cut = ref, cut

    def keep_amid(self, base: BackupState, cut: CommitCut) -> None:
        """Keep `cut`, found for the ends of `base`; `base` is amid a run and has no cut."""
        self._amid = base.head_hash, cut

    def _get(self, backup: Backup, base: BackupState) -> CommitCut | None:
        if self._amid is not None and self._amid[0] == base.head_hash:
            return self._amid[1]
        return None if base.cut is None else self._read(backup, base.cut)

    def _read(self, backup: Backup, ref: SnapshotRef) -> CommitCut | None:
        if ref != self._ref:
            try:
                self.keep(ref, get_commit_cut(backup.store, ref))
            except DamagedObject:
                return None
        return self._cut


@dataclass(frozen=True, slots=True)
class PassMemory:
    """The groups, the cut, the settings and the schema registry of the previous commit, each read once.
    `emptied_partitions`: partitions
    with records deleted at the source shortly before the copy, and the number of passes to remember a partition for.
    `quiet`: the hash of the newest commit, and the time since a whole pass without news read the ends on top of it; or
    nothing."""

    groups: PreviousGroups = field(default_factory=PreviousGroups)
    cut: PreviousCut = field(default_factory=PreviousCut)
    settings: PreviousSettings = field(default_factory=PreviousSettings)
    registry: RegistryReadings = field(default_factory=RegistryReadings)
    emptied_partitions: dict[PartitionId, int] = field(default_factory=dict)
    quiet: dict[str, Stopwatch] = field(default_factory=dict)

    def note_quiet(self, base: BackupState, since_read: Stopwatch, *, is_whole: bool) -> None:
        """Take a pass that found nothing new, and made no commit on top of `base`."""
        if is_whole:
            self.quiet.clear()
            self.quiet[base.head_hash] = since_read

    def note_deletions(self, partitions: Iterable[PartitionId]) -> None:
        """Take the partitions in which a pass found holes."""
        for partition_id, passes in list(self.emptied_partitions.items()):
            self.emptied_partitions[partition_id] = passes - 1
            if passes == 1:
                del self.emptied_partitions[partition_id]
        self.emptied_partitions.update(dict.fromkeys(partitions, REMEMBERED_PASSES))
