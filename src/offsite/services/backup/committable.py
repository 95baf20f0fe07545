"""The part of a finished copy that may be committed: for each partition the unbroken beginning that is accounted for.
Pure.

A position moves as far as segments, holes and proven gaps follow each other without a break, and no further. The next
run begins there and never looks below: what a position had passed over would never be found again. A range that failed
ends its partition's progress there; what later ranges of it brought become orphans, other partitions are not held back.

What is in a commit whole is not looked at again: a search costs what is new, and receipts need not be kept (`Reached`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from offsite.copy.backup import BackupReceipt
from offsite.copy.plan import OF_ONE_PARTITION, CopyPlan, PartitionBounds, PositionKey, SickPartition
from offsite.log.batch import LastBatch
from offsite.log.chunk import Gap, Hole
from offsite.log.range import Span
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.commit import NO_EPOCH, PartitionId, Position, ProvenGap, RecordedHole
from offsite.repository.coverage import frontier, segment_span
from offsite.repository.segments.segment import Segment
from offsite.spark.runner import Done, Failed

Outcome = Done[BackupReceipt] | Failed | None
"""None: the task has not ended yet."""

NOT_JOINED = "OFF-1408"
"""Error id for a break between two ranges: the log changed while they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailure:
    """A partition whose copy stopped at offset `start`, -1 when it did not even begin, and why; `hint` says what to do
    next."""

    topic: str
    partition: int
    start: int
    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far the commits of a pass have got with one partition.

    Of its tasks the first `tasks` are in them whole: all that these have read ends at `end` or below. What is needed of
    them to go on is the newest leader epoch that they have seen, the offset behind the last batch that they have read,
    and that batch, if they have read one.
    """

    tasks: int
    end: int
    epoch: int = NO_EPOCH
    read_to: int = 0
    last_batch: LastBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committable:
    """`reached`: how far a commit of it gets, by partition; `settled`: the places in the plan of the tasks that are in
    it whole, and in no commit before."""

    segments: tuple[Segment, ...]
    holes: tuple[RecordedHole, ...]
    gaps: tuple[ProvenGap, ...]
    positions: tuple[Position, ...]
    failed: tuple[PartitionFailure, ...]
    reached: Mapping[PositionKey, Reached] = field(default_factory=dict)
    settled: tuple[int, ...] = ()


NOTHING_YET: Mapping[PositionKey, Reached] = {}


def find_committable(
    plan: CopyPlan, outcomes: Sequence[Outcome], reached: Mapping[PositionKey, Reached] = NOTHING_YET
) -> Committable:
    """What may be committed of `outcomes` (in the order of `plan.tasks`), and the partitions that failed; those that
    only have not ended yet have not failed. `reached`: by the commits before. Of a task that is in them whole nothing
    but the fact that it ended well is looked at; what they have of others is found again.

    Raises the first failure when nothing could be copied at all: there is nothing to report but the error.
    """
    failures = [outcome.error for outcome in outcomes if isinstance(outcome, Failed)]
    if len(failures) == len(plan.tasks):
        _check_some_are_sound(plan, failures)
    parts = [
        _committable(bounds, own, reached.get(bounds.key) or _not_begun(plan, bounds))
        for bounds, own in _by_partition(plan, outcomes, reached)
    ]
    return Committable(
        segments=tuple(segment for each in parts for segment in each.segments),
        holes=tuple(hole for each in parts for hole in each.holes),
        gaps=tuple(gap for each in parts for gap in each.gaps),
        positions=tuple(each.position for each in parts),
        failed=(*_sick(plan.sick), *(each.failure for each in parts if each.failure is not None)),
        reached={bounds.key: each.reached for bounds, each in zip(plan.bounds, parts, strict=True)},
        settled=tuple(number for each in parts for number in each.settled),
    )


def _not_begun(plan: CopyPlan, bounds: PartitionBounds) -> Reached:
    start = plan.starts.get(bounds.key, bounds.log_start)
    return Reached(tasks=0, end=start, last_batch=plan.borders.get(bounds.key))


def _check_some_are_sound(plan: CopyPlan, failures: Sequence[OffsiteError]) -> None:
    """Partitions without news are sound, where all failures are of single partitions."""
    without_news = {bounds.key for bounds in plan.bounds} - {task.key for task in plan.tasks}
    of_all = [error for error in failures if not isinstance(error, OF_ONE_PARTITION)]
    if of_all or not without_news:
        errors = [*of_all, *failures, *(each.error for each in plan.sick)]
        if errors:
            raise errors[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittablePartition:
    """What becomes of one partition."""

    segments: tuple[Segment, ...]
    holes: tuple[RecordedHole, ...]
    gaps: tuple[ProvenGap, ...]
    position: Position
    failure: PartitionFailure | None
    reached: Reached
    settled: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The tasks of one partition that are not in a commit whole, by their places in the plan, in rising order, with
    their outcomes; and the holes that its plan knew."""

    numbers: Sequence[int]
    outcomes: Sequence[Outcome]
    holes: Sequence[Hole]


