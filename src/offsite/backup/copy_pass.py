"""A pass over everything new in a plan: copied in parallel and committed along the way.

The driver of a first backup of many hours may die. For that reason finished work is committed from time to time, and
such a commit says that the pass is incomplete: every partition has its unbroken beginning, and groups stay as in the
previous commit, because newer group offsets may lie beyond the commit. The last commit completes the pass.

An interrupted pass commits its work once. A commit that was itself interrupted is not repeated: nobody knows whether
the commit arrived, and the next run finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.backup.bundle import CopyBundle, CopyOutcome
from offsite.backup.committable import (
    NO_PROGRESS,
    BackupOutcome,
    Committable,
    PartitionFailure,
    PartitionProgress,
    find_committable,
)
from offsite.backup.copy import BackupReceipt
from offsite.backup.copy_plan import CopyPlan
from offsite.engine.runner import Done, Failed
from offsite.log.range import PartitionId
from offsite.model.clock import Clock
from offsite.model.journal import decided
from offsite.model.units import GIB, MIB
from offsite.repository.backup import without_unchanged
from offsite.repository.commit import CommitChanges, Position, RecordedHole
from offsite.repository.segments.segment import Segment, SegmentFigures
from offsite.repository.segments.writer import TARGET_SEGMENT_BYTES
from offsite.repository.state import BackupState


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


_NOTHING = PassSummary(positions=(), holes=(), failed=(), receipts=(), segments=0, figures=SegmentFigures())


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTotals:
    """Totals of `count` passes of a run, summed up in `summary`. `commits_s`: duration of every commit in seconds.
    `throttled_s`: total seconds for which limits held back tasks."""

    summary: PassSummary = _NOTHING
    count: int = 0
    commits: int = 0
    commits_s: tuple[float, ...] = ()
    throttled_s: float = 0.0
    worker_peak_rss_bytes: int = 0

    def with_one(self, other: PassTotals) -> PassTotals:
        return PassTotals(
            summary=self.summary.followed_by(other.summary),
            count=self.count + other.count,
            commits=self.commits + other.commits,
            commits_s=(*self.commits_s, *other.commits_s),
            throttled_s=self.throttled_s + other.throttled_s,
            worker_peak_rss_bytes=max(self.worker_peak_rss_bytes, other.worker_peak_rss_bytes),
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
        self.commits = 0
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
        self.commits += 1
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


def is_news(changes: CommitChanges, base: BackupState) -> bool:
    """Whether a commit of `changes` would say anything new beside `base`."""
    of_the_run = replace(changes, accounted=False, left_behind=(), incomplete=False, progress=None)
    differs = (changes.left_behind, changes.incomplete) != (base.left_behind, base.incomplete)
    return differs or without_unchanged(of_the_run, base) != CommitChanges()


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


def driver_bytes(plan: CopyPlan) -> int:
    """The approximate memory in bytes, whatever the topics hold. Grows with the number of segments, and less with large
    segments."""
    segments = sum(max(1, -(-task.estimated_bytes // TARGET_SEGMENT_BYTES)) for task in plan.tasks)
    at_once = max(min(segments, CommitThresholds().segments), int(segments * LARGEST_COMMIT))
    bookkeeping_bytes = len(plan.tasks) * TASK_BYTES + segments * SEGMENT_BYTES
    return IDLE_BYTES + bookkeeping_bytes + at_once * NEW_SEGMENT_BYTES
