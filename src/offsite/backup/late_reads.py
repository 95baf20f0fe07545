"""Finds compacted topics that a run read too late to see all deletions of keys. Pure.

A broker removes the tombstone of a key `delete.retention.ms` after its cleaner first passed the tombstone, never
earlier. A tombstone behind a position came after the reading of the ends that led to the position. A copy that ends
within `delete.retention.ms` of that reading therefore saw every tombstone, and so did a copy without a missing offset.
After any other copy, the backup may hold the older record of a deleted key, and a restore brings the key back. Offsets
below a later log start are removed at any time: after such a hole the times say nothing. A partition without older data
is compared with its own first records, which were read after the ends (Kafka states the same bound for a consumer that
begins at offset 0).

Times are epoch ms by the store's clock. Doubt makes a reading before earlier and a copy later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.backup.copy_pass import Committable
from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.bounds import MAX_OFFSET
from offsite.model.clock import MOST_APART_MS
from offsite.model.journal import warned
from offsite.model.units import format_time
from offsite.repository.commit import LateRead, TopicShape
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """When the ends of logs were read. `base`: the state that the run continues from. `began_ms`: when the run read the
    ends. `copied_ms`: when the copy had ended, at the latest. `quiet_ms`: the last reading by a run without a commit; 0
    if none."""

    base: BackupState
    began_ms: int
    copied_ms: int
    quiet_ms: int = 0

    def holds(self, partition: PartitionId) -> bool:
        """Whether the backup holds older data of the partition."""
        return bool(self.base.segments.get(partition))

    def before(self, partition: PartitionId) -> int:
        """The reading before the copy of the partition; 0 if nobody knows, because the store's clock went back."""
        shape = self.base.topics.get(partition.incarnation)
        if shape is None or not self.holds(partition):
            return self.began_ms
        before_ms = last_read_ms(self.base, shape)
        known_ms = 0 if before_ms > self.copied_ms + MOST_APART_MS else min(before_ms, self.copied_ms)
        return known_ms if shape.read_ms else max(known_ms, self.quiet_ms)


def last_read_ms(base: BackupState, shape: TopicShape) -> int:
    """When the ends of all partitions of a topic of `base` were last read. For commits of earlier versions: when the
    last pass had ended, or else the newest commit."""
    return shape.read_ms or base.read_ms or base.completed_at_ms or base.committed_at_ms


def has_missing_offsets(segment: Segment) -> bool:
    """Whether offsets between the first and the last batch have neither a record nor a marker. Records of aborted
    transactions count as records."""
    return segment.last_offset + 1 - segment.first_offset > segment.records + segment.control_batches


def lacking_partitions(copied: Committable) -> frozenset[PartitionId]:
    """The partitions with missing offsets in the copied part."""
    gaps = (gap.partition_id for gap in copied.gaps)
    holes = (hole.partition_id for hole in copied.holes)
    segments = (segment_partition(segment) for segment in copied.segments if has_missing_offsets(segment))
    return frozenset((*gaps, *holes, *segments))


def find_late(
    copied: Committable, readings: Readings, stay_ms: Mapping[TopicIncarnation, int]
) -> Iterator[tuple[PartitionId, int]]:
    """The partitions that were read too late, sorted, with the reading before. `stay_ms`: `delete.retention.ms` of each
    topic that is or was compacted."""
    emptied = {hole.partition_id for hole in copied.holes if readings.holds(hole.partition_id)}
    for partition in sorted(lacking_partitions(copied)):
        before_ms = readings.before(partition)
        limit_ms = stay_ms.get(partition.incarnation)
        if limit_ms is not None and (partition in emptied or readings.copied_ms - before_ms > limit_ms):
            yield partition, before_ms


class LateReads:
    """The late reads of a pass so far. `base`: the state that the pass continues from. `stay_ms`: see `find_late`."""

    def __init__(self, base: BackupState, stay_ms: Mapping[TopicIncarnation, int]) -> None:
        self._base, self._stay_ms = base, stay_ms
        self._partitions: dict[PartitionId, int] = {}
        self._late: dict[TopicIncarnation, LateRead] = {}

    def may_be_late(self, copied: Committable) -> bool:
        """Whether the times of `copied` decide: compacted partitions lack offsets."""
        return any(partition.incarnation in self._stay_ms for partition in lacking_partitions(copied))

    def note(self, copied: Committable, readings: Readings) -> None:
        """Take a copied part of the pass."""
        late_now = dict(find_late(copied, readings, self._stay_ms))
        self._partitions |= late_now
        for incarnation in sorted({partition.incarnation for partition in late_now}):
            since_ms = [ms for partition, ms in self._partitions.items() if partition.incarnation == incarnation]
            shape = self._base.topics.get(incarnation)
            before = None if shape is None else shape.late
            late = self._late[incarnation] = LateRead(
                since_ms=min(since_ms),
                until_ms=readings.copied_ms,
                partitions=len(since_ms),
                times=1 if before is None else min(before.times + 1, MAX_OFFSET),
            )
            warned(
                "late_read",
                why="tombstones may have been removed before the copy: a restore may bring deleted keys back",
                topic=incarnation.topic,
                partitions=late.partitions,
                since=format_time(late.since_ms),
                until=format_time(late.until_ms),
                delete_retention_ms=self._stay_ms[incarnation],
            )

    def shapes(self, shapes: Sequence[TopicShape]) -> tuple[TopicShape, ...]:
        """`shapes` with the late reads of the pass."""
        late = self._late
        return tuple(
            replace(shape, late=late[shape.incarnation]) if shape.incarnation in late else shape for shape in shapes
        )


def with_marks(
    shapes: Sequence[TopicShape], base: BackupState, *, unread: Collection[TopicIncarnation]
) -> tuple[TopicShape, ...]:
    """The topics as a whole pass leaves them: `shapes`, and the compacted topics of `base` among `unread`. The pass did
    not read `unread` to all of their ends; of those that `base` knows, the last reading that did is noted."""
    now = {shape.incarnation: shape for shape in shapes}
    recorded = {incarnation: base.topics[incarnation] for incarnation in sorted(unread) if incarnation in base.topics}
    marks = {
        incarnation: last_read_ms(base, shape)
        for incarnation, shape in recorded.items()
        if now.get(incarnation, shape).was_compacted
    }
    topics = {incarnation: recorded[incarnation] for incarnation in marks} | now
    return tuple(
        shape if shape.read_ms == (read_ms := marks.get(incarnation, 0)) else replace(shape, read_ms=read_ms)
        for incarnation, shape in topics.items()
    )
