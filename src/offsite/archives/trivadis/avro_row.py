"""`AvroKafkaRecord`: its schema in the forms the tool has written, and one record of it as a row. Pure.

The defaults that the tool declares are no values of their types, so strict readers refuse its schema: they are dropped.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import NamedTuple

import fastavro
from fastavro.types import Schema

__all__ = ["BARE_SCHEMAS", "BadRow", "Row", "read_rows", "writer_schema"]

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class BadRow(Exception):
    """The bytes are no record of that schema. Becomes `Damage` in this package."""


class Row(NamedTuple):
    """One record as archived: nothing is turned back yet."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def writer_schema(text: bytes) -> Schema:
    """The schema in a container's metadata. Raises `BadRow` when it is not the tool's."""
    try:
        declared: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"the schema is not JSON: {error}") from error
    fields = declared.get("fields") if isinstance(declared, dict) else None
    named = [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    if not set(FIELDS) <= {field.get("name") for field in named}:
        raise BadRow(f"the schema lacks one of the fields {', '.join(FIELDS)}")
    kept = [{name: value for name, value in field.items() if name != "default"} for field in named]
    return _parsed({"type": "record", "name": "AvroKafkaRecord", "fields": kept})


def read_rows(data: bytes, schema: Schema, count: int) -> list[Row]:
    """Exactly `count` records that fill `data`. Raises `BadRow`."""
    stream = BytesIO(data)
    rows = []
    for _ in range(count):
        start = stream.tell()
        try:
            rows.append(_row(fastavro.schemaless_reader(stream, schema, None)))
        except Exception as error:  # the reader raises whatever the bytes lead it to
            raise BadRow(f"byte {start} is no record: {error or type(error).__name__}") from error
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
        and all(isinstance(value, bytes) for value in headers.values())
    )
    if not is_right or row.offset < 0:
        raise BadRow("fields are not of their types")
    return row._replace(headers=headers)


def _parsed(schema: dict[str, object]) -> Schema:
    try:
        return fastavro.parse_schema(schema)
    except Exception as error:  # whatever is wrong with a schema from outside
        raise BadRow(f"the schema cannot be read: {error}") from error


def _bare_schema(key_and_value: object, headers: object) -> Schema:
    types = ("string", "int", "long", "long", key_and_value, key_and_value, headers)
    fields = [{"name": name, "type": kind} for name, kind in zip(FIELDS, types, strict=True)]
    return _parsed({"type": "record", "name": "AvroKafkaRecord", "fields": fields})


_HEADER_MAP = {"type": "map", "values": "bytes"}
BARE_SCHEMAS = (_bare_schema(["bytes", "null"], [_HEADER_MAP, "null"]), _bare_schema("bytes", _HEADER_MAP))
"""For records without a schema of their own: as container files have them, and as before anything could be null."""
