"""A scan task into Arrow, in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite.log.records.record_arrow import ArrowColumns, time_us
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.stores.store import Store
from offsite.table.row_filter import RowFilter
from offsite.table.scan import scan_batches
from offsite.table.scan_plan import ScanTask

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def scan_arrow(task: ScanTask, store: Store) -> Iterator[pa.RecordBatch]:
    """Arrow batches of `log.record_arrow.arrow_schema`, in offset order: the rows of the task's filter, exactly.

    Raises `DamagedObject`, `DamagedBatch`, and what the store raises. Memory: a few pieces of the segment of about
    4 MiB, and one Arrow batch.
    """
    columns = ArrowColumns(topic=task.partition.topic, partition=task.partition.partition)
    for scan, batch in scan_batches(task, store):
        if batch.record_bounds.takes_all(batch.header):
            columns.add_batch(batch.header.view(batch.data), batch.header, commit=scan.commit)
        else:
            columns.add_records(batch.records(), commit=scan.commit)
        if columns.is_full and (full := columns.take()) is not None:
            yield _wanted(full, task.rows)
    if (rest := columns.take()) is not None:
        yield _wanted(rest, task.rows)


def _wanted(batch: pa.RecordBatch, rows: RowFilter) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if (rows.start, rows.end, rows.since_ms, rows.until_ms) == (0, MAX_OFFSET, None, None):
        return batch
    kind, offsets, times = batch.schema.field("timestamp").type, batch.column("offset"), batch.column("timestamp")
    mask = pc.and_(pc.greater_equal(offsets, rows.start), pc.less(offsets, rows.end))
    if rows.since_ms is not None:
        mask = pc.and_(mask, pc.greater_equal(times, pa.scalar(time_us(rows.since_ms), kind)))
    if rows.until_ms is not None:
        mask = pc.and_(mask, pc.less_equal(times, pa.scalar(time_us(rows.until_ms), kind)))
    return batch.filter(mask)
