"""Reads files of the versions before June 2019: lines of Base64, every line an Avro record without schema; gzipped, or
not.

A damaged line is reported and skipped. Positions refer to the text, gzipped or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.avro.decoding import ForeignBlocks
from offsite.archives.decoding_process import DecodingEnded
from offsite.archives.file_parts import FileWindow, open_file
from offsite.archives.files import Files
from offsite.archives.inflate import GZIP, BadStream, inflate
from offsite.archives.trivadis.row import BadRow, Row, read_line_rows
from offsite.model.bounds import MAX_RECORD_BYTES
from offsite.model.units import MIB

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = MAX_RECORD_BYTES
MAX_BLANK_LINES = 1_000_000
PLAIN_PART_BYTES = 64 << 10
BATCH_ROWS, BATCH_BYTES = 2_000, 4 * MIB

Line = tuple[int, bytes]
"""The position of a line, and its text."""


def read_rows_of_lines(files: Files, key: str, on_damage: OnDamage) -> Iterator[tuple[int, list[Row]]]:
    """Yield rows in file order, in batches with the position of the first row's line."""

    def tell(position: int, problem: str) -> None:
        on_damage(Damage(file=key, position=position, problem=problem))

    source = open_file(files, key, None, on_damage)
    if source is None:
        return
    begin, rows = 0, list[Row]()
    decoding = read_line_rows()
    try:
        for lines in _batches(_lines(_plain_parts(source.window))):
            for position, row in _decoded(lines, decoding):
                if isinstance(row, Row):
                    begin = begin if rows else position
                    rows.append(row)
                    continue
                if rows:  # given before the damage is told: who listens learns where it lies
                    yield begin, rows
                    rows = []
                tell(position, f"a line is damaged: {row}")
            if rows:
                yield begin, rows
                rows = []
    except BadRow as error:
        tell(0, str(error))
    except DecodingEnded as error:
        tell(begin, f"{error}: the rest is left out")


def _decoded(lines: Sequence[Line], decoding: ForeignBlocks) -> Iterator[tuple[int, Row | str]]:
    """Yield the row of each line, or the problem. Lines that are too much at once are decoded one by one."""
    block = b"\n".join(text for _, text in lines)
    try:
        rows = decoding.decode(block, len(lines))
    except DecodingEnded:
        raise
    except ValueError as error:
        if len(lines) == 1:
            yield lines[0][0], str(error)
            return
        for line in lines:
            yield from _decoded([line], decoding)
        return
    for (position, _), row in zip(lines, rows, strict=True):
        yield position, row


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Group lines; raises what `lines` raises, behind the last line."""
    batch, size_bytes = list[Line](), 0
    try:
        for line in lines:
            batch.append(line)
            size_bytes += len(line[1])
            if len(batch) == BATCH_ROWS or size_bytes > BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
    except BadRow:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _lines(parts: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines with their positions."""
    position, unfinished, unfinished_bytes, blank = 0, list[bytes](), 0, 0
    for part in parts:
        *lines, last = part.split(b"\n")
        if lines:
            lines[0], unfinished, unfinished_bytes = b"".join((*unfinished, lines[0])), [], 0
        for line in lines:
            if text := line.strip():
                yield position, text
            else:
                blank += 1
            position += len(line) + 1
        unfinished.append(last)
        unfinished_bytes += len(last)
        if unfinished_bytes > MAX_LINE_BYTES or blank > MAX_BLANK_LINES:
            raise BadRow(f"a line of more than {MAX_LINE_BYTES} bytes, or {MAX_BLANK_LINES} empty lines")
    if text := b"".join(unfinished).strip():
        yield position, text


def _plain_parts(window: FileWindow) -> Iterator[bytes]:
    is_packed = window.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    window.back_to(0)
    if not is_packed:
        while part := window.read(PLAIN_PART_BYTES):
            yield part
        return
    try:
        for _, part in inflate(window.read, GZIP):
            yield part
    except BadStream as error:
        raise BadRow(f"the gzip stream cannot be read after byte {error.position}: {error}") from error
