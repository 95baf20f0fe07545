"""The restore points that a compaction leaves exact: the ends of commits, but no point inside of a compacted range.

A compaction removes records that later records replaced. At a moment in between, a removed record would be the latest
of its key; without it, the key would be missing or too old. Such a point is refused, never restored approximately. The
same holds for a region that was left whole because it would hardly shrink: the state does not tell such regions from
the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from offsite.log.range import Span
from offsite.model.errors import NoSuchRestorePoint
from offsite.points.point_in_time import PointInTime, is_open
from offsite.repository.commit import PartitionId
from offsite.repository.state import BackupState

_HINT = "choose a commit that offsite show lists (all of them are exact), or leave the topic out"
_CUT_HINT = "restore what was copied (--cut as-copied), or leave the topic out"


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
