"""Decodes blocks of foreign Avro schemas by fastavro, in another process: fastavro recurses and loops without
limits, and a schema may nest, refer to itself, or double with every type.

`ForeignBlocks` sends a block at a time; the process has a loop that answers (`decode_each`).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.types import Schema

from offsite.archives.avro.decoding import MAX_HEADERS, OtherSchema
from offsite.archives.avro.encoding import SCHEMA
from offsite.archives.decoding_process import Ask
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import RecordHeaders
from offsite.log.varint import zigzag

_SCHEMA_WORDS = {"type", "name", "namespace", "aliases", "fields", "items", "values", "size", "symbols"}
_MAX_TOPIC = 250
_UNREADABLE = (ValueError, EOFError, LookupError, TypeError, OverflowError, RecursionError, struct.error)
"""Raised by fastavro for bytes outside the schema."""

Row = Mapping[str, Any]


def decode_each(ask: Ask, decode: Callable[[Buffer, int], Sequence[object]]) -> Iterator[object]:
    """Yield None, and then the result of `decode` for each block of the parent, or the `ValueError`."""
    yield None
    while True:
        block, records = ask(None)
        try:
            yield decode(block, records)
        except ValueError as error:
            yield error
        except MemoryError:
            yield ValueError("its records take too much memory")


def decode_records(ask: Ask, writer_schema: object, of: TopicPartition) -> Iterator[object]:
    """Yield the records of each block as tuples, in the process of `ForeignDecoding`."""
    schema = ForeignSchema(writer_schema, SCHEMA)

    def decode(block: Buffer, records: int) -> Sequence[object]:
        decoded = [_record(row, of) for row in schema.rows(block, records)]
        check_headers(len(record[-1]) for record in decoded)
        return decoded

    yield from decode_each(ask, decode)


class ForeignSchema:
    """The schema of written records, and the schema to resolve to. Raises `ValueError` unless `written` is a schema."""

    def __init__(self, written: object, resolved: object = None) -> None:
        try:
            self._written = _array_of(_without_defaults(written))
        except Exception as error:  # noqa: BLE001  (whatever is wrong with a schema from outside)
            raise ValueError(repr(error)) from None
        self._resolved = None if resolved is None else _array_of(resolved)

    def rows(self, block: Buffer, records: int) -> list[Row]:
        """Read all `records` of a plain block as a single array: fastavro reads an array in a single call.

        Raises `ValueError` unless the block holds exactly `records` records, and `OtherSchema`."""
        array = b"".join((zigzag(records), block, b"\x00")) if records else b"".join((b"\x00", block))
        stream = io.BytesIO(array)
        try:
            rows = fastavro.schemaless_reader(stream, self._written, self._resolved)
        except SchemaResolutionError as error:
            raise OtherSchema(f"its schema cannot be resolved to the schema of offsite: {error}") from None
        except _UNREADABLE as error:
            raise ValueError(f"its records cannot be read: {error!r}") from None
        if not isinstance(rows, list) or len(rows) != records or stream.tell() != len(array):
            raise ValueError(f"it does not have exactly {records} records")
        return rows


def check_headers(counts: Iterable[int]) -> None:
    """Raise `ValueError` for the records of a block with more headers than fit into the parent's memory."""
    if (headers := sum(counts)) > MAX_HEADERS:
        raise ValueError(f"{headers} headers in a block, at most {MAX_HEADERS} are read")


def _array_of(schema: object) -> Schema:
    return fastavro.parse_schema(cast("Schema", {"type": "array", "items": schema}))


def _without_defaults(schema: object) -> object:
    """Return what decides about the bytes: defaults may have wrong types, and logical types change the values. Some
    tools put a union, or a type in an object, into one more object; fastavro knows none."""
    if isinstance(schema, list):
        return [_without_defaults(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if not isinstance(schema.get("type"), str):
        return _without_defaults(schema.get("type"))
    kept = {word: value for word, value in schema.items() if word in _SCHEMA_WORDS}
    kept |= {word: _without_defaults(kept[word]) for word in ("items", "values") if word in kept}
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_field(field) for field in kept["fields"]]
    return kept


def _field(field: object) -> object:
    if not isinstance(field, dict):
        return field
    kept = {word: field[word] for word in ("name", "aliases") if word in field}
    return {**kept, "type": _without_defaults(field.get("type"))}


def _record(row: Row, of: TopicPartition) -> tuple[int, int, int, bytes | None, bytes | None, RecordHeaders]:
    if row["topic"] != of.topic or row["partition"] != of.partition:
        raise OtherSchema(f"offset {row['offset']} is of {row['topic'][:_MAX_TOPIC]}/{row['partition']}, not of {of}")
    value = None if row["valueIsNull"] else row["value"]
    return row["offset"], row["timestamp"], row["timestampType"], row["key"], value, _headers(row)


def _headers(row: Row) -> RecordHeaders:
    exact = row["headerList"]
    if exact is not None:
        return tuple((header["name"].decode("utf-8", "surrogateescape"), header["value"]) for header in exact)
    return tuple((row["headers"] or {}).items())
