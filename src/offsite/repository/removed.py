"""What a restore point held and later commits removed: named, so that a reader never takes it for never written. Pure.

A merge is no loss: the segments that replace others cover what they held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offsite.repository.commit import PartitionId, RecordedHole
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState

REMOVED = "removed"
"""The reason of such a hole: the source had it, the backup has it no more."""


def removed_since(point: BackupState, head: BackupState) -> Iterator[RecordedHole]:
    """Ranges of the segments of `point`, below its positions, that no segment of `head` covers."""
    for partition, segments in point.segments.items():
        end = point.positions[partition].end
        live = head.segments.get(partition, ())
        keys = {segment.key for segment in live}
        for segment in segments:
            if segment.key not in keys:
                yield from _uncovered(partition, segment.start, min(segment.end, end), live)


def _uncovered(partition: PartitionId, start: int, end: int, live: Iterable[Segment]) -> Iterator[RecordedHole]:
    at = start
    for segment in live:
        if segment.end <= at or segment.start >= end:
            continue
        if segment.start > at:
            yield RecordedHole(partition_id=partition, start=at, end=segment.start, reason=REMOVED)
        at = segment.end
    if at < end:
        yield RecordedHole(partition_id=partition, start=at, end=end, reason=REMOVED)
