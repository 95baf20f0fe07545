"""A pass over everything new in a plan: copied in parallel and committed along the way.

The driver of a first backup of many hours may die. For that reason finished work is committed from time to time, and
such a commit says that the pass is incomplete: every partition has its unbroken beginning, and groups stay as in the
previous commit, because newer group offsets may lie beyond the commit. The last commit completes the pass.

A commit takes for every partition the unbroken beginning of the copied work, without a missing offset
(`find_committable`, pure). A position moves over segments, holes and proven gaps as long as they adjoin. The next run
begins at the position and never looks below, so an offset that a position skipped would never be found again. A failed
range stops the progress of its partition; segments of later ranges in the same partition become orphans. A partition
never holds back another.

An interrupted pass commits its work once. A commit that was itself interrupted is not repeated: nobody knows whether
the commit arrived, and the next run finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from offsite.backup.copy import BackupReceipt, CopyBundle, CopyOutcome
from offsite.backup.copy_plan import PARTITION_ERRORS, CopyPlan, PartitionBounds, SickPartition
from offsite.engine.runner import Done, Failed
from offsite.log.batch import LastBatch
from offsite.log.range import Gap, Hole, PartitionId, Span, TopicPartition
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import decided, warned
from offsite.model.units import GIB, MIB
from offsite.repository.commit import NO_EPOCH, Position, ProvenGap, RecordedHole
from offsite.repository.coverage import frontier, segment_span
from offsite.repository.segments.segment import Segment, SegmentFigures
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES
from offsite.repository.state import BackupState

BackupOutcome = Done[BackupReceipt] | Failed | None
"""None: the task has not ended yet."""
SOURCE_TRUNCATED_ID = "OFF-1408"
"""Error id for a break between two ranges: the log changed while the ranges were read."""
IDLE_BYTES = 310 * MIB
"""A driver with little to do: its Python process and the JVM beside it."""
TASK_BYTES = 900
SEGMENT_BYTES = 550
"""Kept until the end of the run for every copied and committed segment: its success, and its place in the catalog."""
NEW_SEGMENT_BYTES = 5_600
"""In addition for every segment of the commit under way."""
LARGEST_COMMIT = 1 / 3
"""The largest share of all segments in a single commit, when outcomes come faster than the search for new work: see
`CommitThresholds`."""
NO_PROGRESS: Mapping[PartitionId, PartitionProgress] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailure:
    """A partition whose copy stopped at offset `start`, with the reason; `start` is -1 when the copy did not begin.
    `hint` says what to do next."""

    topic: str
    partition: int
    start: int
    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """How far the commits of a pass have got in a partition.

    The first `tasks` tasks of the partition are completely committed: everything read by these tasks ends at `end` or
    below. A search continues from `epoch`, the newest leader epoch seen; `read_to`, the offset behind the last batch
    read; and `last_batch`, if a batch was read.

    A task that is completely committed is not examined again. The cost of a search depends on new tasks only, and
    receipts need not be kept.
    """

    tasks: int
    end: int
    epoch: int = NO_EPOCH
    read_to: int = 0
    last_batch: LastBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """The committable part. `progress`: how far the commit gets, by partition. `completed_tasks`: indexes into
    `plan.tasks` of the tasks that the commit completes."""

    segments: tuple[Segment, ...]
    holes: tuple[RecordedHole, ...]
    gaps: tuple[ProvenGap, ...]
    positions: tuple[Position, ...]
    failed: tuple[PartitionFailure, ...]
    progress: Mapping[PartitionId, PartitionProgress] = field(default_factory=dict)
    completed_tasks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """Everything that a finished pass brought: the positions of its partitions, new holes, and failures. `receipts`: of
    all tasks in the order of the plan if every task succeeded, else None; without segments, holes and gaps of earlier
    commits. `figures`: of all `segments` segments."""

    positions: tuple[Position, ...]
    holes: tuple[RecordedHole, ...]
    failed: tuple[PartitionFailure, ...]
    receipts: tuple[BackupReceipt, ...] | None
    segments: int
    figures: SegmentFigures

    def followed_by(self, later: PassSummary) -> PassSummary:
        """Both passes of a run as one."""
        return replace(
            later,
            holes=(*self.holes, *later.holes),
            segments=self.segments + later.segments,
            figures=SegmentFigures.of((self.figures, later.figures)),
        )


MakeCommit = Callable[[Committable, BackupState, PassSummary | None], BackupState | None]
"""Commits new work on top of a state. The last argument is the summary of the pass if this commit completes the pass,
else None. Returns the state with the commit, or None if there was nothing to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitThresholds:
    """How much a pass may copy before a commit, in bytes of the log, segments or seconds. A commit of 10,000 segments
    is 10 MB, and takes the driver about 60 MB of memory.

    A search for new work goes over all tasks of the pass. The next commit therefore waits for `times_longer` times the
    duration of the search, and searches cost at most a sixth of the time.
    """

    bytes: int = 10 * GIB
    segments: int = 10_000
    seconds: float = 300.0
    times_longer: float = 5.0


