"""Lines in gzip or zstd, or plain: written in parts that end with a checksum, read through a bounded window."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from offsite.archives.file_window import WINDOW_BYTES, FileWindow
from offsite.archives.jsonl.place import SUFFIXES
from offsite.log.buffer import Buffer
from offsite.model.errors import BadOption

__all__ = ["COMPRESSIONS", "MAX_LINE_BYTES", "BadPart", "Line", "compressor", "lines_in"]

COMPRESSIONS = tuple(SUFFIXES)
MAX_LINE_BYTES = 256 << 20
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export
_STEP_BYTES = 8 << 10
"""What is given to a decompressor at once: hostile bytes may grow ten thousand times."""


class Line(NamedTuple):
    """`position` is where it begins in the file; of a compressed file, where what was decompressed last begins."""

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


def lines_in(window: FileWindow, key: str) -> Iterator[Line]:
    """The lines of a file, with their newlines; the last one may lack it. Raises `BadPart`."""
    if key.endswith(SUFFIXES["none"]):
        return _plain_lines(window)
    return _split(_inflated(window, _gzip if key.endswith(SUFFIXES["gzip"]) else _zstd))


def _plain_lines(window: FileWindow) -> Iterator[Line]:
    position = 0
    while line := window.line(MAX_LINE_BYTES):
        yield Line(position, line)
        position = window.position


def _split(parts: Iterator[Line]) -> Iterator[Line]:
    """Lines out of decompressed parts, which end anywhere."""
    rest, position = b"", 0
    for part in parts:
        *lines, last = part.data.split(b"\n")
        for line in lines:
            yield Line(position, rest + line + b"\n")
            rest, position = b"", part.position
        rest += last
        if len(rest) > MAX_LINE_BYTES:
            raise BadPart(f"a line of more than {MAX_LINE_BYTES} bytes", position)
    if rest:
        yield Line(position, rest)


def _inflated(window: FileWindow, new_inflater: Callable[[], _Inflater]) -> Iterator[Line]:
    inflater, position, step = new_inflater(), 0, b""
    while step := step or window.read(_STEP_BYTES):
        try:
            plain = inflater.decompress(step)
        except _errors() as error:
            raise BadPart(str(error), position) from error
        yield Line(position, plain)
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
