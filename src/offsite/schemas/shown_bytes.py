"""Bytes for people and scripts: text and JSON as they are, what a schema registry explains by its schema, the rest
in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import cast

from offsite.model.untrusted.bounded_json import STRICT, BadJson, parse_json
from offsite.model.untrusted.nesting import nests_too_deep
from offsite.schemas.framing import FramedReader, SchemaName, framed_schema_id

_MAX_DEPTH = 100
"""Nesting depth of lists and objects; deeper values are shown as text or bytes."""

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBytes:
    """Bytes in a form for people and scripts. `encoding` is the form of `data`: `text`; `json`, a JSON object or list;
    `avro`, `json-schema` and `protobuf`, the JSON value of a payload framed with `schema_id`; `base64`, which may also
    be framed with a schema id. `schema`: the names of a schema that decoded the payload."""

    encoding: str
    data: JsonValue
    schema_id: int | None = None
    schema: SchemaName | None = None


def show_bytes(
    data: bytes | None, framed: FramedReader | None, topic: str, *, is_key: bool = False
) -> ShownBytes | None:
    """A key, a value or the value of a header of `topic`; None for null. `framed` None: neither schemas nor JSON are
    decoded."""
    if data is None:
        return None
    if framed is not None and (decoded := show_framed(data, framed, topic, is_key=is_key)) is not None:
        return decoded
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # text has none, and framed bytes begin with a zero
        return ShownBytes(encoding="base64", data=base64.b64encode(data).decode(), schema_id=framed_schema_id(data))
    return ShownBytes(encoding="text", data=text) if framed is None else _show_text(text)


def _show_text(text: str) -> ShownBytes:
    """Show objects and lists as JSON; `7` and `null` may well be texts."""
    if text.lstrip()[:1] in {"{", "["}:
        with suppress(BadJson):
            if not nests_too_deep(value := parse_json(text.encode(), decoder=STRICT), most=_MAX_DEPTH):
                return ShownBytes(encoding="json", data=cast("JsonValue", value))
    return ShownBytes(encoding="text", data=text)


def show_framed(data: bytes, framed: FramedReader, topic: str, *, is_key: bool) -> ShownBytes | None:
    """What a schema decodes; None for all else."""
    read = framed.read(data)
    if read is None or nests_too_deep(read.value, most=_MAX_DEPTH):
        return None
    name = framed.name_of(read.schema_id, topic, is_key=is_key, type_name=read.type)
    return ShownBytes(encoding=read.kind, data=_json(read.value), schema_id=read.schema_id, schema=name)


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
