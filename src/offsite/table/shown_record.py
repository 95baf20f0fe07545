"""A record for people and scripts: text and JSON as they are, Avro by its schema, everything else in base64.

The schemas are read from the backed-up topic of a Confluent-compatible registry (keys and values are JSON): by id, with
their references. Confluent's framing is a zero byte, four bytes of schema id, the payload. Unreadable bytes never fail:
bytes that begin with a zero need not be framed. fastavro is imported where used.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, cast

from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.model.untrusted.bounded_json import STRICT, BadJson, parse_json
from offsite.table.scan import MatchingRecord

if TYPE_CHECKING:
    from fastavro.types import Schema


AVRO = "AVRO"

_SCHEMA_KEY = "SCHEMA"
_FRAME = struct.Struct(">bI")
_JSON = "JSON"
_MAX_DEPTH = 100
"""Nesting depth of lists and objects; deeper values are shown as text or bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema. `kind`: AVRO, JSON or PROTOBUF. `references`: the (subject, version) of schemas that it uses."""

    kind: str
    text: str
    references: tuple[tuple[str, int], ...] = ()


class SchemaRegistry:
    """All schemas, deleted ones included: old records may need them."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        for record in records:
            self._add(_json_object(record.key), _json_object(record.value))

    def find(self, schema_id: int) -> RegisteredSchema | None:
        return self._by_id.get(schema_id)

    def with_references(self, schema: RegisteredSchema) -> list[str]:
        """The texts of the references of `schema`, every text behind its own references, and last the text of
        `schema`."""
        texts: dict[str, None] = {}
        self._collect(schema, texts, set())
        return list(texts)

    def _collect(self, schema: RegisteredSchema, texts: dict[str, None], collected: set[tuple[str, int]]) -> None:
        for reference in schema.references:
            referenced = self._by_version.get(reference)
            if referenced is not None and reference not in collected:
                collected.add(reference)
                self._collect(referenced, texts, collected)
        texts[schema.text] = None

    def _add(self, key: dict[str, object], value: dict[str, object]) -> None:
        """Take a record of the topic; ignore records that are no schema."""
        schema_id, text = value.get("id"), value.get("schema")
        if key.get("keytype") != _SCHEMA_KEY or not isinstance(schema_id, int) or not isinstance(text, str):
            return
        schema = RegisteredSchema(
            kind=str(value.get("schemaType") or AVRO), text=text, references=tuple(_references(value.get("references")))
        )
        self._by_id[schema_id] = schema
        subject, version = value.get("subject"), value.get("version")
        if isinstance(subject, str) and isinstance(version, int):
            self._by_version[subject, version] = schema


def _references(items: object) -> Iterable[tuple[str, int]]:
    for reference in items if isinstance(items, list) else ():
        if (
            isinstance(reference, dict)
            and isinstance(reference.get("subject"), str)
            and isinstance(reference.get("version"), int)
        ):
            yield reference["subject"], reference["version"]


def _json_object(data: bytes | None) -> dict[str, object]:
    try:
        parsed = parse_json(data or b"")
    except BadJson:
        return {}
    return parsed if isinstance(parsed, dict) else {}


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


JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBytes:
    """Bytes in a form for people and scripts. `encoding` is the form of `data`: `text`; `json`, a JSON object or list;
    `avro` and `json-schema`, the JSON value of a payload framed with `schema_id`; `base64`, which may also be framed
    with a schema id."""

    encoding: str
    data: JsonValue
    schema_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHeader:
    name: str
    value: ShownBytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A record as shown. `timestamp_ms`: -1 when the producer gave none. `timestamp_type`: `CreateTime` or
    `LogAppendTime`."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: ShownBytes | None
    value: ShownBytes | None
    headers: tuple[ShownHeader, ...]


def show_record(found_record: MatchingRecord, framed: ConfluentReader) -> ShownRecord:
    record: Record = found_record.record
    return ShownRecord(
        topic=found_record.partition.topic,
        partition=found_record.partition.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type="LogAppendTime" if record.timestamp_type == LOG_APPEND_TIME else "CreateTime",
        key=_show(record.key, framed),
        value=_show(record.value, framed),
        headers=tuple(ShownHeader(name=_name(name), value=_show(value, framed)) for name, value in record.headers),
    )


def _show(data: bytes | None, framed: ConfluentReader) -> ShownBytes | None:
    if data is None:
        return None
    if (read := framed.read(data)) is not None and _is_shallow(read.value):
        return ShownBytes(encoding=read.kind, data=_json(read.value), schema_id=read.schema_id)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # text has none, and framed bytes begin with a zero
        return ShownBytes(encoding="base64", data=base64.b64encode(data).decode(), schema_id=confluent_schema_id(data))
    return _show_text(text)


def _show_text(text: str) -> ShownBytes:
    """Show objects and lists as JSON; `7` and `null` may well be texts."""
    if text.lstrip()[:1] in {"{", "["}:
        with suppress(BadJson):
            if _is_shallow(value := parse_json(text.encode(), decoder=STRICT)):
                return ShownBytes(encoding="json", data=cast("JsonValue", value))
    return ShownBytes(encoding="text", data=text)


def _is_shallow(value: object) -> bool:
    """Whether the value can be printed: Python reads deeper JSON than it writes."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [child for parent in level for child in _items(parent)]
        if not level:
            return True
    return False


def _items(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _name(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _json(value: object) -> JsonValue:
    """Convert Avro values without a JSON form to text: dates in ISO 8601, decimals in digits, bytes in base64."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no such number
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): _json(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_json(element) for element in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
