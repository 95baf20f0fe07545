"""A scan task into Arrow, in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite.log.record_arrow import ArrowColumns
from offsite.pipeline.table.scan import scan_batches
from offsite.pipeline.table.scan_plan import ScanTask
from offsite.repository.store import Store

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def scan_arrow(task: ScanTask, store: Store) -> Iterator[pa.RecordBatch]:
    """Arrow batches of `log.record_arrow.arrow_schema`, in offset order: all that is wanted, and maybe more.

    Raises `DamagedObject`, `DamagedBatch`, and what the store raises. Memory: a few pieces of the segment of about
    4 MiB, and one Arrow batch.
    """
    columns = ArrowColumns(topic=task.partition.topic, partition=task.partition.partition)
    for scan, batch in scan_batches(task, store):
        if batch.cutoff.takes_all(batch.header):
            columns.add_batch(batch.header.view(batch.data), batch.header, commit=scan.commit)
        else:
            columns.add_records(batch.records(), commit=scan.commit)
        if columns.is_full and (full := columns.take()) is not None:
            yield full
    if (rest := columns.take()) is not None:
        yield rest
