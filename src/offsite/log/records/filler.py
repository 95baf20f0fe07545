"""Records that stand for nothing: they take the offsets that a log must have used up before its next record.

A filler record has no value and no time. One without a key suits a log whose filler is deleted before anybody reads
it. Filler that stays has a key of its own: a compacted topic takes it in and deletes it when it is compacted, and
nobody confuses it with a record that was restored.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from crc32c import crc32c

from offsite.log.codecs.codec import ZSTD, compress
from offsite.log.records.record import Record
from offsite.model.check import check

__all__ = ["FILLER_KEY", "FILLER_MAX_RECORDS", "filler_batch", "is_filler"]

FILLER_KEY = b"\0offsite-filler"
"""No serializer that people use writes a key that begins so, with no value."""
FILLER_MAX_RECORDS = 250_000
"""In one batch: at most 200 KB compressed, 6 MB while the broker looks at them."""

_NO_TIME_MS = -1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_LENGTH_END = 12


def filler_batch(count: int, *, keyed: bool) -> bytearray:
    """One batch of `count` filler records, at most `FILLER_MAX_RECORDS`, with a valid CRC; the caller's to change."""
    check(0 < count <= FILLER_MAX_RECORDS, f"a batch of {count} filler records")
    return bytearray(_built(count, FILLER_KEY if keyed else None))


def is_filler(record: Record) -> bool:
    """Whether consumers that see it (until it is compacted away) should pass it over."""
    return record.key == FILLER_KEY and record.value is None


@lru_cache(maxsize=16)
def _built(count: int, key: bytes | None) -> bytes:
    body = compress(ZSTD, _body(count, key))
    after_crc = _AFTER_CRC.pack(ZSTD, count - 1, _NO_TIME_MS, _NO_TIME_MS, -1, -1, -1, count)
    crc = crc32c(body, crc32c(after_crc))
    before_crc = struct.pack(">qiibI", 0, _HEADER.size - _LENGTH_END + len(body), -1, 2, crc)
    return b"".join((before_crc, after_crc, body))


def _body(count: int, key: bytes | None) -> bytes:
    """Records as Kafka has them: length, attributes, time delta 0, offset delta, key, no value, no headers."""
    tail = (b"\x01" if key is None else _varint(len(key)) + key) + b"\x01\x00"
    parts: list[bytes] = []
    for delta in range(count):
        fields = b"\0\0" + _varint(delta) + tail
        parts.append(_varint(len(fields)) + fields)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Zigzag, for numbers of 0 and above."""
    rest, out = value * 2, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
