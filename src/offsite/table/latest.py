"""The compacted view of a partition: the latest record of every key as of a restore point, without deleted keys.

The latest records are known only when all of the partition was read. So the partition is read twice. The first read
collects the keys: their last offsets wait in a file, by the hash of the key, until one share at a time is settled. The
second read yields the remaining records. In memory are the keys of one share, and 8 bytes per remaining record, of one
partition at a time. Records without a key cannot be replaced, and remain.
"""

from __future__ import annotations

import pickle
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import IO, TYPE_CHECKING, Self

from offsite.log.records.record_columns import KeyedRecords, keyed_records
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedObject
from offsite.model.units import MIB
from offsite.points.source_view import VisibleBatch
from offsite.stores.store import Store
from offsite.table.scan import scan_arrow, scan_batches
from offsite.table.scan_plan import RowFilter, ScanTask
from offsite.upkeep.compaction.latest import (
    BUCKET_RECORDS,
    LatestCollector,
    LatestKeys,
    UnreadableRegion,
    send_latest,
)
from offsite.upkeep.compaction.regions import MAX_END, Routes

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_MEMORY_BYTES = 16 * MIB
"""Bytes held in memory before a file is opened."""


def by_partition(tasks: Sequence[ScanTask]) -> Iterator[tuple[ScanTask, ...]]:
    """Yield the tasks of a scan, grouped by partition."""
    for _, group in groupby(tasks, key=lambda task: task.partition):
        yield tuple(group)


def latest_offsets(tasks: Sequence[ScanTask], store: Store) -> array[int]:
    """Return the offsets, rising, of the remaining records of one partition. `tasks`: all tasks of the partition, in
    order, with rows that narrow nothing. Raises the errors of `scan_batches`, and `DamagedObject` for offsets that no
    broker reaches."""
    if far := [scan.segment for task in tasks for scan in task.segments if scan.segment.end > MAX_END]:
        raise DamagedObject(
            f"{far[0].key} reaches offset {far[0].end}",
            hint="read the table without the option latest",
        )
    records = sum(scan.segment.records for task in tasks for scan in task.segments)
    buckets = max(1, -(-records // BUCKET_RECORDS))
    with _SpilledParcels() as waiting:
        gathering = LatestCollector(buckets)
        for task in tasks:
            for _, batch in scan_batches(task, store):
                for bucket, parcel in gathering.take(0, _keyed(batch), MAX_OFFSET):
                    waiting.put(bucket, parcel)
        for bucket, parcel in gathering.flush():
            waiting.put(bucket, parcel)
        everywhere = Routes(starts=((0,),), firsts=(0,))
        settled = (send_latest(waiting.take(bucket), routes=everywhere) for bucket in range(buckets))
        return array(
            "q",
            sorted(
                chain.from_iterable(
                    offsets for sent in settled for _, offsets in sent if not isinstance(offsets, UnreadableRegion)
                )
            ),
        )


def latest_arrow(tasks: Sequence[ScanTask], rows: RowFilter, store: Store) -> Iterator[pa.RecordBatch]:
    """Yield those remaining records of one partition that are in `rows`, as `scan_arrow` does."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    stay = latest_offsets(tasks, store)
    for task in tasks:
        for batch in scan_arrow(replace(task, rows=rows), store):
            offsets = batch.column("offset")
            if len(offsets):
                low, high = bisect_left(stay, offsets[0].as_py()), bisect_left(stay, offsets[-1].as_py() + 1)
                yield batch.filter(pc.is_in(offsets, value_set=pa.array(stay[low:high], pa.int64())))


def _keyed(batch: VisibleBatch) -> KeyedRecords:
    if batch.record_bounds.takes_all(batch.header):
        return keyed_records(batch.header.view(batch.data), batch.header)
    records = batch.records()
    return KeyedRecords(
        [record.key for record in records], [record.offset for record in records], [record.value for record in records]
    )


class _SpilledParcels:
    """Parcels of keys, kept until the last key has arrived, in a file when many."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115  # closed at exit
        self._places: dict[int, list[int]] = {}

    def put(self, bucket: int, parcel: LatestKeys) -> None:
        self._places.setdefault(bucket, []).append(self._file.tell())
        pickle.dump(parcel, self._file, protocol=pickle.HIGHEST_PROTOCOL)

    def take(self, bucket: int) -> Iterator[LatestKeys]:
        """Yield the parcels of a bucket. Nothing can be put afterwards."""
        for place in self._places.get(bucket, ()):
            self._file.seek(place)
            yield pickle.load(self._file)  # noqa: S301  # written by this process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
