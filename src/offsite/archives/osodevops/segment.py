"""The segment, version 1: header, a compressed body of records, footer. All integers little-endian.

    header 32: "KBAK" | version 1 | compression | 2 zero bytes | u64 records | i64 first offset | i64 last offset
    record:    u32 length behind it | i64 time ms | i64 offset | key | value | u16 headers | headers
    footer 8:  u32 CRC-32 of header and body as stored | "BKAE"

Key, value and header value: i32 length (-1 null) and bytes; header name: u16 length and UTF-8. The body is read with
bounded memory where the format permits: zstd is a streamed frame without a stated size; lz4 is a single block behind
its size, readable only as a whole.

The tool appends headers to every archived record: `x-original-offset` and `x-original-timestamp` (8 bytes,
little-endian) and, when the manifest names the source cluster, `x-source-cluster` (UTF-8) come last and in this order.
A topic restored by the tool holds such headers of an earlier life: their offset differs from the record's, and the
headers are data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from offsite.log.buffer import Buffer
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader


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
OFFSET, TIMESTAMP, CLUSTER = "x-original-offset", "x-original-timestamp", "x-source-cluster"
_I64 = struct.Struct("<q")
MAX_LZ4_BYTES = 256 << 20
"""Maximum of a decompressed lz4 block, a whole segment: the tool's segments have some 128 MiB."""
_MAX_ZSTD_WINDOW_BYTES = 128 << 20
_MAX_LZ4_RATIO = 255
PLAIN_PART_BYTES = 256 << 10
"""Bytes turned into records at a time: small records need many times the memory of the bytes."""


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


OnProblem = Callable[[int, str], None]
"""Receives a problem at a byte of the plain body; the body ends there."""


class BodyProblem(Exception):
    """The body cannot be decompressed further. Becomes `Damage` in the package."""


def decompress_parts(compression: int, stored: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the plain bytes of a body, in parts. Raises `BodyProblem`; earlier parts are good."""
    return {NONE: _read_plain, ZSTD: _read_zstd, LZ4: _read_lz4}[compression](stored)


def decode_records(plain: Iterable[bytes], on_problem: OnProblem) -> Iterator[list[Record]]:
    """Yield the records of a body, in file order. Records before a problem are returned before the problem is
    reported."""
    pending = _PendingBytes()
    try:
        for part in plain:
            pending.add(part)
            if pending.size_bytes >= pending.needed_bytes:
                yield from pending.take(on_problem)
            if pending.is_bad:
                return
    except BodyProblem as problem:
        on_problem(pending.position, str(problem))
        return
    if pending.size_bytes:
        on_problem(pending.position, f"{pending.size_bytes} bytes at the end are not a whole record")


class _PendingBytes:
    """Plain bytes not yet decoded; `position`: their start."""

    def __init__(self) -> None:
        self.position = self.size_bytes = 0
        self.needed_bytes = LENGTH.size
        self.is_bad = False
        self._parts: list[bytes] = []

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size_bytes += len(part)

    def take(self, on_problem: OnProblem) -> Iterator[list[Record]]:
        """Yield all complete records."""
        data = b"".join(self._parts)
        records: list[Record] = []
        position, end, problem = 0, len(data), ""
        while position + LENGTH.size <= end:
            start = position + LENGTH.size
            stop = start + LENGTH.unpack_from(data, position)[0]
            if stop - start > MAX_RECORD_BYTES:
                problem = f"a record of {stop - start} bytes"
                break
            if stop > end:
                break
            try:
                records.append(decode_record(data, start, stop))
            except ValueError as error:
                problem = f"not a record: {error}"
                break
            position = stop
        self._keep(data, position)
        if records:
            yield records
        if problem:
            self.is_bad = True
            on_problem(self.position, problem)

    def _keep(self, data: bytes, position: int) -> None:
        self.position += position
        self._parts = [data[position:]]
        self.size_bytes = len(data) - position
        has_length = self.size_bytes >= LENGTH.size
        self.needed_bytes = LENGTH.size + (LENGTH.unpack_from(data, position)[0] if has_length else 0)


class _PartsFile:
    """Parts as a file for the zstd reader."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = b""
        self.taken_bytes = 0

    def read(self, size_bytes: int) -> bytes:
        if not self._rest:
            self._rest = next(self._parts, b"")
        data, self._rest = self._rest[:size_bytes], self._rest[size_bytes:]
        self.taken_bytes += len(data)
        return data


def _read_plain(stored: Iterator[bytes]) -> Iterator[bytes]:
    for part in stored:
        for start in range(0, len(part), PLAIN_PART_BYTES):
            yield part[start : start + PLAIN_PART_BYTES]


def _read_zstd(stored: Iterator[bytes]) -> Iterator[bytes]:
    import zstandard

    source = _PartsFile(stored)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW_BYTES)
    reader: ZstdDecompressionReader = decompressor.stream_reader(source)  # type: ignore[arg-type]
    grown = 0
    try:
        while part := reader.read(PLAIN_PART_BYTES):
            grown += len(part)
            if grown > max(MAX_EXPANDED_BYTES, MAX_RATIO * source.taken_bytes):
                raise BodyProblem(f"its first {source.taken_bytes} bytes decompress to {grown} and more")
            yield part
    except zstandard.ZstdError as error:
        raise BodyProblem(f"not zstd: {error}") from error


def _whole(stored: Iterator[bytes]) -> bytes:
    parts, size_bytes = [], 0
    for part in stored:
        parts.append(part)
        size_bytes += len(part)
        if size_bytes > MAX_LZ4_BYTES:
            raise BodyProblem(f"an lz4 block of more than {MAX_LZ4_BYTES} stored bytes")
    return b"".join(parts)


def _read_lz4(stored: Iterator[bytes]) -> Iterator[bytes]:
    import cramjam

    data = _whole(stored)
    try:
        (size_bytes,) = struct.unpack_from("<I", data)
        if size_bytes > min(MAX_LZ4_BYTES, _MAX_LZ4_RATIO * len(data)):
            raise BodyProblem(f"an lz4 block of {size_bytes} bytes")
        plain = memoryview(cramjam.lz4.decompress_block(data))
    except (struct.error, cramjam.DecompressionError) as error:
        raise BodyProblem(f"not an lz4 block: {error}") from error
    for start in range(0, len(plain), PLAIN_PART_BYTES):
        yield bytes(plain[start : start + PLAIN_PART_BYTES])
