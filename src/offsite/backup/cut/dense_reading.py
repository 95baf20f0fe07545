"""Reads a range of which no record may be missing.

`__transaction_state` and `__consumer_offsets` are compacted. A record replaced by a later record of its key may be
gone, and with it the evidence that a transaction was about to end. Offsets have no gaps until a cleaner removes
records, so a range is complete if it has as many records as offsets. A cleaner removes nothing from the active segment
and nothing behind the last stable offset: recent records are gone only if a segment was filled and cleaned within
seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.kafka.read_task import ReadTask
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange
from offsite.log.records.batch_records import iterate
from offsite.log.records.record import Record
from offsite.model.errors import SourceTruncated


def read_dense(reader: PartitionReader, log_range: LogRange) -> Iterator[tuple[Chunk, BatchHeader, list[Record]]]:
    """Yield every batch with its records inside of the range, control records included. Raises `SourceTruncated` at the
    end if records are missing, and the errors of the reader."""
    count = 0
    for item in reader.read_task(ReadTask(range=log_range, was_compacted=True, reach_back=True)):
        if not isinstance(item, Chunk):
            continue
        for header in item.batches:
            inside = [
                record
                for record in iterate(header.view(item.data), header)
                if log_range.start <= record.offset < log_range.end
            ]
            count += len(inside)
            yield item, header, inside
    if count != len(log_range):
        raise SourceTruncated(
            f"of the {len(log_range)} records of {log_range} {len(log_range) - count} are missing: compacted or "
            "deleted",
            hint="run again; if the error stays, check the segment settings of the topic",
        )
