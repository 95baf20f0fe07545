"""Filler records: they take the offsets below a log's start, and are deleted before anybody reads them.

A filler record has no key, no value and no time. Older releases also filled gaps of compacted topics, with a key of
their own. Compaction removes such records some time later; readers recognize them by the key.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from crc32c import crc32c

from offsite.log.codec import ZSTD, compress
from offsite.log.records.record import Record
from offsite.model.errors import check

__all__ = ["FILLER_KEY", "FILLER_MAX_RECORDS", "filler_batch", "is_filler"]

FILLER_KEY = b"\0offsite-filler"
"""Key of releases before 0.12. No common serializer writes a key with this prefix and no value."""
FILLER_MAX_RECORDS = 250_000
"""Records in one batch: at most 200 KB compressed, 6 MB while the broker validates the batch."""

_NO_TIME_MS = -1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_LENGTH_END = 12
_NOTHING = b"\x01\x01\x00"
"""No key, no value, no headers."""


def filler_batch(count: int) -> bytearray:
    """One batch of `count` filler records, at most `FILLER_MAX_RECORDS`, with a valid CRC. The caller may change the
    batch."""
    check(0 < count <= FILLER_MAX_RECORDS, f"a batch of {count} filler records")
    return bytearray(_built(count))


def is_filler(record: Record) -> bool:
    """Whether consumers should skip the record (visible until compaction removes the record)."""
    return record.key == FILLER_KEY and record.value is None


@lru_cache(maxsize=16)
def _built(count: int) -> bytes:
    body = compress(ZSTD, _body(count))
    after_crc = _AFTER_CRC.pack(ZSTD, count - 1, _NO_TIME_MS, _NO_TIME_MS, -1, -1, -1, count)
    crc = crc32c(body, crc32c(after_crc))
    before_crc = struct.pack(">qiibI", 0, _HEADER.size - _LENGTH_END + len(body), -1, 2, crc)
    return b"".join((before_crc, after_crc, body))


def _body(count: int) -> bytes:
    """Records in Kafka's format: length, attributes, time delta 0, offset delta, nothing else."""
    parts: list[bytes] = []
    for delta in range(count):
        fields = b"\0\0" + _varint(delta) + _NOTHING
        parts.append(_varint(len(fields)) + fields)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Zigzag, for numbers of 0 and above."""
    remaining, out = value * 2, bytearray()
    while remaining > 0x7F:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)
    return bytes(out)
