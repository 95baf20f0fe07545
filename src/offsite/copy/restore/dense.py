"""The gap-free image of a source batch: what is produced when a restore closes gaps, and which source offsets went in.

Pure. Nearly every batch goes out as it is, without a copy; only batches with inner gaps, broker-given times or a
border of what is restored inside them are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsite.copy.record_bounds import RecordBounds
from offsite.log.batch import BatchHeader, scan
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.log.rewrite import keep, needs_reencode, reencode_dense


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseBatch:
    """`batch` holds `records` records without gaps; they stand for the source offsets of `runs`, pairs of (first
    offset, count) in rising order. `batch` may be part of the memory it was made from."""

    batch: bytearray | memoryview
    records: int
    runs: Sequence[tuple[int, int]]

    def encoded(self) -> bytearray | memoryview:
        return self.batch

    def decoded(self) -> list[Record]:
        """The records at the offsets of `batch`, which need not be those of `runs`."""
        (header,) = scan(memoryview(self.batch))
        return decode(memoryview(self.batch), header)


def dense_batch(data: memoryview, header: BatchHeader, record_bounds: RecordBounds) -> DenseBatch | None:
    """The batch `header` of `data` with the records that `record_bounds` takes; None when it takes none."""
    if record_bounds.takes_none(header):
        return None
    batch = header.view(data)
    if record_bounds.takes_all(header) and not needs_reencode(header):
        runs = ((header.base_offset, header.record_count),)
        return DenseBatch(batch=batch, records=header.record_count, runs=runs)
    return _reencoded(batch, header, record_bounds)


def _reencoded(batch: memoryview, header: BatchHeader, record_bounds: RecordBounds) -> DenseBatch | None:
    kept = keep(batch, header, record_bounds.takes)
    if kept is None:
        return None
    (kept_header,) = scan(memoryview(kept))
    runs = _runs(record.offset for record in decode(kept, kept_header))
    dense = reencode_dense(kept, kept_header)
    return DenseBatch(batch=dense, records=sum(count for _, count in runs), runs=runs)


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((offset, 1))
    return runs