class CopyPass:
    """The outcomes of a pass so far, and the commits made of them. Give `take` to `Runner.run_each`.

    The driver forgets completely committed work. Memory holds only new work and the figures that judge the pass at the
    end. The memory of the driver is estimated from the plan, by figures measured with `bench.many_ranges`.
    """

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        *,
        copy: CopyPlan,
        bundles: Sequence[CopyBundle],
        base: BackupState,
        commit: MakeCommit,
        thresholds: CommitThresholds,
        clock: Clock,
    ) -> None:
        self.state = base
        self._copy, self._bundles = copy, bundles
        self._commit, self._every, self._clock = commit, thresholds, clock
        self._outcomes: list[BackupOutcome] = [None] * len(copy.tasks)
        self._progress: Mapping[PartitionId, PartitionProgress] = NO_PROGRESS
        self._committed: Committable | None = None  # of the newest commit, and earlier of unfinished tasks
        self._holes: list[RecordedHole] = []
        self._segments, self._figures = 0, SegmentFigures()  # of everything committed
        self._is_committing = False
        self._since_s = clock.monotonic_s()
        self._since_bytes = self._since_segments = 0
        self._search_s = 0.0

    def take(self, index: int, outcome: Done[tuple[CopyOutcome, ...]] | Failed) -> None:
        """Take the outcome of bundle `index`, and commit if a commit is due. Raises the errors of a commit."""
        bundle = self._bundles[index]
        receipts = [outcome] * len(bundle.tasks) if isinstance(outcome, Failed) else outcome.value
        for number, task_outcome in zip(bundle.numbers, receipts, strict=True):
            self._outcomes[number] = task_outcome
            for segment in _segments(task_outcome):
                self._since_bytes += segment.raw_bytes
                self._since_segments += 1
        if self._is_due():
            self.save()

    def open_partitions(self) -> list[str]:
        """The partitions, such as `orders/0`, with an unfinished range. Callable from any thread."""
        outcomes = tuple(self._outcomes)
        unfinished = {
            task.range.topic_partition
            for task, task_outcome in zip(self._copy.tasks, outcomes, strict=True)
            if task_outcome is None
        }
        return [str(partition) for partition in sorted(unfinished)]

    def save(self) -> None:
        """Commit the work so far, unless a commit was broken off."""
        if self._is_committing:
            return
        began_s = self._clock.monotonic_s()
        committable = find_committable(self._copy, self._outcomes, self._progress)
        new = self._new(committable)
        self._search_s = self._clock.monotonic_s() - began_s
        if new.segments or new.holes or new.gaps:
            decided("commit_early", segments=len(new.segments), why="the pass is not complete yet")
            if self._make(replace(new, failed=()), None):
                self._settle(committable, new)
        self._since_s, self._since_bytes, self._since_segments = self._clock.monotonic_s(), 0, 0

    def complete(self) -> PassSummary:
        """Commit the rest and return the summary of the pass. Raises the first failure when no range could be copied,
        and the errors of a commit."""
        committable = find_committable(self._copy, self._outcomes, self._progress)
        new = self._new(committable)
        whole = PassSummary(
            positions=committable.positions,
            holes=(*self._holes, *new.holes),
            failed=committable.failed,
            receipts=_receipts(self._outcomes),
            segments=self._segments + len(new.segments),
            figures=SegmentFigures.of((self._figures, *new.segments)),
        )
        self._make(new, whole)
        return whole

    def _make(self, new: Committable, summary: PassSummary | None) -> bool:
        """Whether there was something to commit, and a commit was made."""
        self._is_committing = True  # stays set if the commit is broken off
        state = self._commit(new, self.state, summary)
        self._is_committing = False
        if state is None:
            return False
        self.state = state
        return True

    def _settle(self, committable: Committable, new: Committable) -> None:
        """Forget committed work. `committable` is everything found; the newest commit contains `new`."""
        self._committed, self._progress = committable, committable.progress
        self._holes += new.holes
        self._segments += len(new.segments)
        self._figures = SegmentFigures.of((self._figures, *new.segments))
        for number in committable.completed_tasks:
            self._outcomes[number] = _emptied(self._outcomes[number])

    def _new(self, committable: Committable) -> Committable:
        """`committable` without committed parts."""
        if self._committed is None:
            return committable
        keys = {segment.key for segment in self._committed.segments}
        holes, gaps = set(self._holes), set(self._committed.gaps)
        return replace(
            committable,
            segments=tuple(segment for segment in committable.segments if segment.key not in keys),
            holes=tuple(hole for hole in committable.holes if hole not in holes),
            gaps=tuple(gap for gap in committable.gaps if gap not in gaps),
        )

    def _is_due(self) -> bool:
        waited_s = self._clock.monotonic_s() - self._since_s
        every = self._every
        is_much = self._since_bytes >= every.bytes or self._since_segments >= every.segments
        return (is_much or waited_s >= every.seconds) and waited_s >= self._every.times_longer * self._search_s


