"""Reads files of the versions before June 2019: lines of Base64, every line an Avro record without schema; gzipped, or
not.

A damaged line is reported and skipped. Positions refer to the text, gzipped or not.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.file_parts import ByteSource
from offsite.archives.files import Files
from offsite.archives.inflate import GZIP, BadStream, inflate
from offsite.archives.trivadis.row import BARE_SCHEMAS, BadRow, Row, read_rows
from offsite.model.bounds import MAX_RECORD_BYTES

__all__ = ["read_line_rows"]

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = MAX_RECORD_BYTES
MAX_BLANK_LINES = 1_000_000
PLAIN_PART_BYTES = 64 << 10
BATCH_ROWS = 2_000


def read_line_rows(files: Files, key: str, on_damage: OnDamage) -> Iterator[tuple[int, list[Row]]]:
    """Yield rows in file order, in batches with the position of the first row's line."""

    def tell(position: int, problem: str) -> None:
        on_damage(Damage(file=key, position=position, problem=problem))

    rows: list[Row] = []
    begin = 0
    try:
        for position, line in _lines(_plain_parts(ByteSource(files, key))):
            try:
                row = _row(line)
            except BadRow as error:
                if rows:  # given before the damage is told: who listens learns where it lies
                    yield begin, rows
                    rows = []
                tell(position, f"a line is damaged: {error}")
                continue
            begin = begin if rows else position
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield begin, rows
                rows = []
    except BadRow as error:
        if rows:
            yield begin, rows
            rows = []
        tell(0, str(error))
    if rows:
        yield begin, rows


def _row(line: bytes) -> Row:
    try:
        data = b64decode(line, validate=True)
    except binascii.Error as error:
        raise BadRow(f"not Base64: {error}") from error
    problem = ""
    for schema in BARE_SCHEMAS:
        try:
            return read_rows(data, schema, 1)[0]
        except BadRow as error:
            problem = problem or str(error)
    raise BadRow(problem)


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


def _plain_parts(source: ByteSource) -> Iterator[bytes]:
    magic = source.read(len(GZIP_MAGIC))
    if not source.exists:
        raise BadRow("is missing")
    source.seek(0)
    if magic != GZIP_MAGIC:
        while part := source.read(PLAIN_PART_BYTES):
            yield part
        return
    try:
        for _, part in inflate(source.read, GZIP):
            yield part
    except BadStream as error:
        raise BadRow(f"the gzip stream cannot be read after byte {error.position}: {error}") from error
