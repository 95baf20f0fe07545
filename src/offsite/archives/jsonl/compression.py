"""Lines in gzip or zstd, or plain: written in parts with a checksum, read through a bounded window."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from offsite.archives.file_window import FileWindow, SourceFile
from offsite.archives.inflate import GZIP, ZSTD, PlainPart, inflate
from offsite.archives.jsonl.place import SUFFIXES
from offsite.log.buffer import Buffer
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.errors import BadOption

__all__ = ["COMPRESSIONS", "MAX_LINE_BYTES", "Lines", "make_compressor", "read_lines"]

COMPRESSIONS = tuple(SUFFIXES)
MAX_LINE_BYTES = MAX_RECORD_BYTES
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1  # a higher one costs more than all the rest of an export
_PLAIN_BYTES = 256 << 10
"""Read at a time from a plain file: about a thousand small records."""


class Lines(NamedTuple):
    """Adjoining lines without newlines. `position`: start of the first line in the file.

    In a compressed file, `position` is the start of the compressed bytes with the first line, and not `is_exact`.
    """

    position: int
    is_exact: bool
    lines: list[bytes]

    def position_of(self, line: int) -> int:
        return self.position + sum(len(text) + 1 for text in self.lines[:line]) if self.is_exact else self.position


def make_compressor(compression: str) -> Callable[[bytes], Buffer]:
    """Make a function that compresses parts of a file. Raises `BadOption` for a compression outside `COMPRESSIONS`."""
    if compression == "none":
        return bytes
    if compression == "gzip":
        return lambda plain: zlib.compress(plain, _GZIP_LEVEL, _GZIP_WRAPPER)
    if compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress
    raise BadOption(
        f"{compression!r} is not a compression for JSON lines", hint=f"choose one of {', '.join(COMPRESSIONS)}"
    )


def read_lines(source: SourceFile) -> Iterator[Lines]:
    """Yield all lines of a file; a line of more than `MAX_LINE_BYTES` comes in pieces. Raises `BadStream`."""
    window, key = source.window, source.key
    if key.endswith(SUFFIXES["none"]):
        return _split(_plain(window), is_exact=True)
    compression = GZIP if key.endswith(SUFFIXES["gzip"]) else ZSTD
    return _split(inflate(window.read, compression, promised_bytes=source.plain_bytes), is_exact=False)


def _split(parts: Iterator[PlainPart], *, is_exact: bool) -> Iterator[Lines]:
    start, unfinished, unfinished_bytes = 0, list[bytes](), 0
    for position, data in parts:
        *lines, last = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*unfinished, lines[0]))
            unfinished = []
            yield Lines(start, is_exact, lines)
            start, unfinished_bytes = position + (len(data) - len(last) if is_exact else 0), 0
        unfinished.append(last)
        unfinished_bytes += len(last)
        if unfinished_bytes > MAX_LINE_BYTES:
            piece, unfinished = b"".join(unfinished), []
            yield Lines(start, is_exact, [piece])
            start, unfinished_bytes = position + (len(data) if is_exact else 0), 0
    if unfinished_bytes:
        yield Lines(start, is_exact, [b"".join(unfinished)])


def _plain(window: FileWindow) -> Iterator[PlainPart]:
    position = window.position
    while data := window.read(_PLAIN_BYTES):
        yield PlainPart(position, data)
        position = window.position
