"""The gap-free image of a source batch: what is produced when a restore closes gaps, and which source offsets went in.

Pure. Nearly every batch goes out as it is, without a copy; only batches with inner gaps, broker-given times or a
border of the restored range inside them are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from offsite.log.batch import BatchHeader, scan
from offsite.log.records import decode
from offsite.log.rewrite import keep, needs_reencode, reencode_dense


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseBatch:
    """`batch` holds `records` records without gaps; they stand for the source offsets of `runs`, pairs of (first
    offset, count) in rising order. `batch` may be part of the memory it was made from."""

    batch: bytearray | memoryview
    records: int
    runs: Sequence[tuple[int, int]]


def dense_batch(data: memoryview, header: BatchHeader, *, start: int, end: int) -> DenseBatch | None:
    """The batch `header` of `data` with its records in `[start, end)`; None when it has none of them."""
    if header.record_count == 0 or header.last_offset < start or header.base_offset >= end:
        return None
    batch = header.view(data)
    if start <= header.base_offset and header.last_offset < end and not needs_reencode(header):
        runs = ((header.base_offset, header.record_count),)
        return DenseBatch(batch=batch, records=header.record_count, runs=runs)
    return _reencoded(batch, header, start, end)


def _reencoded(batch: memoryview, header: BatchHeader, start: int, end: int) -> DenseBatch | None:
    kept = keep(batch, header, lambda record: start <= record.offset < end)
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
