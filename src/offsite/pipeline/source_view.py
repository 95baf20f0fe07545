"""What of one partition of a backup belongs to a restore: the one reading that both the copy and the proof go by.

Reads the segments in order and leaves out what the restore leaves out: control batches, what transactions aborted or
had not decided at the restore point, what lies behind the cutoff, and what an overlapping segment brought already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.record import Record
from offsite.log.records import decode
from offsite.log.transactions import CommittedView
from offsite.pipeline import meter
from offsite.pipeline.cutoff import Cutoff
from offsite.pipeline.restore_plan import PartitionRestore
from offsite.repository.segment_reader import SegmentReader
from offsite.repository.store import Store


class VisibleBatch(NamedTuple):
    """A batch of `data`, writable memory. Of its records, those count that `cutoff` takes: the log may have started
    inside the batch, and the restore point may lie inside it."""

    data: memoryview
    header: BatchHeader
    cutoff: Cutoff

    def records(self) -> list[Record]:
        """Decoded, those that count: maybe none, where the cutoff goes by time."""
        records = decode(self.header.view(self.data), self.header)
        return records if self.cutoff.takes_all(self.header) else list(filter(self.cutoff.takes, records))


class SourceView:
    """The batches of `partition` to restore. `read_committed`: as a consumer of that isolation saw it at the end."""

    def __init__(self, partition: PartitionRestore, store: Store, *, read_committed: bool) -> None:
        self._partition = partition
        self._store = store
        self._committed = _committed_view(partition, store) if read_committed else None
        self.invisible_records = 0
        """How many were left out so far, as aborted or undecided at the restore point."""

    @property
    def undecided(self) -> int:
        """Of the batches so far: transactions left out because they had no outcome before the end."""
        return len(self._committed.undecided) if self._committed else 0

    def batches(self) -> Iterator[VisibleBatch]:
        """In offset order, once. Raises `DamagedObject`, and what the store raises."""
        plan, taken_to = self._partition, self._partition.segments[0].start
        for segment in plan.segments:
            for chunk in SegmentReader(store=self._store, segment=segment).chunks(end=min(segment.end, plan.end)):
                for header in chunk.batches:
                    cutoff = Cutoff(max(segment.start, taken_to), plan.end, plan.until_ms)
                    taken_to = header.next_offset
                    if not cutoff.takes_none(header) and self._is_visible(header):
                        yield VisibleBatch(chunk.data, header, cutoff)
                meter.count(moved_bytes=len(chunk.data), records=sum(h.record_count for h in chunk.batches))

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._committed is None or self._committed.is_visible(header):
            return not header.is_control
        self.invisible_records += 0 if header.is_control else header.record_count
        return False


def _committed_view(partition: PartitionRestore, store: Store) -> CommittedView:
    transactional = [segment for segment in partition.segments if segment.has_transactions]
    markers = [m for s in transactional for m in SegmentReader(store=store, segment=s).index().markers]
    return CommittedView(markers, end_offset=partition.end)
