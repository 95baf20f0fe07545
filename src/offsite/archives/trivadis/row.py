"""`AvroKafkaRecord`: the schema in the forms written by the tool, a record as a row, and values of Java's serialisation
stream converted back to the bytes sent by a producer.

The tool's declared defaults have wrong types, so strict readers refuse the schema: `ForeignSchema` drops the defaults.
Connect guessed a type for every header value, and the tool serialised the guess: text, bytes, a boxed number or truth
value. Further types (dates, lists, maps) cannot be converted back into text. Source: Java Object Serialization
Specification, chapter 6.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from offsite.archives.avro.decoding import ForeignBlocks
from offsite.archives.avro.foreign import ForeignSchema, check_headers, decode_each
from offsite.archives.decoding_process import Ask
from offsite.log.buffer import Buffer
from offsite.model.bounds import MAX_OFFSET
from offsite.model.untrusted.bounded_json import BadJson, parse_json

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_HEADER_MAP = {"type": "map", "values": "bytes"}
_STREAM = b"\xac\xed\0\5"
BYTES_PREFIX = _STREAM + b"ur\0\x02[B"
"""The beginning of a serialised `byte[]`."""
_BYTES = re.compile(re.escape(BYTES_PREFIX) + rb".{8}\x02\0\0xp(.{4})(.*)", re.DOTALL)
_BOXED = re.compile(
    rb"\xac\xed\0\x05sr\0.java\.lang\.(\w+).{8}\x02\0\x01[A-Z]\0\x05valuex"
    rb"(?:p|r\0\x10java\.lang\.Number.{8}\x02\0\0xp)(.*)",
    re.DOTALL,
)
_BOXES: dict[bytes, str] = {
    b"Byte": ">b",
    b"Short": ">h",
    b"Integer": ">i",
    b"Long": ">q",
    b"Boolean": ">?",
    b"Float": ">f",
    b"Double": ">d",
}


class BadRow(ValueError):
    """The bytes are no record of the schema. Becomes `Damage` in the package."""


class Row(NamedTuple):
    """A record as archived, before any conversion."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def parse_writer_schema(text: bytes) -> object:
    """Parse the schema in a container's metadata. Raises `BadRow` for a schema of another tool."""
    try:
        declared = parse_json(text)
    except BadJson as error:
        raise BadRow(f"the schema is not JSON: {error}") from error
    fields = declared.get("fields") if isinstance(declared, dict) else None
    names = [str(field.get("name")) for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    if sorted(names) != sorted(FIELDS):
        raise BadRow(f"the schema lacks one of the fields {', '.join(FIELDS)}, or has others")
    return declared


def read_rows(schema: object) -> ForeignBlocks:
    """Return what decodes blocks into lists of `Row`. Raises `BadRow` for an unreadable schema."""
    try:
        return ForeignBlocks(f"{__name__}:decode_blocks", schema)
    except ValueError as error:
        raise BadRow(f"the schema cannot be read: {error}") from error


def read_line_rows() -> ForeignBlocks:
    """Return what decodes lines of Base64, joined by newlines, into lists of `Row`, or the problem of a line."""
    return ForeignBlocks(f"{__name__}:decode_lines")


def decode_blocks(ask: Ask, schema: object) -> Iterator[object]:
    """Yield the rows of each block, in the process of `read_rows`."""
    written = ForeignSchema(schema)

    def decode(block: Buffer, records: int) -> list[Row]:
        rows = [_row(values) for values in written.rows(block, records)]
        check_headers(len(row.headers) for row in rows)
        return rows

    yield from decode_each(ask, decode)


def decode_lines(ask: Ask) -> Iterator[object]:
    """Yield the rows and problems of each group of lines, in the process of `read_line_rows`."""
    schemas = [ForeignSchema(schema) for schema in _BARE_SCHEMAS]

    def decode(block: Buffer, _: int) -> list[Row | str]:
        rows = [_line(line, schemas) for line in bytes(block).split(b"\n")]
        check_headers(len(row.headers) for row in rows if isinstance(row, Row))
        return rows

    yield from decode_each(ask, decode)


def _line(line: bytes, schemas: Sequence[ForeignSchema]) -> Row | str:
    try:
        data = b64decode(line, validate=True)
    except binascii.Error as error:
        return f"not Base64: {error}"
    problem = ""
    for schema in schemas:
        try:
            return _row(schema.rows(data, 1)[0])
        except ValueError as error:
            problem = problem or str(error)
    return problem


def _row(values: object) -> Row:
    if not isinstance(values, dict):
        raise BadRow("not a record")
    row = Row(*(values[name] for name in FIELDS))
    numbers = (row.partition, row.offset, row.timestamp_ms)
    blobs = (row.key, row.value)
    headers = row.headers or {}
    is_right = (
        isinstance(row.topic, str)
        and all(isinstance(number, int) for number in numbers)
        and all(blob is None or isinstance(blob, bytes) for blob in blobs)
        and isinstance(headers, dict)
        and all(isinstance(value, bytes) for value in headers.values())
    )
    if not is_right or not 0 <= row.offset < MAX_OFFSET:
        raise BadRow("fields have wrong types")
    return row._replace(headers=headers)


def _bare_schema(key_and_value: object, headers: object) -> object:
    types = ("string", "int", "long", "long", key_and_value, key_and_value, headers)
    fields = [{"name": name, "type": kind} for name, kind in zip(FIELDS, types, strict=True)]
    return {"type": "record", "name": "AvroKafkaRecord", "fields": fields}


_BARE_SCHEMAS = (_bare_schema(["bytes", "null"], [_HEADER_MAP, "null"]), _bare_schema("bytes", _HEADER_MAP))
"""For records without a schema of their own: the schema of container files, and the older schema without nulls."""


def unwrap_java_value(stream: bytes) -> bytes | None:
    """Return the bytes sent by the producer, as far as known: text as UTF-8, a number as decimal text. None for a
    stream of another kind, and for bytes without a stream."""
    for read in _READERS:
        plain = read(stream)
        if plain is not None:
            return plain
    return None


def _read_bytes(stream: bytes) -> bytes | None:
    match = _BYTES.fullmatch(stream)
    return match[2] if match and len(match[2]) == int.from_bytes(match[1]) else None


def _read_text(stream: bytes) -> bytes | None:
    """Read text and long text: a length of 2 or 8 bytes, then modified UTF-8."""
    for kind, length_bytes in ((b"t", 2), (b"|", 8)):
        start = len(_STREAM) + 1 + length_bytes
        if stream.startswith(_STREAM + kind) and len(stream) - start == int.from_bytes(stream[5:start]):
            return _from_modified_utf8(stream[start:])
    return None


def _from_modified_utf8(data: bytes) -> bytes | None:
    """Convert modified UTF-8: Java writes NUL as two bytes, and every half of a surrogate pair as three."""
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be").encode()
    except UnicodeError:
        return None


def _read_box(stream: bytes) -> bytes | None:
    match = _BOXED.fullmatch(stream)
    kind = _BOXES.get(match[1]) if match else None
    if match is None or kind is None or len(match[2]) != struct.calcsize(kind):
        return None
    (value,) = struct.unpack(kind, match[2])
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, float):
        return _float_text(value, kind).encode() if math.isfinite(value) else None
    return b"%d" % value


def _float_text(value: float, kind: str) -> str:
    """Return the shortest decimal text of exactly this number."""
    if kind == ">d":
        return repr(value)
    texts = (repr(float(f"{value:.{digits}g}")) for digits in range(1, 10))
    return next(text for text in texts if struct.pack(">f", float(text)) == struct.pack(">f", value))


_READERS: tuple[Callable[[bytes], bytes | None], ...] = (_read_bytes, _read_text, _read_box)
