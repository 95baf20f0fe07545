"""Decodes blocks of foreign Avro schemas by fastavro, in a process of their own: fastavro recurses and loops without
limits, and a schema may nest, refer to itself, or double with every type.

The parent asks for a block at a time (`ForeignBlocks`); the process has a loop that answers (`decode_each`).
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.types import Schema

from offsite.archives.avro.varints import zigzag
from offsite.archives.decoding_process import Ask, decode_apart
from offsite.log.buffer import Buffer

MAX_BLOCK_RECORDS = 250_000
MAX_HEADERS = 1_000_000
"""Of all records in a block: two bytes become a hundred."""
_SCHEMA_WORDS = {"type", "name", "namespace", "aliases", "fields", "items", "values", "size", "symbols"}

Row = Mapping[str, Any]


class OtherSchema(ValueError):
    """The schema is valid but does not describe Kafka records, or the records belong elsewhere."""


class ForeignBlocks:
    """Decodes the blocks of a file, in the order of calls. `decode`: a generator function (`module:function`), which
    yields once when it has read the schema in `args`. Raises `ValueError` for an unreadable schema."""

    def __init__(self, decode: str, *args: object) -> None:
        self._block: object = None
        self._items = decode_apart(decode, lambda _: self._block, *args)
        next(self._items)

    def decode(self, block: Buffer, records: int) -> list[Any]:
        """Return what the generator makes of a plain block with so many records. Raises `ValueError` for a bad block,
        and `DecodingEnded` when no further block can be decoded."""
        if records > MAX_BLOCK_RECORDS or records > len(block):
            raise ValueError(f"{records} records in {len(block)} bytes, at most {MAX_BLOCK_RECORDS} are read")
        self._block = pickle.PickleBuffer(block), records
        result: list[Any] | ValueError = next(self._items)
        if isinstance(result, ValueError):
            raise result
        return result


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
    """Return what decides about the bytes: defaults may have wrong types, and logical types change the values."""
    if isinstance(schema, list):
        return [_without_defaults(branch) for branch in schema]
    if isinstance(schema, dict):
        return {word: _without_defaults(value) for word, value in schema.items() if word in _SCHEMA_WORDS}
    return schema


_UNREADABLE = (ValueError, EOFError, LookupError, TypeError, OverflowError, RecursionError, struct.error)
"""Raised by fastavro for bytes outside the schema."""
