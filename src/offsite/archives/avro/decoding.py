"""The records in Avro's blocks: of our schema, of the plain one, and of others that resolve to ours.

fastavro decodes; it is imported where it is used.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from offsite.archives.avro.container import Block
from offsite.archives.avro.schema import PLAIN_SCHEMA, SCHEMA, encoded
from offsite.log.range import TopicPartition
from offsite.log.record import Record, RecordHeaders

if TYPE_CHECKING:
    from fastavro.types import Schema as AvroSchema

__all__ = ["BadRecords", "decode_block", "row_reader"]

Row = Mapping[str, Any]
RowReader = Callable[[io.BytesIO], Row]


class BadRecords(ValueError):
    """The bytes hold no records of this schema, or others than they should."""


def row_reader(written: bytes, *, must_be_known: bool) -> RowReader:
    """Reads one row that was written with this schema (JSON). Raises `BadRecords` for a schema that does not fit.

    `must_be_known`: no other than those that offsite writes; in a damaged file a flipped field name might resolve.
    """
    import fastavro
    from fastavro.schema import SchemaParseException

    is_known = written in (encoded(SCHEMA), encoded(PLAIN_SCHEMA))
    if must_be_known and not is_known:
        raise BadRecords("its schema is not one that offsite writes")
    try:
        schema = fastavro.parse_schema(json.loads(written))
        target = None if is_known else fastavro.parse_schema(SCHEMA)
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRecords(f"its schema cannot be read: {error}") from error
    return partial(_read_row, schema, target)


def decode_block(block: Block, read_row: RowReader, of: TopicPartition) -> Sequence[Record]:
    """The records of a block, in rising order of offsets, all of this partition. Raises `BadRecords`."""
    if block.records > len(block.data):
        raise BadRecords(f"{block.records} records in {len(block.data)} bytes")
    stream = io.BytesIO(block.data)
    try:
        records = [_record(read_row(stream), of) for _ in range(block.records)]
    except BadRecords:
        raise
    except _unreadable() as error:
        raise BadRecords(f"its records cannot be read: {error!r}") from error
    if stream.tell() != len(block.data):
        raise BadRecords(f"{len(block.data) - stream.tell()} bytes after the last of {block.records} records")
    if any(after.offset <= before.offset for before, after in pairwise(records)):
        raise BadRecords("offsets do not rise")
    return records


def _unreadable() -> tuple[type[Exception], ...]:
    """What fastavro raises for bytes that are not in the schema, or a schema that does not resolve to ours."""
    from fastavro.read import SchemaResolutionError

    python = (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)
    return (SchemaResolutionError, *python)


def _read_row(schema: AvroSchema, target: AvroSchema | None, stream: io.BytesIO) -> Row:
    import fastavro

    row = fastavro.schemaless_reader(stream, schema, target)
    if not isinstance(row, dict):
        raise BadRecords("its schema is not that of a record")
    return row


def _record(row: Row, of: TopicPartition) -> Record:
    if row["topic"] != of.topic or row["partition"] != of.partition:
        raise BadRecords(f"offset {row['offset']} is of {row['topic']}/{row['partition']}, not of {of}")
    value = None if row.get("valueIsNull") else row["value"]
    return Record(row["offset"], row["timestamp"], row.get("timestampType", 0), row["key"], value, _headers(row))


def _headers(row: Row) -> RecordHeaders:
    exact = row.get("headerList")
    if exact is not None:
        return tuple((each["name"].decode("utf-8", "surrogateescape"), each["value"]) for each in exact)
    return tuple((row["headers"] or {}).items())
