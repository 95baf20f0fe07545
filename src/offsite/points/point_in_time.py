"""A restore point between commits: a commit's state with earlier ends in some partitions, by offset or by date. Pure.

By offset, a partition ends at the offset: transactions not decided before are undecided. By date no such end exists,
because dates need not rise: records are selected one by one, and transactions stay as known to the commit. A compaction
leaves the ends of commits exact, but no point inside of a compacted range: a record removed there may be the latest of
its key at that point. Such a point is refused, never restored approximately. The same holds for a region that was left
whole because it would hardly shrink: the state does not tell such regions from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.range import Span
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.topic_choices import PartitionSelection
from offsite.points.incarnations import IncarnationSummary, drop_other_incarnations
from offsite.points.point_cut import AS_COPIED, PointCut
from offsite.repository.commit import PartitionId
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import BackupState

_HINT = "choose a commit that offsite show lists (all of them are exact), or leave the topic out"
_CUT_HINT = "restore what was copied (--cut as-copied), or leave the topic out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """A partition that a point takes up to `end` instead of `commit_end`. Of its segments, `whole_segments` are taken
    unchanged, `edge_segments` in part (their records are examined), `left_out_segments` not at all."""

    topic: str
    partition: int
    end: int
    commit_end: int
    whole_segments: int
    edge_segments: int
    left_out_segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """A restore point: `state` is the selected part of `commit`, the state at the commit; `state` still contains
    records dated after `until_ms`. Both states know one incarnation of every selected topic; `incarnations` lists the
    topics with several. `partitions` are the requested partitions: `state` has only their segments. `cut` names the
    transactions left out in addition."""

    commit: BackupState
    state: BackupState
    until_ms: int | None = None
    incarnations: tuple[IncarnationSummary, ...] = ()
    partitions: PartitionSelection = field(default_factory=PartitionSelection)
    cut: PointCut = AS_COPIED

    def cuts(self) -> tuple[PartitionCut, ...]:
        """The partitions that are not taken whole, sorted."""
        cuts = (self._cut(partition) for partition in sorted(self.commit.segments))
        return tuple(cut for cut in cuts if cut.edge_segments or cut.left_out_segments)

    def incarnations_of(self, topics: Collection[str]) -> tuple[IncarnationSummary, ...]:
        """The incarnations of those `topics` that were deleted and recreated: the selected one, and the rest."""
        return tuple(incarnation for incarnation in self.incarnations if incarnation.topic in topics)

    def _cut(self, partition: PartitionId) -> PartitionCut:
        position = self.state.positions[partition]
        segments = self.state.segments.get(partition, ())
        commit_end = self.commit.positions[partition].end  # a roll-up may join later records with older ones
        edges = sum(
            position.end < min(segment.end, commit_end) or is_open(segment, self.until_ms) for segment in segments
        )
        return PartitionCut(
            topic=partition.topic,
            partition=partition.partition,
            end=position.end,
            commit_end=commit_end,
            whole_segments=len(segments) - edges,
            edge_segments=edges,
            left_out_segments=len(self.commit.segments[partition]) - len(segments),
        )


def point_in_time(
    commit: BackupState,
    *,
    ends: Mapping[PartitionId, int] | None = None,
    until_ms: int | None = None,
    partitions: PartitionSelection | None = None,
    incarnations: Sequence[IncarnationSummary] = (),
) -> PointInTime:
    """The point of `commit` with the ends `ends` where given, with the records dated `until_ms` or before, of
    `partitions`. Incarnations in `incarnations` that were not taken are left out."""
    commit = drop_other_incarnations(commit, incarnations)
    state = _ended(commit, ends or {})
    partitions = partitions or PartitionSelection()
    segments = dict(_chosen(state, partitions, until_ms))
    return PointInTime(
        commit=commit,
        state=replace(state, segments=segments),
        until_ms=until_ms,
        incarnations=tuple(incarnations),
        partitions=partitions,
    )


def is_open(segment: Segment, until_ms: int | None) -> bool:
    """Whether only the records of the segment can tell which of them are dated `until_ms` or before."""
    return until_ms is not None and segment.timestamp_max_ms > until_ms


def _ended(state: BackupState, ends: Mapping[PartitionId, int]) -> BackupState:
    positions = {
        partition_id: replace(position, end=min(position.end, ends.get(partition_id, position.end)))
        for partition_id, position in state.positions.items()
    }
    segments = {
        partition_id: SegmentList(s for s in segment_list if s.start < positions[partition_id].end)
        if partition_id in ends
        else segment_list
        for partition_id, segment_list in state.segments.items()
    }
    holes = (hole for hole in state.holes if hole.start < ends.get(hole.partition_id, hole.end))
    return replace(state, positions=positions, segments=segments, holes=tuple(holes))


def _chosen(
    state: BackupState, partitions: PartitionSelection, until_ms: int | None
) -> Iterator[tuple[PartitionId, SegmentList]]:
    for partition_id, segments in state.segments.items():
        if not partitions.includes(partition_id.topic, partition_id.partition):
            continue
        selected = segments if until_ms is None else SegmentList(s for s in segments if not _is_later(s, until_ms))
        if selected:
            yield partition_id, selected


def _is_later(segment: Segment, until_ms: int) -> bool:
    """Whether every record is dated after `until_ms`. Only dates of brokers tell without a read: with dates of
    producers, an early record may stand behind a late one. Segments with transactions stay: a later segment may decide
    an earlier transaction."""
    by_broker = segment.timestamp_types == (LOG_APPEND_TIME,) and not segment.has_transactions
    return by_broker and segment.base_timestamp_min_ms > until_ms


def check_exact(point: PointInTime, head: BackupState, topics: Collection[str]) -> None:
    """Raise `NoSuchRestorePoint` when `point` ends, by offset or by date, inside a compacted range of one of `topics`,
    as known to `head`, the newest state; or when the cut of `point` leaves out records inside such a range."""
    for partition in head.compacted:
        if partition.topic in topics and (span := next(_inside(point, partition, head), None)) is not None:
            raise NoSuchRestorePoint(
                f"{partition} was compacted over offsets {span[0]} to {span[1] - 1}: its exact contents at a moment "
                "inside this range are no longer known",
                hint=_CUT_HINT if point.cut.used else _HINT,
            )


def _inside(point: PointInTime, partition: PartitionId, head: BackupState) -> Iterator[Span]:
    if partition not in point.state.positions or not point.partitions.includes(partition.topic, partition.partition):
        return
    end, whole = point.state.positions[partition].end, point.commit.positions[partition].end
    unsettled = point.cut.unsettled(partition)
    # a removed tombstone may have been the latest record: no remaining record tells its time
    is_before = point.until_ms is not None and point.until_ms < head.compacted_until.get(partition, -1)
    # all segments of the commit: a later segment is not in the point, and may have replaced earlier records
    segments = [segment for segment in point.commit.segments.get(partition, ()) if segment.start < end]
    for low, high in head.compacted[partition]:
        by_offset = end < whole and low < end < high
        by_date = any(s.start < high and low < s.end and is_open(s, point.until_ms) for s in segments)
        by_cut = unsettled is not None and low < unsettled[1] and unsettled[0] < high
        if by_offset or by_date or by_cut or (is_before and low < end):
            yield low, high
