"""Lines in gzip or zstd, or plain: written in parts that end with a checksum, read through a bounded window."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from offsite.archives.file_window import WINDOW_BYTES, FileWindow
from offsite.archives.jsonl.place import SUFFIXES
from offsite.log.buffer import Buffer
from offsite.model.errors import BadOption

__all__ = ["COMPRESSIONS", "MAX_LINE_BYTES", "BadPart", "Lines", "compressor", "lines_in"]

COMPRESSIONS = tuple(SUFFIXES)
MAX_LINE_BYTES = 256 << 20
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export
_PLAIN_BYTES = 256 << 10
"""Of a plain file at once: about a thousand small records."""
_STEP_BYTES = 8 << 10
"""What is given to a decompressor at once: hostile bytes may grow ten thousand times."""


class Lines(NamedTuple):
    """Lines that follow each other, without their newlines; `position` is where the first one begins in the file.

    Of a compressed file it is where the compressed bytes begin that the first line came from, and not `is_exact`.
    """

    position: int
    is_exact: bool
    lines: list[bytes]

    def position_of(self, line: int) -> int:
        return self.position + sum(len(each) + 1 for each in self.lines[:line]) if self.is_exact else self.position


class _Part(NamedTuple):
    """Plain bytes of a file, which end anywhere, and where they lie in it."""

    position: int
    data: bytes


class BadPart(ValueError):
    """The compressed bytes cannot be read any further. `position` is where the last good ones ended."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.position = position


class _Inflater(Protocol):
    """One part being decompressed: of zlib and of zstandard."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def compressor(compression: str) -> Callable[[bytes], Buffer]:
    """Raises `BadOption` for what is not one of `COMPRESSIONS`."""
    if compression == "none":
        return bytes
    if compression == "gzip":
        return lambda plain: zlib.compress(plain, _GZIP_LEVEL, _GZIP_WRAPPER)
    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress
    raise BadOption(f"{compression!r} is no compression of JSON lines", hint=f"choose one of {', '.join(COMPRESSIONS)}")


def lines_in(window: FileWindow, key: str) -> Iterator[Lines]:
    """All lines of a file; one of more than `MAX_LINE_BYTES` comes in pieces. Raises `BadPart`."""
    if key.endswith(SUFFIXES["none"]):
        return _split(_plain(window), is_exact=True)
    return _split(_inflated(window, _gzip if key.endswith(SUFFIXES["gzip"]) else _zstd), is_exact=False)


def _split(parts: Iterator[_Part], *, is_exact: bool) -> Iterator[Lines]:
    start, rest, rest_bytes = 0, list[bytes](), 0
    for position, data in parts:
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*rest, lines[0]))
            yield Lines(start, is_exact, lines)
            start, rest, rest_bytes = position + (len(data) - len(last) if is_exact else 0), [], 0
        rest.append(last)
        rest_bytes += len(last)
        if rest_bytes > MAX_LINE_BYTES:
            yield Lines(start, is_exact, [b"".join(rest)])
            start, rest, rest_bytes = position + (len(data) if is_exact else 0), [], 0
    if rest_bytes:
        yield Lines(start, is_exact, [b"".join(rest)])


def _plain(window: FileWindow) -> Iterator[_Part]:
    position = window.position
    while data := window.read(_PLAIN_BYTES):
        yield _Part(position, data)
        position = window.position


def _inflated(window: FileWindow, new_inflater: Callable[[], _Inflater]) -> Iterator[_Part]:
    inflater, position, step = new_inflater(), 0, b""
    while step := step or window.read(_STEP_BYTES):
        try:
            plain = inflater.decompress(step)
        except _errors() as error:
            raise BadPart(str(error), position) from error
        yield _Part(position, plain)
        step = b""
        if inflater.eof:
            step, inflater = inflater.unused_data, new_inflater()
            position = window.position - len(step)
    if position < window.position:
        raise BadPart("the file is cut", position)


def _gzip() -> _Inflater:
    return zlib.decompressobj(_GZIP_WRAPPER)


def _zstd() -> _Inflater:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES * 8).decompressobj()


def _errors() -> tuple[type[Exception], ...]:
    import zstandard

    return (zlib.error, zstandard.ZstdError, EOFError)