def _receipts(outcomes: Sequence[BackupOutcome]) -> tuple[BackupReceipt, ...] | None:
    receipts = tuple(outcome.value for outcome in outcomes if isinstance(outcome, Done))
    return receipts if len(receipts) == len(outcomes) else None


def _emptied(outcome: BackupOutcome) -> BackupOutcome:
    """The outcome without its committed parts."""
    if not isinstance(outcome, Done):
        return outcome
    return Done(value=replace(outcome.value, segments=(), holes=(), gaps=()))


def _segments(outcome: BackupOutcome) -> Iterator[Segment]:
    return iter(outcome.value.segments if isinstance(outcome, Done) else ())


def find_committable(
    plan: CopyPlan, outcomes: Sequence[BackupOutcome], progress: Mapping[PartitionId, PartitionProgress] = NO_PROGRESS
) -> Committable:
    """Find the part of `outcomes` (in the order of `plan.tasks`) that may be committed, and the partitions that failed.
    A partition with unfinished tasks has not failed. `progress`: how far earlier commits got. Of a completely committed
    task only its success is looked at; the committed parts of unfinished tasks are found again.

    Raises the first failure when nothing could be copied: the error is all there is to report.
    """
    failures = [outcome.error for outcome in outcomes if isinstance(outcome, Failed)]
    if len(failures) == len(plan.tasks):
        _check_some_are_sound(plan, failures)
    parts = [
        _committable(bounds, pending, progress.get(bounds.partition_id) or _initial_progress(plan, bounds))
        for bounds, pending in _by_partition(plan, outcomes, progress)
    ]
    return Committable(
        segments=tuple(segment for part in parts for segment in part.segments),
        holes=tuple(hole for part in parts for hole in part.holes),
        gaps=tuple(gap for part in parts for gap in part.gaps),
        positions=tuple(part.position for part in parts),
        failed=(*_sick(plan.sick), *(part.failure for part in parts if part.failure is not None)),
        progress={bounds.partition_id: part.progress for bounds, part in zip(plan.bounds, parts, strict=True)},
        completed_tasks=tuple(number for part in parts for number in part.completed_tasks),
    )


def _initial_progress(plan: CopyPlan, bounds: PartitionBounds) -> PartitionProgress:
    start = plan.starts.get(bounds.partition_id, bounds.log_start)
    return PartitionProgress(tasks=0, end=start, last_batch=plan.borders.get(bounds.partition_id))


