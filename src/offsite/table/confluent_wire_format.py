"""Decodes Confluent's framing (a zero byte, four bytes of schema id, the payload) into JSON values, by a schema
registry.

Unreadable bytes never fail: bytes that begin with a zero need not be framed. fastavro is imported where used.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.table.schema_registry import AVRO, RegisteredSchema, SchemaRegistry

if TYPE_CHECKING:
    from fastavro.types import Schema

_FRAME = struct.Struct(">bI")
_JSON = "JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfluentValue:
    """A decoded payload. `kind`: `avro` or `json-schema`, from its schema. `value`: plain Python."""

    kind: str
    schema_id: int
    value: object


def confluent_schema_id(data: bytes) -> int | None:
    """The schema id of `data`, if framed."""
    if len(data) <= _FRAME.size:
        return None
    magic, schema_id = _FRAME.unpack_from(data)
    return schema_id if magic == 0 else None


class ConfluentReader:
    """Decodes payloads by the schemas of a registry. The registry is read at the first framed payload."""

    def __init__(self, open_registry: Callable[[], SchemaRegistry]) -> None:
        self._open_registry = open_registry
        self._parsed: dict[int, Schema | None] = {}

    def read(self, data: bytes) -> ConfluentValue | None:
        """The value of `data`; None if it is not framed, has no schema in the registry, or does not fit its schema."""
        schema_id = confluent_schema_id(data)
        schema = None if schema_id is None else self._registry.find(schema_id)
        if schema_id is None or schema is None:
            return None
        if schema.kind == AVRO:
            return self._read_avro(schema_id, schema, data)
        if schema.kind == _JSON:
            return _read_json(schema_id, data)
        return None

    @cached_property
    def _registry(self) -> SchemaRegistry:
        return self._open_registry()

    def _read_avro(self, schema_id: int, schema: RegisteredSchema, data: bytes) -> ConfluentValue | None:
        from fastavro import schemaless_reader

        if schema_id not in self._parsed:
            self._parsed[schema_id] = _parse(self._registry.with_references(schema))
        parsed = self._parsed[schema_id]
        if parsed is None:
            return None
        payload = io.BytesIO(data[_FRAME.size :])
        try:
            value = schemaless_reader(payload, parsed, None)
        except Exception:  # noqa: BLE001  # fastavro raises whatever went wrong on the way; the bytes are shown instead
            return None
        return None if payload.read(1) else ConfluentValue(kind="avro", schema_id=schema_id, value=value)


def _parse(texts: list[str]) -> Schema | None:
    """The last of the schemas, which may use the earlier ones; None for invalid Avro schemas."""
    from fastavro import parse_schema

    named: dict[str, dict[str, object]] = {}
    parsed: Schema | None = None
    try:
        for text in texts:
            parsed = parse_schema(cast("Schema", parse_json(text.encode())), named_schemas=named)
    except Exception:  # noqa: BLE001  # as above: whatever is wrong with a schema, its records are shown as bytes
        return None
    return parsed


def _read_json(schema_id: int, data: bytes) -> ConfluentValue | None:
    try:
        return ConfluentValue(kind="json-schema", schema_id=schema_id, value=parse_json(data[_FRAME.size :]))
    except BadJson:
        return None
