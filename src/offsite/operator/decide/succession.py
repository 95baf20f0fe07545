"""Decides whether a low-level backup may be deleted in favour of its successor. Pure: compares the contents of both.

A new backup copies the present records of its source. Records deleted at the source earlier are in the older backup
only. Hence the comparison has two conditions. First, there is no gap between the two backups, and from its start the
successor holds all records of the older backup, by the ranges of segments; log ends, times and names prove nothing.
Second, the successor alone reaches back as far as `minimumRestorable`. Only under the second condition is the time
before its start mere history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice

from offsite.log.range import PartitionId, uncovered
from offsite.model.cleanup_policy import is_compacted
from offsite.model.names import named
from offsite.model.units import format_duration
from offsite.repository.commit import TopicShape
from offsite.repository.coverage import segment_span
from offsite.repository.partition_history import Spans, join_spans
from offsite.repository.state import BackupState

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessionVerdict:
    """Whether an older backup may be deleted: only without any reason against the deletion."""

    reasons: tuple[str, ...] = ()

    @property
    def may_go(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        return named(self.reasons, most=_NAMED_MAX, of="reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """The known facts about the last backup. `point`: newest complete restore point after its own start, with the
    segments that hold its data now; None: no such point. `since_ms`: commit time of the oldest such point with all
    common partitions. `until_ms`: commit time of the newest one. `clock_step`: why the difference may not be the
    elapsed time. `problem`: why the backup cannot be judged. `left_behind`, `missing`: data that the backup lacks.
    `began`: log start of every partition with expired records at the first copy of the partition."""

    name: str
    point: BackupState | None = None
    since_ms: int = 0
    until_ms: int = 0
    clock_step: str = ""
    problem: str = ""
    left_behind: str = ""
    missing: str = ""
    began: Mapping[PartitionId, int] = field(default_factory=dict)


def judge_successor(successor: Successor, *, minimum_ms: int) -> SuccessionVerdict:
    """Decide whether the successor may replace any other backup."""
    return SuccessionVerdict(reasons=tuple(f"{successor.name} {why}" for why in _unfit(successor, minimum_ms)))


def judge_coverage(
    older: BackupState,
    successor: Successor,
    *,
    same_batch: Mapping[PartitionId, bool],
    rewritten: AbstractSet[PartitionId] = frozenset(),
) -> SuccessionVerdict:
    """Decide whether `successor` holds all data of `older`, without a gap between them. `same_batch`: whether the
    successor has the last batch of the older backup, for partitions where the successor must have the batch and the
    batch could be compared. `rewritten`: partitions of compacted topics whose log was cut back between the two.

    For a compacted topic the latest records count: superseded records may be missing, but the successor must have
    started at the start of the older backup, and must hold records. Data known to be over in the older backup (topics
    deleted at the source, logs cut back) are history, too. A backup without a clear verdict stays.
    """
    if successor.point is None:
        return SuccessionVerdict(reasons=(f"{successor.name} has no restore point to compare with",))
    comparison = _Comparison(
        older=older, point=successor.point, began=successor.began, same_batch=same_batch, rewritten=rewritten
    )
    return SuccessionVerdict(reasons=tuple(f"{successor.name} {why}" for why in comparison.lacks()))


def must_have_batch(older: BackupState, point: BackupState, partition: PartitionId) -> bool:
    """Whether the last batch of a partition that `older` read must be in `point` as well."""
    position, spans = older.positions.get(partition), held_spans(point, partition)
    last = position.last_batch if position is not None else None
    if last is None or not spans or is_compacted_in(older, point, partition):
        return False
    return spans[0][0] <= last.last_offset < spans[-1][1]


def may_be_rewritten(older: BackupState, point: BackupState, partition: PartitionId) -> bool:
    """Whether only leader epochs can tell that the log was cut back since `older` read the log: the last batch of a
    compacted topic may be gone from the log."""
    position = older.positions[partition]
    return position.is_exact and partition in point.positions and is_compacted_in(older, point, partition)


def held_spans(state: BackupState, partition: PartitionId) -> Spans:
    """Return the offsets of a partition in its live segments, below its position: ascending, with gaps between
    spans."""
    end = state.accounted_ends([partition]).get(partition, 0)
    spans = (segment_span(segment) for segment in state.segments.get(partition, ()))
    return join_spans([(start, min(high, end)) for start, high in spans if start < end])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    older: BackupState
    point: BackupState
    began: Mapping[PartitionId, int]
    same_batch: Mapping[PartitionId, bool]
    rewritten: AbstractSet[PartitionId]

    def lacks(self) -> Iterator[str]:
        latest = self.older.live_incarnations()
        for incarnation, shape in self.older.topics.items():
            if incarnation not in latest:  # the older backup knew that the topic was deleted
                continue
            if incarnation not in self.point.topics:
                is_other = self.point.incarnation(incarnation.topic) is not None
                yield (
                    f"has another topic {incarnation.topic}" if is_other else f"does not have topic {incarnation.topic}"
                )
                continue
            for partition in sorted(
                partition_id for partition_id in self.older.positions if partition_id.incarnation == incarnation
            ):
                if spans := held_spans(self.older, partition):
                    yield from islice(self._lacks_of(partition, shape, spans), 1)

    def _lacks_of(self, partition: PartitionId, shape: TopicShape, spans: Spans) -> Iterator[str]:
        """Yield the missing data of a partition of which the older backup holds `spans`. The caller takes the first."""
        if partition not in self.point.positions:
            yield f"does not have partition {partition}"
            return
        successor_spans = held_spans(self.point, partition)
        if not successor_spans:
            yield f"has no records of {partition}"
            return
        if is_compacted_in(self.older, self.point, partition):
            yield from self._lacks_of_compacted(partition, spans)
            return
        covered = join_spans([*successor_spans, *self._let_go(partition)])
        if covered[0][0] > spans[-1][1]:
            yield f"begins at offset {covered[0][0]} of {partition}, but the older backup ends at {spans[-1][1]}"
        for start, end in spans:
            for low, high in uncovered(max(start, covered[0][0]), end, covered):
                yield f"does not have offsets {low} to {high} of {partition}"
        yield from self._differs(partition, shape)

    def _lacks_of_compacted(self, partition: PartitionId, spans: Spans) -> Iterator[str]:
        """Superseded records may be missing. The log must not start later, end earlier or have holes."""
        if not partition.topic_id:
            yield f"may have another topic {partition.topic}: its source gives topics no ids"
        position, (start, end) = self.point.positions[partition], (spans[0][0], spans[-1][1])
        if position.log_start > start:
            yield (
                f"begins at offset {position.log_start} of compacted partition {partition}, but the older backup "
                f"begins at {start}"
            )
        if self.point.accounted_ends([partition])[partition] < end:
            yield f"does not have offsets up to {end} of {partition}"
        holes = [hole for hole in self.point.holes if hole.partition_id == partition]
        if any(hole.start < end and start < hole.end for hole in holes):
            yield f"has a hole in {partition}"
        if partition in self.rewritten:
            yield f"has records of a later leader of {partition} below offset {end}: the log was cut back"

    def _let_go(self, partition: PartitionId) -> Spans:
        """Return the spans that the retention of the successor deleted. Retention counts from offset 0, regardless of
        the stored spans."""
        began = self.began.get(partition)
        spans = self.point.expired.get(partition, ()) if began is not None else ()
        return tuple((max(start, began or 0), end) for start, end in spans if end > (began or 0))

    def _differs(self, partition: PartitionId, shape: TopicShape) -> Iterator[str]:
        """Compare the last batch, to detect another log: offsets alone do not tell."""
        is_same = self.same_batch.get(partition)
        if is_same is False:
            yield f"has another record at the end of the older backup of {partition}"
        if is_same is None and not shape.topic_id:
            yield f"may have another topic {partition.topic}: its source gives topics no ids"


def _unfit(successor: Successor, minimum_ms: int) -> Iterator[str]:
    if not minimum_ms:
        yield "may not replace another backup: the resource has no minimumRestorable"
    if successor.problem:
        yield successor.problem
        return
    if successor.point is None:
        yield "has not completed a full copy since it began"
        return
    if successor.left_behind:
        yield f"does not have partitions that could not be read: {successor.left_behind}"
    if successor.missing:
        yield f"does not have declared topics: {successor.missing}"
    if not successor.point.positions:
        yield "has no topics"
    if minimum_ms and (reach_ms := successor.until_ms - successor.since_ms) < minimum_ms:
        reach, minimum = format_duration(reach_ms / 1000), format_duration(minimum_ms / 1000)
        yield f"does not reach back far enough yet: {reach} of {minimum}"
    if minimum_ms and successor.clock_step:
        yield f"may not reach back as far as its clock says: {successor.clock_step}"


def is_compacted_in(older: BackupState, point: BackupState, partition: PartitionId) -> bool:
    """Whether the topic was compacted at any time known to either backup."""
    shapes = (state.topics.get(partition.incarnation) for state in (older, point))
    return any(shape is not None and (shape.was_compacted or is_compacted(dict(shape.configs))) for shape in shapes)