def _check_some_are_sound(plan: CopyPlan, failures: Sequence[OffsiteError]) -> None:
    """Pass when at least a partition is sound. Partitions without news are sound if every failure concerns a single
    partition."""
    without_news = {bounds.partition_id for bounds in plan.bounds} - {task.partition_id for task in plan.tasks}
    of_all = [error for error in failures if not isinstance(error, PARTITION_ERRORS)]
    if of_all or not without_news:
        errors = [*of_all, *failures, *(sick.error for sick in plan.sick)]
        if errors:
            raise errors[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittablePartition:
    """The result for a partition."""

    segments: tuple[Segment, ...]
    holes: tuple[RecordedHole, ...]
    gaps: tuple[ProvenGap, ...]
    position: Position
    failure: PartitionFailure | None
    progress: PartitionProgress
    completed_tasks: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingTasks:
    """The incompletely committed tasks of a partition, as rising indexes into the plan, with their outcomes; and the
    holes known to the plan."""

    numbers: Sequence[int]
    outcomes: Sequence[BackupOutcome]
    holes: Sequence[Hole]


def _by_partition(
    plan: CopyPlan, outcomes: Sequence[BackupOutcome], progress: Mapping[PartitionId, PartitionProgress]
) -> Iterator[tuple[PartitionBounds, _PendingTasks]]:
    tasks: dict[TopicPartition, list[int]] = {}
    for number, task in enumerate(plan.tasks):
        tasks.setdefault(task.range.topic_partition, []).append(number)
    holes: dict[TopicPartition, list[Hole]] = {}
    for hole in plan.holes:
        holes.setdefault(hole.topic_partition, []).append(hole)
    for bounds in plan.bounds:
        key = bounds.topic_partition
        previous = progress.get(bounds.partition_id)
        numbers = tasks.get(key, [])[previous.tasks if previous else 0 :]
        yield bounds, _PendingTasks(numbers=numbers, outcomes=[outcomes[n] for n in numbers], holes=holes.get(key, ()))


def _committable(bounds: PartitionBounds, pending: _PendingTasks, before: PartitionProgress) -> _CommittablePartition:
    partition_id = bounds.partition_id
    # 1. Take the receipts up to the first failure, with their segments, holes and gaps.
    receipts = list(_before_failure(pending.outcomes, newest=before.epoch))
    segments = [segment for receipt in receipts for segment in receipt.segments]
    holes = [*pending.holes, *_holes(receipts, reached=before.read_to)]
    gaps = [gap for receipt in receipts for gap in receipt.gaps]
    # 2. Move the position over all adjoining spans.
    spans = [segment_span(segment) for segment in segments]
    spans += [*map(_span, holes), *map(_span, gaps)]
    end = frontier(before.end, spans)  # a batch may reach over the planned end
    # 3. Tasks that end at or below the position are complete; later parts stay for the next commit.
    whole = list(takewhile(lambda receipt: _ends_by(receipt, end), receipts))
    return _CommittablePartition(
        segments=tuple(
            replace(segment, end=min(segment.end, end)) for segment in segments if segment_span(segment)[0] < end
        ),
        holes=tuple(_recorded(hole, partition_id) for hole in holes if hole.start < end),
        gaps=tuple(_proven(gap, partition_id) for gap in gaps if gap.start < end),
        position=Position(
            partition_id=partition_id,
            log_start=bounds.log_start,
            end=end,
            leader_epoch=bounds.leader_epoch,
            last_batch=_last_batch(receipts, end, before=before.last_batch),
        ),
        failure=_failure(bounds, pending.outcomes, end),
        progress=_advanced(before, whole, end),
        completed_tasks=pending.numbers[: len(whole)],
    )


def _ends_by(receipt: BackupReceipt, end: int) -> bool:
    """Whether everything in the receipt ends at `end` or below, and is committed by a position at `end`."""
    stretches: tuple[Hole | Gap, ...] = (*receipt.holes, *receipt.gaps)
    batches: tuple[Segment | LastBatch, ...] = receipt.segments
    if receipt.last_batch is not None:
        batches = (*batches, receipt.last_batch)
    return all(stretch.end <= end for stretch in stretches) and all(batch.last_offset < end for batch in batches)


def _advanced(before: PartitionProgress, receipts: Sequence[BackupReceipt], end: int) -> PartitionProgress:
    """`receipts`: of the next tasks that the commit completes."""
    segments = [segment for receipt in receipts for segment in receipt.segments]
    return PartitionProgress(
        tasks=before.tasks + len(receipts),
        end=end,
        epoch=max([before.epoch, *(epoch for segment in segments for epoch in segment.leader_epochs)]),
        read_to=max([before.read_to, *(segment.last_offset + 1 for segment in segments)]),
        last_batch=_last_batch(receipts, end, before=before.last_batch),
    )


def _last_batch(receipts: Sequence[BackupReceipt], end: int, *, before: LastBatch | None) -> LastBatch | None:
    """The last batch of the receipts below `end`, or else the last batch of an earlier run."""
    batches = [receipt.last_batch for receipt in receipts if receipt.last_batch is not None]
    return next((batch for batch in reversed(batches) if batch.last_offset < end), before)


def _before_failure(outcomes: Iterable[BackupOutcome], *, newest: int) -> Iterator[BackupReceipt]:
    """Yield receipts up to the first failure, or up to the first range whose batches have an older leader epoch than
    earlier ranges. Epochs only rise in a log: between two such ranges another replica was elected, and its log may
    differ further back."""
    for outcome in outcomes:
        if not isinstance(outcome, Done):
            return
        epochs = [epoch for segment in outcome.value.segments for epoch in segment.leader_epochs]
        if min(epochs, default=newest) < newest:
            return
        newest = max([newest, *epochs])
        yield outcome.value


def _failure(bounds: PartitionBounds, outcomes: Sequence[BackupOutcome], end: int) -> PartitionFailure | None:
    """Why the position does not reach the planned end; None if the position does, or if a task is unfinished."""
    stopped_by = next((outcome for outcome in outcomes if not isinstance(outcome, Done)), False)
    if end >= bounds.end or stopped_by is None:
        return None
    failed = stopped_by if isinstance(stopped_by, Failed) else None
    if failed is not None:
        error, message, hint = failed.error.id, failed.error.message, failed.error.hint
    else:
        error, hint = SOURCE_TRUNCATED_ID, "run again: the backup continues from there"
        message = f"the log was cut back during the read: the copied records do not join at offset {end}"
    warned("stop", why=message, topic=bounds.topic, partition=bounds.partition, position=end, end=bounds.end)
    return PartitionFailure(
        topic=bounds.topic, partition=bounds.partition, start=end, error=error, message=message, hint=hint
    )


def _sick(partitions: Iterable[SickPartition]) -> Iterator[PartitionFailure]:
    for sick in partitions:
        error = sick.error
        warned("skip", why=error.message, topic=sick.topic, partition=sick.partition)
        yield PartitionFailure(
            topic=sick.topic,
            partition=sick.partition,
            start=-1,
            error=error.id,
            message=error.message,
            hint=error.hint,
        )


def _span(stretch: Hole | Gap) -> Span:
    return stretch.start, stretch.end


def _holes(receipts: Iterable[BackupReceipt], *, reached: int) -> Iterator[Hole]:
    """The holes met by tasks, without offsets read by an earlier range: the last batch of a range may reach into a
    hole."""
    for receipt in receipts:
        for hole in receipt.holes:
            if reached < hole.end:
                yield replace(hole, start=max(hole.start, reached))
        reached = max([reached, *(segment.last_offset + 1 for segment in receipt.segments)])


def _recorded(hole: Hole, partition_id: PartitionId) -> RecordedHole:
    return RecordedHole(partition_id=partition_id, start=hole.start, end=hole.end, reason=hole.reason)


def _proven(gap: Gap, partition_id: PartitionId) -> ProvenGap:
    return ProvenGap(
        partition_id=partition_id, start=gap.start, end=gap.end, evidence=gap.evidence.value, seen_at=gap.seen_at
    )


def driver_bytes(plan: CopyPlan) -> int:
    """The approximate memory in bytes, whatever the topics hold. Grows with the number of segments, and less with large
    segments."""
    segments = sum(max(1, -(-task.estimated_bytes // TARGET_SEGMENT_BYTES)) for task in plan.tasks)
    at_once = max(min(segments, CommitThresholds().segments), int(segments * LARGEST_COMMIT))
    bookkeeping_bytes = len(plan.tasks) * TASK_BYTES + segments * SEGMENT_BYTES
    return IDLE_BYTES + bookkeeping_bytes + at_once * NEW_SEGMENT_BYTES
