"""Find matching records in a scan task, decoded for people. Runs in a worker (search) or the driver (cat)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from offsite.log.batch import HEADER_BYTES, BatchHeader
from offsite.log.codec import decompress
from offsite.log.records.record import Record
from offsite.repository.commit import PartitionId
from offsite.stores.store import Store
from offsite.table.scan import scan_batches
from offsite.table.scan_plan import ScanTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMatch:
    """A condition on a record: the key, bytes contained in the value, and headers by name (with a value, where given).
    An empty condition matches every record."""

    key: bytes | None = None
    value_holds: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def matches(self, record: Record) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        if self.value_holds is not None and self.value_holds not in (record.value or b""):
            return False
        return all(
            any(name == header_name and (value is None or actual == value) for name, actual in record.headers)
            for header_name, value in self.headers
        )

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes that the decompressed body of a batch must contain if a record of the batch matches."""
        parts = [self.key, self.value_holds, *(part for name, value in self.headers for part in (name.encode(), value))]
        return tuple(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRecord:
    partition: PartitionId
    record: Record


def matching_records(task: ScanTask, store: Store, match: RecordMatch) -> Iterator[MatchingRecord]:
    """Yield the task's matching rows, in offset order. Most batches are only searched for bytes, not decoded.

    Raises `DamagedObject`, `DamagedBatch`, and the store's errors.
    """
    needles = match.needles
    for _, batch in scan_batches(task, store):
        if needles and not _holds(batch.data, batch.header, needles):
            continue
        for record in batch.iterate():
            if task.rows.includes(record.offset, record.timestamp_ms) and match.matches(record):
                yield MatchingRecord(partition=task.partition, record=record)


def find_in_task(task: ScanTask, *, store: Store, match: RecordMatch, limit: int) -> tuple[MatchingRecord, ...]:
    """Return the first `limit` of `matching_records`, without reading further."""
    return tuple(islice(matching_records(task, store, match), limit))


def _holds(data: memoryview, header: BatchHeader, needles: tuple[bytes, ...]) -> bool:
    plain = decompress(header.codec, header.view(data)[HEADER_BYTES:])
    if isinstance(plain, memoryview):
        plain = bytes(plain)  # a view cannot be searched
    return all(needle in plain for needle in needles)
