"""The backed-up log of a partition, asked the questions of a follower to its own log: the leader epochs, and the end of
every epoch.

A follower that meets a new leader finds the offset up to which both logs agree (KIP-101, KIP-279). The follower asks
for the end of its newest epoch, and takes the lesser of the answer and the follower's own end of the epoch in the
answer. If the follower lacks the epoch in the answer, the follower asks again with the next older epoch. A backup is a
follower that never forgets, and applies the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from offsite.kafka.offsets import EpochEnd
from offsite.log.batch import BatchHeader, LastBatch
from offsite.log.range import TopicPartition
from offsite.log.stats import MAX_LEADER_EPOCHS
from offsite.repository.segments.part import PartedSegment, part_segment
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.stores.store import Store

_BATCH_OFFSETS_MAX = 100_000
"""Larger than the offset span of any batch that was never compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpLog:
    """The backed-up `segments` of a partition, ending at an offset that a leader of `epoch` reported."""

    store: Store
    segments: SegmentList
    epoch: int

    def epoch_up_to(self, epoch: int) -> int | None:
        """The newest epoch of the log up to `epoch`; None where none exists."""
        epochs = {self.epoch, *(leader_epoch for segment in self.segments for leader_epoch in segment.leader_epochs)}
        return max((leader_epoch for leader_epoch in epochs if leader_epoch <= epoch), default=None)

    def names_its_epochs(self) -> bool:
        """Whether the segments name all epochs of their batches. Segments of a broken cluster may not."""
        return all(0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS for segment in self.segments)

    def end_of(self, epoch: int) -> int:
        """The end of the last batch before the first batch of a later epoch, or of the last batch of all. Missing
        offsets behind the end may belong to any epoch. The backup holds none of them, so going back before them loses
        nothing. Raises `DamagedObject` and the errors of the store."""
        reached = 0
        for segment in self.segments:
            if max(segment.leader_epochs) > epoch:
                return self._end_in(segment, epoch, reached)
            reached = segment.last_offset + 1
        return reached

    def parted(self, at: int) -> PartedSegment:
        """The parts of the segment that reaches over `at`, or none, with the last batch before `at`, if any. Raises as
        `part_segment`."""
        below = [segment for segment in self.segments if segment.start < at]
        if below and below[-1].end > at:
            parted = part_segment(below[-1], at, self.store)
            if parted.border is not None:
                return parted
            before = LastBatch.of(last_batch(self.store, below[-2])) if below[1:] else None
            return PartedSegment(below=None, above=parted.above, border=before)
        border = LastBatch.of(last_batch(self.store, below[-1])) if below else None
        return PartedSegment(below=None, above=None, border=border)

    def _end_in(self, segment: Segment, epoch: int, reached: int) -> int:
        for chunk in SegmentReader(store=self.store, segment=segment).chunks():
            for header in chunk.batches:
                if header.leader_epoch > epoch:
                    return reached
                reached = header.next_offset
        return reached


class EpochEndNow(Protocol):
    """The end of the records from leaders up to an epoch, as the leader of a partition answers."""

    def epoch_end_now(self, partition: TopicPartition, epoch: int) -> EpochEnd: ...


def agreed_end(admin: EpochEndNow, backed_up: BackedUpLog, key: TopicPartition, leader_end: EpochEnd) -> int | None:
    """The offset up to which the leader's log and `backed_up` agree. `leader_end` is the leader's answer about our
    newest epoch. 0: everything that the leader knows is older than the backup. None: the leader knows none of our
    epochs, or our epochs are unknown. Raises the errors of asking."""
    if not backed_up.names_its_epochs():
        return None
    while leader_end.end >= 0:
        epoch = backed_up.epoch_up_to(leader_end.epoch)
        if epoch is None:
            return 0
        if epoch == leader_end.epoch:
            return min(leader_end.end, backed_up.end_of(epoch))
        leader_end = admin.epoch_end_now(key, epoch)
    return None


def last_batch(store: Store, segment: Segment) -> BatchHeader:
    """The last batch of a segment. Raises `DamagedObject` and the errors of the store."""
    reader = SegmentReader(store=store, segment=segment)
    near_end = max(segment.lowest_offset, segment.last_offset - _BATCH_OFFSETS_MAX)
    last = [chunk.batches[-1] for chunk in reader.chunks(start=near_end)]
    return (last or [chunk.batches[-1] for chunk in reader.chunks()])[-1]
