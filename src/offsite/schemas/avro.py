"""Values of Avro by the sources that a registry keeps. fastavro is imported where used.

Schemas and payloads are of strangers. fastavro's compiled reader recurses on the stack of C: 5 kB of a payload whose
schema uses itself end the process. So what may nest deep is read by fastavro's reader in Python, which raises. An array
of items that have no bytes is not read at all: a few bytes would stand for billions of them. A decimal of a megabyte
takes an hour to become one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from offsite.model.untrusted.bounded_json import parse_json
from offsite.model.untrusted.nesting import nests_too_deep

if TYPE_CHECKING:
    from fastavro.types import Schema

_NESTED_MAX = 64
"""Types within types that the compiled reader gets."""
_DECIMALS_BYTES_MAX = 4_096
"""Of a payload whose decimals are shown as such: the time grows with the square."""
_TEXT_NESTED_MAX = 320
"""Levels of JSON, about four to a record in a record."""
_LOGICAL, _DECIMAL, _MARK = "logicalType", "decimal", "__"


class AvroType:
    """One schema, with those that it uses. `plain`: the same without logical types. `is_deep`: its values may nest
    deeper than is safe in C. `has_decimals`: it has the logical type."""

    def __init__(self, schema: Schema, plain: Schema, *, is_deep: bool, has_decimals: bool) -> None:
        self._schema, self._plain = schema, plain
        self._is_deep, self._has_decimals = is_deep, has_decimals

    @property
    def name(self) -> str:
        """The full name of a record, an enum or a fixed; empty for another type."""
        name = self._schema.get("name", "") if isinstance(self._schema, dict) else ""
        return name if isinstance(name, str) else ""

    def read(self, data: bytes, start: int) -> tuple[object] | None:
        """The value of all bytes from `start` on, which may be None itself; None where they are no value. For people:
        with times, decimals and other logical types, as far as they are in their bounds."""
        if self._has_decimals and len(data) - start > _DECIMALS_BYTES_MAX:
            return self.read_plain(data, start)
        return self._read(self._schema, data, start) or self.read_plain(data, start)

    def read_plain(self, data: bytes, start: int) -> tuple[object] | None:
        """As `read`, of numbers, texts and bytes alone, and of bounded depth: what it reads depends neither on the
        stack that is left, nor on what Python takes for a time."""
        value = self._read(self._plain, data, start)
        return None if value is None or (self._is_deep and nests_too_deep(value)) else value

    def _read(self, schema: Schema, data: bytes, start: int) -> tuple[object] | None:
        payload = io.BytesIO(data[start:])
        try:
            value = self._reader()(payload, schema, None)
        except Exception:  # noqa: BLE001  # fastavro raises whatever went wrong on the way; the bytes are shown instead
            return None
        return None if payload.read(1) else (value,)

    def _reader(self) -> Any:  # noqa: ANN401  # fastavro has no types of its readers
        if self._is_deep:
            from fastavro import _read_py

            return _read_py.schemaless_reader
        from fastavro import schemaless_reader

        return schemaless_reader


def avro_type(texts: list[str]) -> AvroType | None:
    """The last of the schemas, which may use the earlier ones; None for invalid Avro schemas, and for those with arrays
    of nothing."""
    try:
        sources = [parse_json(text.encode()) for text in texts]
        if not sources or nests_too_deep(sources, most=_TEXT_NESTED_MAX):
            return None
        plain, types = _parse(sources, logical=False)
        if types.has_arrays_of_nothing(plain) or types.have_arrays_of_nothing:
            return None
        is_deep = types.depth(plain) > _NESTED_MAX
        schema = _logical(sources) or plain
        return AvroType(schema, plain, is_deep=is_deep, has_decimals=any(map(_has_decimals, sources)))
    except Exception:  # noqa: BLE001  # as above: whatever is wrong with a schema, its records are shown as bytes
        return None


def _parse(sources: Iterable[object], *, logical: bool = True) -> tuple[Schema, _Types]:
    """The last of at least one schema, with or without `logical` types, and the named types of all."""
    from fastavro import parse_schema

    named: dict[str, dict[str, object]] = {}
    parsed = [parse_schema(_cleaned(source, logical=logical), named_schemas=named) for source in sources]
    return parsed[-1], _Types(named)


def _logical(sources: Iterable[object]) -> Schema | None:
    """With logical types; None where one is invalid, which the specification tells readers to ignore."""
    from fastavro.schema import SchemaParseException

    try:
        return _parse(sources)[0]
    except SchemaParseException:
        return None


def _cleaned(source: Any, *, logical: bool) -> Any:  # noqa: ANN401  # JSON
    """Without the marks of fastavro, by which it takes a schema for one that it has parsed."""
    if isinstance(source, dict):
        members = {name: part for name, part in source.items() if not name.startswith(_MARK)}
        return {name: _cleaned(part, logical=logical) for name, part in members.items() if logical or name != _LOGICAL}
    return [_cleaned(part, logical=logical) for part in source] if isinstance(source, list) else source


def _has_decimals(source: Any) -> bool:  # noqa: ANN401  # JSON
    if isinstance(source, dict):
        return source.get(_LOGICAL) == _DECIMAL or any(map(_has_decimals, source.values()))
    return isinstance(source, list) and any(map(_has_decimals, source))


class _Types:
    """What schemas tell of their values. `named`: the named types, by their full names."""

    def __init__(self, named: Mapping[str, object]) -> None:
        self._named = named
        self._depths: dict[str, int] = {}
        self._empty: dict[str, bool] = {}

    def depth(self, schema: object, level: int = 0) -> int:
        """The most types within one another; more than `_NESTED_MAX` where a type is in itself."""
        if level > _NESTED_MAX:
            return 1
        name = schema.get("name") if isinstance(schema, dict) else schema
        if not isinstance(name, str) or name not in self._named:
            return self._depth_inside(schema, level)
        if name not in self._depths:
            self._depths[name] = _NESTED_MAX + 1  # as long as it is open: whoever meets it is in it
            self._depths[name] = self._depth_inside(self._named[name], level)
        return self._depths[name]

    def _depth_inside(self, schema: object, level: int) -> int:
        return 1 + max((self.depth(part, level + 1) for part in _parts(schema)), default=0)

    @property
    def have_arrays_of_nothing(self) -> bool:
        return any(map(self.has_arrays_of_nothing, self._named.values()))

    def has_arrays_of_nothing(self, schema: object) -> bool:
        """Whether an array in the text of `schema` has items without bytes."""
        if isinstance(schema, dict) and "items" in schema and self._has_no_bytes(schema["items"]):
            return True
        return any(map(self.has_arrays_of_nothing, _parts(schema)))

    def _has_no_bytes(self, schema: object) -> bool:
        if not isinstance(schema, dict):
            name = schema if isinstance(schema, str) else ""
            return name == "null" or (name in self._named and self._is_empty(name))
        if schema.get("type") == "record":
            return all(map(self._has_no_bytes, _parts(schema)))
        return schema.get("size") == 0 if schema.get("type") == "fixed" else self._has_no_bytes(schema.get("type"))

    def _is_empty(self, name: str) -> bool:
        if name not in self._empty:
            self._empty[name] = False  # as long as it is open
            self._empty[name] = self._has_no_bytes(self._named[name])
        return self._empty[name]


def _parts(schema: object) -> list[Any]:
    """The types that a schema is made of."""
    if isinstance(schema, list):
        return schema
    if not isinstance(schema, dict):
        return []
    return [*(schema[part] for part in ("items", "values") if part in schema), *(f["type"] for f in _fields(schema))]


def _fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema["fields"] if schema.get("type") in {"record", "error"} else []
