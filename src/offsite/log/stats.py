"""The totals of a run of batches: counts, bytes, offsets, times. Read from headers alone, column by column, because
every batch of every backup passes here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from offsite.log.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)

MAX_LEADER_EPOCHS = 1000
"""Most leader epochs in a summary. More epochs in one segment mean a broken cluster, and summaries must stay small."""

_NO_TIME = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """The figures of one run of batches of one partition.

    `records` counts data records, including records of aborted transactions; markers count as `control_batches` only.
    -1 stands for "none" in offsets and times. Times are those of data batches: `timestamp_max_ms` is exact,
    `base_timestamp_min_ms` is the lowest time at which a batch *begins*: an earlier record may follow inside the batch.
    Batches with a delete horizon no longer record their begin, and do not count for `base_timestamp_min_ms`.
    """

    records: int
    batches: int
    control_batches: int
    size_bytes: int
    largest_batch_bytes: int
    uncompressed_batch_bytes: int
    first_base_offset: int
    last_offset: int
    base_timestamp_min_ms: int
    timestamp_max_ms: int
    timestamp_types: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    leader_epochs_complete: bool
    has_transactions: bool


@dataclass(slots=True)
class LogStats:
    """Accumulates a `LogSummary` from the headers of a partition's batches, given in offset order."""

    _records: int = 0
    _batches: int = 0
    _control_batches: int = 0
    _size_bytes: int = 0
    _largest_batch_bytes: int = 0
    _uncompressed_batch_bytes: int = 0
    _first_base_offset: int = -1
    _last_offset: int = -1
    _base_timestamp_min_ms: int = _NO_TIME
    _timestamp_max_ms: int = _NO_TIME
    _attributes: set[int] = field(default_factory=set)
    _leader_epochs: set[int] = field(default_factory=set)

    def add(self, headers: Sequence[BatchHeader]) -> None:
        """Add the next batches."""
        if not headers:
            return
        if self._batches == 0:
            self._first_base_offset = headers[0].base_offset
        self._last_offset = headers[-1].last_offset
        self._batches += len(headers)
        self._leader_epochs.update([header.leader_epoch for header in headers])
        kinds = {header.attributes for header in headers}
        self._attributes |= kinds
        for attributes in kinds:
            alike = headers if len(kinds) == 1 else [h for h in headers if h.attributes == attributes]
            self._add_alike(attributes, alike)

    def summary(self) -> LogSummary:
        """The figures so far; more batches may follow."""
        epochs = sorted(self._leader_epochs)
        return LogSummary(
            records=self._records,
            batches=self._batches,
            control_batches=self._control_batches,
            size_bytes=self._size_bytes,
            largest_batch_bytes=self._largest_batch_bytes,
            uncompressed_batch_bytes=self._uncompressed_batch_bytes,
            first_base_offset=self._first_base_offset,
            last_offset=self._last_offset,
            base_timestamp_min_ms=self._base_timestamp_min_ms,
            timestamp_max_ms=self._timestamp_max_ms,
            timestamp_types=self._timestamp_types(),
            leader_epochs=tuple(epochs[:MAX_LEADER_EPOCHS]),
            leader_epochs_complete=len(epochs) <= MAX_LEADER_EPOCHS,
            has_transactions=any(a & TRANSACTIONAL_BIT for a in self._attributes),
        )

    def _add_alike(self, attributes: int, headers: Sequence[BatchHeader]) -> None:
        """Add batches with the same attributes: every check of the attributes runs once."""
        sizes_bytes = [header.size_bytes for header in headers]
        size_bytes = sum(sizes_bytes)
        self._size_bytes += size_bytes
        self._largest_batch_bytes = max(self._largest_batch_bytes, *sizes_bytes)
        if not attributes & CODEC_MASK:
            self._uncompressed_batch_bytes += size_bytes
        if attributes & CONTROL_BIT:
            self._control_batches += len(headers)
            return
        self._records += sum([header.record_count for header in headers])
        self._timestamp_max_ms = max(self._timestamp_max_ms, *[header.max_timestamp_ms for header in headers])
        self._lower_base_min(_begin_times_ms(attributes, headers))

    def _timestamp_types(self) -> tuple[int, ...]:
        of_data = [attributes for attributes in self._attributes if not attributes & CONTROL_BIT]
        return tuple(sorted({1 if attributes & LOG_APPEND_TIME_BIT else 0 for attributes in of_data}))

    def _lower_base_min(self, times_ms: list[int]) -> None:
        if self._base_timestamp_min_ms != _NO_TIME:
            times_ms.append(self._base_timestamp_min_ms)
        self._base_timestamp_min_ms = min(times_ms, default=_NO_TIME)


def _begin_times_ms(attributes: int, headers: Sequence[BatchHeader]) -> list[int]:
    """The times at which the batches begin, as far as the headers record them."""
    if attributes & LOG_APPEND_TIME_BIT:
        times_ms = [header.max_timestamp_ms for header in headers]
    elif attributes & DELETE_HORIZON_BIT:
        return []
    else:
        times_ms = [header.base_timestamp_ms for header in headers]
    return [time_ms for time_ms in times_ms if time_ms != _NO_TIME]
