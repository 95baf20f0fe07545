"""The blob between header and footer: compressed parts in, records out, with bounded memory where the format permits.

zstd is a streamed frame without a stated size; lz4 is a single block behind its size, readable only as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from offsite.archives.osodevops.segment import LENGTH, LZ4, NONE, ZSTD, decode_record
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO, MAX_RECORD_BYTES

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader

__all__ = ["BodyProblem", "decode_records", "decompress_parts"]

MAX_LZ4_BYTES = 256 << 20
"""Maximum of a decompressed lz4 block, a whole segment: the tool's segments have some 128 MiB."""
_MAX_ZSTD_WINDOW_BYTES = 128 << 20
_MAX_LZ4_RATIO = 255
PLAIN_PART_BYTES = 256 << 10
"""Bytes turned into records at a time: small records need many times the memory of the bytes."""

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
