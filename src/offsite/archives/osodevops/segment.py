"""The segment file, version 1: header, a compressed body of records, footer. Pure; all integers little-endian.

    header 32: "KBAK" | version 1 | compression | 2 zero bytes | u64 records | i64 first offset | i64 last offset
    record:    u32 length behind it | i64 time ms | i64 offset | key | value | u16 headers | headers
    footer 8:  u32 CRC-32 of header and body as stored | "BKAE"

Key, value and header value: i32 length (-1 null) and bytes; header name: u16 length and UTF-8.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from offsite.log.buffer import Buffer
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders

__all__ = [
    "FOOTER",
    "FOOTER_BYTES",
    "FOOTER_MAGIC",
    "HEADER_BYTES",
    "LENGTH",
    "LZ4",
    "MAGIC",
    "MAX_HEADERS",
    "MAX_NAME_BYTES",
    "NONE",
    "VERSION",
    "ZSTD",
    "SegmentHeader",
    "decode_record",
    "encode_record",
]

MAGIC, FOOTER_MAGIC, VERSION = b"KBAK", b"BKAE", 1
NONE, ZSTD, LZ4 = range(3)
MAX_HEADERS = MAX_NAME_BYTES = 65_535

LENGTH = struct.Struct("<I")
FOOTER = struct.Struct("<I4s")
_HEADER = struct.Struct("<4sBB2xQqq")
_STAMP = struct.Struct("<qq")
_BLOB, _SHORT = struct.Struct("<i"), struct.Struct("<H")
_NULL = _BLOB.pack(-1)
HEADER_BYTES, FOOTER_BYTES = _HEADER.size, FOOTER.size
_NEW = tuple.__new__  # millions are made


class SegmentHeader(NamedTuple):
    """The first bytes of a segment. `first_offset` and `last_offset` are both inclusive."""

    magic: bytes
    version: int
    compression: int
    records: int
    first_offset: int
    last_offset: int

    @classmethod
    def parse(cls, data: Buffer) -> SegmentHeader:
        """Parse the header in the first 32 bytes, without any check."""
        return cls._make(_HEADER.unpack_from(data))

    def encode(self) -> bytes:
        return _HEADER.pack(*self)


def encode_record(record: Record, headers: tuple[tuple[bytes, bytes | None], ...]) -> bytes:
    """Encode a record with its length; the names of `headers` are already encoded and fit."""
    parts = [_STAMP.pack(record.timestamp_ms, record.offset), _blob(record.key), _blob(record.value)]
    parts.append(_SHORT.pack(len(headers)))
    for name, value in headers:
        parts += (_SHORT.pack(len(name)), name, _blob(value))
    body = b"".join(parts)
    return LENGTH.pack(len(body)) + body


def decode_record(data: bytes, start: int, end: int) -> Record:
    """Decode the record in `data[start:end)`, behind its length. Raises `ValueError` unless the bytes are exactly a
    record.

    A length that reaches too far shows at the end: the fields exceed the record.
    """
    try:
        timestamp_ms, offset = _STAMP.unpack_from(data, start)
        key, position = _read_blob(data, start + _STAMP.size)
        value, position = _read_blob(data, position)
        (count,) = _SHORT.unpack_from(data, position)
        position += _SHORT.size
        headers, position = _read_headers(data, position, count) if count else ((), position)
    except struct.error as error:
        raise ValueError(str(error)) from error
    if position != end:
        raise ValueError(f"its fields have {position - start} bytes, but its length is {end - start}")
    if offset < 0:
        raise ValueError(f"its offset is {offset}")
    return _NEW(Record, (offset, timestamp_ms, CREATE_TIME, key, value, headers))


def _blob(value: bytes | None) -> bytes:
    return _NULL if value is None else _BLOB.pack(len(value)) + value


def _read_blob(data: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = _BLOB.unpack_from(data, position)
    start = position + 4
    if length < 0:
        if length != -1:
            raise ValueError(f"a length of {length}")
        return None, start
    end = start + length
    return data[start:end], end


def _read_headers(data: bytes, position: int, count: int) -> tuple[RecordHeaders, int]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        (length,) = _SHORT.unpack_from(data, position)
        start = position + _SHORT.size
        name = data[start : start + length].decode("utf-8", "surrogateescape")
        value, position = _read_blob(data, start + length)
        headers.append((name, value))
    return tuple(headers), position
