"""`AvroKafkaRecord`: the schema in the forms written by the tool, and a record as a row. Pure.

The tool's declared defaults have wrong types, so strict readers refuse the schema: `compute_claims` drops the defaults.
"""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple, cast

import fastavro
from fastavro.types import Schema

from offsite.archives.avro_claims import Claims, compute_claims
from offsite.model.bounds import MAX_OFFSET
from offsite.model.untrusted.bounded_json import BadJson, parse_json

__all__ = ["BARE_SCHEMAS", "BadRow", "Row", "parse_writer_schema", "read_rows"]

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class BadRow(Exception):
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


class WriterSchema(NamedTuple):
    """The schema of written rows. `parsed`: by fastavro; `claims`: bounds of the values."""

    claims: Claims
    parsed: Schema


def parse_writer_schema(text: bytes) -> WriterSchema:
    """Parse the schema in a container's metadata. Raises `BadRow` for a schema of another tool."""
    try:
        declared = parse_json(text)
    except BadJson as error:
        raise BadRow(f"the schema is not JSON: {error}") from error
    fields = declared.get("fields") if isinstance(declared, dict) else None
    named = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    if sorted(str(field.get("name")) for field in named) != sorted(FIELDS):
        raise BadRow(f"the schema lacks one of the fields {', '.join(FIELDS)}, or has others")
    try:
        claims = compute_claims(
            {**_space_of(declared), "type": "record", "name": "AvroKafkaRecord", "fields": named}
        ).of_many()
    except ValueError as error:
        raise BadRow(str(error)) from error
    return WriterSchema(claims, _parsed(claims.schema))


def _space_of(declared: object) -> dict[str, str]:
    """Return the namespace, the prefix of full names."""
    space = declared.get("namespace") if isinstance(declared, dict) else None
    return {"namespace": space} if isinstance(space, str) else {}


def read_rows(data: bytes, schema: WriterSchema, count: int) -> list[Row]:
    """Read exactly `count` records that fill `data`. Raises `BadRow`."""
    try:
        schema.claims.check_block(data, count)
    except ValueError as error:
        raise BadRow(str(error)) from error
    stream = BytesIO(data)
    rows = []
    for _ in range(count):
        start = stream.tell()
        try:
            rows.append(_row(fastavro.schemaless_reader(stream, schema.parsed, None)))
        except Exception as error:  # the reader raises whatever the bytes lead it to
            raise BadRow(f"byte {start} is not a record: {error or type(error).__name__}") from error
    if stream.tell() != len(data):
        raise BadRow(f"{len(data) - stream.tell()} bytes follow the last record")
    return rows


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


def _parsed(schema: object) -> Schema:
    try:
        return fastavro.parse_schema(cast("Schema", schema))
    except Exception as error:  # whatever is wrong with a schema from outside
        raise BadRow(f"the schema cannot be read: {error}") from error


def _bare_schema(key_and_value: object, headers: object) -> WriterSchema:
    types = ("string", "int", "long", "long", key_and_value, key_and_value, headers)
    fields = [{"name": name, "type": kind} for name, kind in zip(FIELDS, types, strict=True)]
    claims = compute_claims({"type": "record", "name": "AvroKafkaRecord", "fields": fields})
    return WriterSchema(claims, _parsed(claims.schema))


_HEADER_MAP = {"type": "map", "values": "bytes"}
BARE_SCHEMAS = (_bare_schema(["bytes", "null"], [_HEADER_MAP, "null"]), _bare_schema("bytes", _HEADER_MAP))
"""For records without a schema of their own: the schema of container files, and the older schema without nulls."""
