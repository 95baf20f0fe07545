"""Decodes blocks with a foreign schema that resolves to offsite's: by fastavro, imported on use."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from offsite.archives.avro.schema import SCHEMA
from offsite.archives.avro.varints import zigzag
from offsite.archives.avro_claims import compute_claims
from offsite.log.buffer import Buffer
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record, RecordHeaders

__all__ = ["ForeignDecoding"]

Row = Mapping[str, Any]

_NEEDED = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_MAX_NAMED, _MAX_NAME, _MAX_TOPIC = 12, 40, 250
_MILLISECONDS = "timestamp-millis"


class OtherSchema(ValueError):
    """The schema is valid but does not describe Kafka records, or the records belong elsewhere."""


class ForeignDecoding:
    """Decodes the records of a partition. Raises `ValueError` unless `writer_schema` is a schema, and `OtherSchema` for
    a schema of something else."""

    def __init__(self, of: TopicPartition, writer_schema: object) -> None:
        import fastavro
        from fastavro.schema import SchemaParseException

        self._of, self._claims = of, compute_claims(writer_schema).of_many()
        try:
            self._written = fastavro.parse_schema({"type": "array", "items": self._claims.schema})
        except (SchemaParseException, KeyError, TypeError, AttributeError) as error:
            raise ValueError(repr(error)) from error
        _check_fields(writer_schema)
        self._ours = fastavro.parse_schema({"type": "array", "items": SCHEMA})

    def decode(self, block: Buffer, records: int) -> list[Record]:
        """Decode all `records` of a plain block. Raises `ValueError` unless the block holds exactly `records` records,
        and `OtherSchema`."""
        self._claims.check_block(block, records)
        rows = self._rows(block, records)
        return [_record(row, self._of) for row in rows]

    def _rows(self, block: Buffer, records: int) -> list[Row]:
        """Read the block as a single array: fastavro reads an array in a single call."""
        import fastavro
        from fastavro.read import SchemaResolutionError

        array = b"".join((zigzag(records), block, b"\x00")) if records else b"".join((b"\x00", block))
        stream = io.BytesIO(array)
        try:
            rows = fastavro.schemaless_reader(stream, self._written, self._ours)
        except SchemaResolutionError as error:
            raise OtherSchema(f"its schema cannot be resolved to the schema of offsite: {error}") from error
        except _unreadable() as error:
            raise ValueError(f"its records cannot be read: {error!r}") from error
        if not isinstance(rows, list) or len(rows) != records or stream.tell() != len(array):
            raise ValueError(f"it does not have exactly {records} records")
        return rows


def _check_fields(writer_schema: object) -> None:
    fields = writer_schema.get("fields", []) if isinstance(writer_schema, dict) else []
    names = [str(field["name"]) for field in fields]
    if missing := [name for name in _NEEDED if name not in names]:
        present = ", ".join(name[:_MAX_NAME] for name in names[:_MAX_NAMED]) or "none"
        raise OtherSchema(f"its schema has no field {missing[0]!r}; it has {present}")
    for logical in _logical_types(fields[names.index("timestamp")]["type"]):
        if logical != _MILLISECONDS:  # Spark writes times in microseconds
            raise OtherSchema(f"its timestamp is of the logical type {logical[:_MAX_NAME]!r}, not {_MILLISECONDS!r}")


def _logical_types(kind: object) -> Iterator[str]:
    for branch in kind if isinstance(kind, list) else [kind]:
        if isinstance(branch, dict) and "logicalType" in branch:
            yield str(branch["logicalType"])


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the errors raised by fastavro for bytes outside the schema."""
    return (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)


def _record(row: Row, of: TopicPartition) -> Record:
    if row["topic"] != of.topic or row["partition"] != of.partition:
        raise OtherSchema(f"offset {row['offset']} is of {row['topic'][:_MAX_TOPIC]}/{row['partition']}, not of {of}")
    value = None if row["valueIsNull"] else row["value"]
    return Record(row["offset"], row["timestamp"], row["timestampType"], row["key"], value, _headers(row))


def _headers(row: Row) -> RecordHeaders:
    exact = row["headerList"]
    if exact is not None:
        return tuple((header["name"].decode("utf-8", "surrogateescape"), header["value"]) for header in exact)
    return tuple((row["headers"] or {}).items())
