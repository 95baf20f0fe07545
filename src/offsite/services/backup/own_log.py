"""The log of a partition as a backup holds it, asked what a follower asks its own log: which epochs, and where they
end.

A follower that meets a new leader finds the offset up to which both logs are the same (KIP-101, KIP-279): it asks for
the end of its newest epoch, and takes the lesser of that and its own end of the epoch that the leader names; where it
does not have that one, it asks again, for the next older one of its own. A backup is a follower that never forgets, so
it goes by the same rule.
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
"""More offsets than a batch spans that was never compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLog:
    """What is backed up of one partition: `segments`, to an offset that a leader of `epoch` told."""

    store: Store
    segments: SegmentList
    epoch: int

    def epoch_up_to(self, epoch: int) -> int | None:
        """The newest epoch of this log that is not above `epoch`; None where there is none."""
        known = {self.epoch, *(each for segment in self.segments for each in segment.leader_epochs)}
        return max((each for each in known if each <= epoch), default=None)

    def names_its_epochs(self) -> bool:
        """Whether the segments name all epochs of their batches: of a broken cluster's they may not."""
        return all(0 < len(segment.leader_epochs) < MAX_LEADER_EPOCHS for segment in self.segments)

    def end_of(self, epoch: int) -> int:
        """Where the last batch ends before the first one of a later epoch, or the last one of all. What is missing
        behind it may have been of any epoch: nothing of it is held, so to go back before it loses nothing. Raises
        `DamagedObject`, and what the store raises."""
        reached = 0
        for segment in self.segments:
            if max(segment.leader_epochs) > epoch:
                return self._end_in(segment, epoch, reached)
            reached = segment.last_offset + 1
        return reached

    def parted(self, at: int) -> PartedSegment:
        """The parts of the segment that reaches over `at`, none where none does; with the last batch before it, if any.
        Raises as `part_segment`."""
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
    """The end of what leaders up to an epoch wrote, asked of one partition's leader."""

    def epoch_end_now(self, partition: TopicPartition, epoch: int) -> EpochEnd: ...


def agreed_end(admin: EpochEndNow, own: OwnLog, key: TopicPartition, told: EpochEnd) -> int | None:
    """The offset up to which the leader's log and `own` are the same, where `told` is what the leader said of our
    newest epoch; 0 where all that it knows is older than all we have. None: it knows nothing of our epochs, or it is
    not known which ones we have. Raises what asking raises."""
    if not own.names_its_epochs():
        return None
    while told.end >= 0:
        epoch = own.epoch_up_to(told.epoch)
        if epoch is None:
            return 0
        if epoch == told.epoch:
            return min(told.end, own.end_of(epoch))
        told = admin.epoch_end_now(key, epoch)
    return None


def last_batch(store: Store, segment: Segment) -> BatchHeader:
    """The last batch of a segment. Raises `DamagedObject`, and what the store raises."""
    reader = SegmentReader(store=store, segment=segment)
    near_end = max(segment.lowest_offset, segment.last_offset - _BATCH_OFFSETS_MAX)
    last = [chunk.batches[-1] for chunk in reader.chunks(start=near_end)]
    return (last or [chunk.batches[-1] for chunk in reader.chunks()])[-1]
