"""Streams plain bytes out of gzip and zstd files, in linear time and bounded memory.

A KiB of gzip may become a MiB, a KiB of zstd 32 MiB, and decompressors return everything at once; therefore
decompressors get a KiB at a time. Members and frames are independent; a file may have any number, also empty ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from offsite.model.bounds import MAX_EXPANDED_BYTES, MAX_RATIO
from offsite.model.units import KIB, MIB

GZIP, ZSTD = "gzip", "zstd"
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_MAX_WINDOW_BYTES = 8 * MIB
_STEP_BYTES = KIB
_PART_BYTES = 64 * KIB
"""A part has at least this size, unless nothing follows: handling a small part costs more than the bytes."""
_MAX_PART_BYTES = MIB


class PlainPart(NamedTuple):
    """Plain bytes. `position`: where in the file the member of the first byte begins."""

    position: int
    data: bytes


class BadStream(ValueError):
    """The bytes cannot be read any further. `position`: the end of the last good member."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.position = position


class _Inflater(Protocol):
    """Decompresses a member; of zlib or zstandard."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def inflate(
    read: Callable[[int], bytes],
    compression: str,
    *,
    promised_bytes: int = 0,
    most_bytes: int = MAX_EXPANDED_BYTES,
) -> Iterator[PlainPart]:
    """Yield the plain bytes of `read(size)`, which returns at most `size` bytes and none at the end. Raises `BadStream`
    for bytes other than `compression`, and for more plain bytes than all of `most_bytes`, the promise of an index, and
    the ratio of real data (`MAX_RATIO`) allow."""
    stream = _Stream(_new_inflater(compression), max(promised_bytes, most_bytes))
    while step := read(_STEP_BYTES):
        yield from stream.feed(step)
    yield from stream.rest()


class _Stream:
    """`_member`: start of the open member; `_fed`: number of bytes taken in."""

    def __init__(self, new_inflater: Callable[[], _Inflater], most_bytes: int) -> None:
        self._new_inflater, self._most_bytes = new_inflater, most_bytes
        self._inflater = new_inflater()
        self._member = self._fed = self._grown = 0
        self._begin, self._waiting, self._waiting_bytes = 0, list[bytes](), 0

    def feed(self, step: bytes) -> Iterator[PlainPart]:
        self._fed += len(step)
        while step:
            try:
                self._keep(self._inflater.decompress(step))
            except _errors() as error:
                yield from self._drain()
                raise BadStream(str(error), self._member) from error
            step = b""
            if self._inflater.eof:
                step, self._inflater = self._inflater.unused_data, self._new_inflater()
                self._member = self._fed - len(step)
        if self._waiting_bytes >= _PART_BYTES:
            yield from self._drain()

    def rest(self) -> Iterator[PlainPart]:
        yield from self._drain()
        if self._member < self._fed:
            raise BadStream("the file is truncated", self._member)

    def _keep(self, plain: bytes) -> None:
        if plain:
            self._begin = self._begin if self._waiting else self._member
            self._waiting.append(plain)
            self._waiting_bytes += len(plain)
            self._grown += len(plain)
            if self._grown > max(self._most_bytes, MAX_RATIO * self._fed):
                raise ValueError(f"its first {self._fed} bytes decompress to {self._grown} and more")

    def _drain(self) -> Iterator[PlainPart]:
        if self._waiting:
            data, self._waiting, self._waiting_bytes = b"".join(self._waiting), [], 0
            for start in range(0, len(data), _MAX_PART_BYTES):
                yield PlainPart(self._begin, data[start : start + _MAX_PART_BYTES])


def _new_inflater(compression: str) -> Callable[[], _Inflater]:
    if compression == GZIP:
        return lambda: zlib.decompressobj(_GZIP_WRAPPER)
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj


def _errors() -> tuple[type[Exception], ...]:
    import zstandard

    return (zlib.error, zstandard.ZstdError, EOFError, ValueError)