def _by_partition(
    plan: CopyPlan, outcomes: Sequence[Outcome], reached: Mapping[PositionKey, Reached]
) -> Iterator[tuple[PartitionBounds, _Own]]:
    tasks: dict[tuple[str, int], list[int]] = {}
    for number, task in enumerate(plan.tasks):
        tasks.setdefault((task.range.topic, task.range.partition), []).append(number)
    holes: dict[tuple[str, int], list[Hole]] = {}
    for hole in plan.holes:
        holes.setdefault((hole.topic, hole.partition), []).append(hole)
    for bounds in plan.bounds:
        key = (bounds.topic, bounds.partition)
        begun = reached.get(bounds.key)
        numbers = tasks.get(key, [])[begun.tasks if begun else 0 :]
        yield bounds, _Own(numbers=numbers, outcomes=[outcomes[n] for n in numbers], holes=holes.get(key, ()))


def _committable(bounds: PartitionBounds, own: _Own, before: Reached) -> _CommittablePartition:
    known = PartitionId(topic=bounds.topic, topic_id=bounds.topic_id, partition=bounds.partition)
    receipts = list(_before_failure(own.outcomes, newest=before.epoch))
    segments = [segment for receipt in receipts for segment in receipt.segments]
    holes = [*own.holes, *_holes(receipts, reached=before.read_to)]
    gaps = [gap for receipt in receipts for gap in receipt.gaps]
    spans = [segment_span(segment) for segment in segments]
    spans += [*map(_span, holes), *map(_span, gaps)]
    end = frontier(before.end, spans)  # a batch may reach over the planned end
    whole = list(takewhile(lambda receipt: _ends_by(receipt, end), receipts))
    return _CommittablePartition(
        segments=tuple(replace(each, end=min(each.end, end)) for each in segments if segment_span(each)[0] < end),
        holes=tuple(_recorded(hole, known) for hole in holes if hole.start < end),
        gaps=tuple(_proven(gap, known) for gap in gaps if gap.start < end),
        position=Position(
            partition_id=known,
            log_start=bounds.log_start,
            end=end,
            leader_epoch=bounds.leader_epoch,
            last_batch=_last_batch(receipts, end, before=before.last_batch),
        ),
        failure=_failure(bounds, own.outcomes, end),
        reached=_gone_on(before, whole, end),
        settled=own.numbers[: len(whole)],
    )


def _ends_by(receipt: BackupReceipt, end: int) -> bool:
    """Whether all that it tells of ends at `end` or below, and so is committed with a position there."""
    stretches: tuple[Hole | Gap, ...] = (*receipt.holes, *receipt.gaps)
    batches: tuple[Segment | LastBatch, ...] = receipt.segments
    if receipt.last_batch is not None:
        batches = (*batches, receipt.last_batch)
    return all(each.end <= end for each in stretches) and all(each.last_offset < end for each in batches)


def _gone_on(before: Reached, receipts: Sequence[BackupReceipt], end: int) -> Reached:
    """`receipts`: of the next tasks, that a commit has whole."""
    segments = [segment for receipt in receipts for segment in receipt.segments]
    return Reached(
        tasks=before.tasks + len(receipts),
        end=end,
        epoch=max([before.epoch, *(epoch for segment in segments for epoch in segment.leader_epochs)]),
        read_to=max([before.read_to, *(segment.last_offset + 1 for segment in segments)]),
        last_batch=_last_batch(receipts, end, before=before.last_batch),
    )


def _last_batch(receipts: Sequence[BackupReceipt], end: int, *, before: LastBatch | None) -> LastBatch | None:
    """That of the receipts which count, or of an earlier run."""
    found = [receipt.last_batch for receipt in receipts if receipt.last_batch is not None]
    return next((batch for batch in reversed(found) if batch.last_offset < end), before)


def _before_failure(outcomes: Iterable[Outcome], *, newest: int) -> Iterator[BackupReceipt]:
    """Also before a range whose batches are of an older leader epoch than those before it: in one log epochs only rise,
    so between the two another replica was elected, and its log may be another one from further back."""
    for outcome in outcomes:
        if not isinstance(outcome, Done):
            return
        epochs = [epoch for segment in outcome.value.segments for epoch in segment.leader_epochs]
        if min(epochs, default=newest) < newest:
            return
        newest = max([newest, *epochs])
        yield outcome.value


def _failure(bounds: PartitionBounds, outcomes: Sequence[Outcome], end: int) -> PartitionFailure | None:
    """Why the position does not stand at the end that was planned, if so."""
    stopped_by = next((outcome for outcome in outcomes if not isinstance(outcome, Done)), False)
    if end >= bounds.end or stopped_by is None:
        return None
    failed = stopped_by if isinstance(stopped_by, Failed) else None
    if failed is not None:
        error, message, hint = failed.error.id, failed.error.message, failed.error.hint
    else:
        error, hint = NOT_JOINED, "run again: it goes on from there"
        message = f"the log was cut while it was read: what was read does not join at offset {end}"
    warned("stop", why=message, topic=bounds.topic, partition=bounds.partition, position=end, end=bounds.end)
    return PartitionFailure(
        topic=bounds.topic, partition=bounds.partition, start=end, error=error, message=message, hint=hint
    )


def _sick(partitions: Iterable[SickPartition]) -> Iterator[PartitionFailure]:
    for each in partitions:
        error = each.error
        warned("skip", why=error.message, topic=each.topic, partition=each.partition)
        yield PartitionFailure(
            topic=each.topic,
            partition=each.partition,
            start=-1,
            error=error.id,
            message=error.message,
            hint=error.hint,
        )


def _span(stretch: Hole | Gap) -> Span:
    return stretch.start, stretch.end


def _holes(receipts: Iterable[BackupReceipt], *, reached: int) -> Iterator[Hole]:
    """Those that were met on the way, without what a range before had read: its last batch may reach into them."""
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
