"""The headers appended by the tool to every archived record: recognised, and made. Pure.

`x-original-offset` and `x-original-timestamp` (8 bytes, little-endian) and, when the manifest names the source cluster,
`x-source-cluster` (UTF-8) come last and in this order. A topic restored by the tool holds such headers of an earlier
life: their offset differs from the record's, and the headers are data.
"""

from __future__ import annotations

import struct

from offsite.log.records.record import Record, RecordHeaders

__all__ = ["make_added_headers", "strip_added_headers"]

OFFSET, TIMESTAMP, CLUSTER = "x-original-offset", "x-original-timestamp", "x-source-cluster"
_I64 = struct.Struct("<q")


def make_added_headers(record: Record, cluster_id: str = "") -> RecordHeaders:
    """Return the headers that the tool would append to `record`."""
    stamps = ((OFFSET, _I64.pack(record.offset)), (TIMESTAMP, _I64.pack(record.timestamp_ms)))
    return (*stamps, (CLUSTER, cluster_id.encode())) if cluster_id else stamps


def strip_added_headers(record: Record) -> Record:
    """Return the producer's record; the same object when the tool has added nothing."""
    count = _added(record)
    return record._replace(headers=record.headers[:-count]) if count else record


def _added(record: Record) -> int:
    """Return the number of the tool's headers at the end."""
    headers = record.headers
    if not headers:
        return 0
    count = 3 if headers[-1][0] == CLUSTER else 2
    if len(headers) < count:
        return 0
    (offset_name, offset), (time_name, timestamp) = headers[-count : len(headers) - count + 2]
    names_fit = offset_name == OFFSET and time_name == TIMESTAMP and timestamp is not None and len(timestamp) == 8
    return count if names_fit and offset == _I64.pack(record.offset) else 0
