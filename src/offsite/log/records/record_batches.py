"""Records into batches of a size that brokers take, for logs that come from elsewhere than a broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from offsite.log.records.batch_records import encode
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.model.size import KIB

BATCH_BYTES_MAX = 512 * KIB
"""Plain bytes of a batch, unless one record is larger: half of what brokers take by default, and good to compress."""

BATCH_RECORDS_MAX = 4096
"""Whoever wants one record of a batch decodes all of it."""

_RECORD_BYTES = 16  # lengths, deltas of time and offset
_SPAN_MAX = 1 << 30  # of offsets: a batch holds them as 32-bit deltas
_CREATE = -2  # in place of an append time, which is -1 or later


def batches_of(runs: Iterable[Sequence[Record]], *, codec: int) -> Iterator[bytearray]:
    """Whole batches with the records of all `runs`, whose offsets rise; gaps stay. Records of type LogAppendTime share
    a batch only with others of the very same time, because such a batch has one; all other types become CreateTime."""
    pending: list[Record] = []
    size_bytes, pending_time = 0, _CREATE
    for run in runs:
        for record in run:
            time = record.timestamp_ms if record.timestamp_type == LOG_APPEND_TIME else _CREATE
            more_bytes = _size_bytes(record)
            if pending and (
                time != pending_time
                or size_bytes + more_bytes > BATCH_BYTES_MAX
                or len(pending) == BATCH_RECORDS_MAX
                or record.offset - pending[0].offset > _SPAN_MAX
            ):
                yield encode(pending, codec=codec, is_append_time=pending_time != _CREATE)
                pending, size_bytes = [], 0
            pending_time = time
            pending.append(record)
            size_bytes += more_bytes
    if pending:
        yield encode(pending, codec=codec, is_append_time=pending_time != _CREATE)


def _size_bytes(record: Record) -> int:
    size = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 2
    return size
