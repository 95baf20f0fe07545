"""Files of the versions before June 2019: lines of Base64, each one Avro record without its schema; gzipped, or not.

A damaged line is told and passed over. Positions are of the text, gzipped or not.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from collections.abc import Iterator

from offsite.archives.archive import Damage, OnDamage
from offsite.archives.files import Files
from offsite.archives.trivadis.avro_row import BARE_SCHEMAS, BadRow, Row, read_rows
from offsite.archives.trivadis.byte_source import ByteSource

__all__ = ["line_rows"]

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 1 << 30
PLAIN_PART_BYTES = 4 << 20
BATCH_ROWS = 2_000


def line_rows(files: Files, key: str, on_damage: OnDamage) -> Iterator[tuple[int, list[Row]]]:
    """Rows in the order of the file, in batches with the position of the first one's line."""

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
    """The lines that are not empty, each with its position."""
    position, rest = 0, b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield position, line.strip()
            position += len(line) + 1
        if len(rest) > MAX_LINE_BYTES:
            raise BadRow(f"a line of more than {MAX_LINE_BYTES} bytes")
    if rest.strip():
        yield position, rest.strip()


def _plain_parts(source: ByteSource) -> Iterator[bytes]:
    part = source.take_part()
    if not source.exists:
        raise BadRow("is missing")
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS) if part.startswith(GZIP_MAGIC) else None
    while part:
        if inflater is None:
            yield part
        else:
            yield from _inflated(inflater, part)
        part = source.take_part()
    if inflater is not None and not inflater.eof:
        raise BadRow("is cut: the gzip stream does not end")


def _inflated(inflater: zlib._Decompress, part: bytes) -> Iterator[bytes]:
    try:
        while part:
            yield inflater.decompress(part, PLAIN_PART_BYTES)
            part = inflater.unconsumed_tail
    except zlib.error as error:
        raise BadRow(f"not gzip: {error}") from error
