"""Which points a compaction leaves exact: those where commits ended, and none between two of them inside of its range.

There, records were left out that later ones replaced. As of a moment in between they would be the latest of their key,
and without them the key would be missing, or older than it was. So such a point is refused, never restored nearly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from offsite.copy.point_in_time import PointInTime, is_open
from offsite.log.range import Span
from offsite.model.errors import NoSuchRestorePoint
from offsite.repository.commit import PartitionId
from offsite.repository.expiry import Spans


def check_exact(point: PointInTime, compacted: Mapping[PartitionId, Spans], topics: Collection[str]) -> None:
    """Raise `NoSuchRestorePoint` where `point` ends, by offset or by date, inside what was `compacted` of one of
    `topics`."""
    for partition, spans in compacted.items():
        if partition.topic in topics and (span := next(_inside(point, partition, spans), None)) is not None:
            raise NoSuchRestorePoint(
                f"{partition} was compacted over offsets {span[0]} to {span[1] - 1}: what it held at a moment in "
                "between is not known any more",
                hint="choose a commit, each one that offsite show lists is exact; or leave the topic out",
            )


def _inside(point: PointInTime, partition: PartitionId, spans: Spans) -> Iterator[Span]:
    if partition not in point.state.positions or not point.partitions.includes(partition.topic, partition.partition):
        return
    end, whole = point.state.positions[partition].end, point.commit.positions[partition].end
    # all of the commit: what is later as a whole has left the point, and may be what replaced records of before
    segments = [each for each in point.commit.segments.get(partition, ()) if each.start < end]
    for low, high in spans:
        by_offset = end < whole and low < end < high
        if by_offset or any(s.start < high and low < s.end and is_open(s, point.until_ms) for s in segments):
            yield low, high
