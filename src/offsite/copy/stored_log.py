"""All that a backup holds of one partition's log, as the log was: with control batches, and with what was aborted.

A restore reads through `SourceView` instead, which leaves out what consumers do not see.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.copy.chain import PartitionChain
from offsite.copy.record_bounds import RecordBounds
from offsite.copy.source_view import VisibleBatch
from offsite.repository.segments.reader import SegmentReader
from offsite.spark.meter import counted
from offsite.stores.store import Store


def stored_log(partition: PartitionChain, store: Store) -> Iterator[VisibleBatch]:
    """Every batch below the partition's end, in offset order. What an overlapping segment brought already does not
    count again. Raises `DamagedObject`, and what the store raises."""
    taken_to = 0
    for segment in partition.segments:
        low, high = segment.lowest_offset, min(partition.end, segment.end)
        if low >= high:
            continue
        for chunk in counted(SegmentReader(store=store, segment=segment).chunks(start=low, end=high)):
            for header in chunk.batches:
                record_bounds = RecordBounds(max(segment.start, taken_to), partition.end)
                taken_to = header.next_offset
                if not record_bounds.takes_none(header):
                    yield VisibleBatch(chunk.data, header, record_bounds)
