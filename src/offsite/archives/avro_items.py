"""How many items arrays and maps of a block have, counted without making them. Pure.

Format: Avro 1.11 specification, binary encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from offsite.log.buffer import Buffer
from offsite.log.records.varint import PADDING, varint_reader

__all__ = ["MAX_ITEMS", "check_items"]

MAX_ITEMS = 1_000_000
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}

_Object = dict[str, object]


def check_items(schema: object, data: Buffer, records: int, named: Mapping[str, object]) -> None:
    """`schema` is of little depth, and refers to types in `named`, none of which refers to itself. Raises `ValueError`
    for more than `MAX_ITEMS`, and for bytes that are not these records."""
    _Walk(data, named).values(schema, 0, records)


class _Walk:
    def __init__(self, data: Buffer, named: Mapping[str, object]) -> None:
        self._data, self._size = b"".join((data, PADDING)), len(data)
        self._long = varint_reader()
        self._room = MAX_ITEMS
        self._named = named

    def values(self, schema: object, at: int, count: int) -> int:
        for _ in range(count):
            at = self._value(schema, at)
            if at > self._size:
                raise ValueError(f"a value goes on beyond the block's {self._size} bytes")
        return at

    def _value(self, schema: object, at: int) -> int:
        if isinstance(schema, list):
            branch, at = self._long(self._data, at)
            if not 0 <= branch < len(schema) or at > self._size:
                raise ValueError(f"no branch {branch} of {len(schema)} before byte {at}")
            return self.values(schema[branch], at, 1)
        if isinstance(schema, dict):
            return self._object(schema, at)
        if schema in ("bytes", "string"):
            return self._blob(at)
        name = cast("str", schema)
        if name in self._named:
            return self._value(self._named[name], at)
        return at + _SIZES[name] if name in _SIZES else self._long(self._data, at)[1]

    def _object(self, schema: _Object, at: int) -> int:
        kind = schema["type"]
        if kind == "record":
            for field in cast("list[_Object]", schema["fields"]):
                at = self.values(field["type"], at, 1)
            return at
        if kind == "fixed":
            return at + cast("int", schema["size"])
        if kind == "enum":
            return self._long(self._data, at)[1]
        return self._items(schema, at, has_keys=kind == "map")

    def _items(self, schema: _Object, at: int, *, has_keys: bool) -> int:
        item = schema["values" if has_keys else "items"]
        count, at = self._long(self._data, at)
        while count != 0:
            if count < 0:  # then the size of the items follows
                _, at = self._long(self._data, at)
            self._room -= abs(count)
            if self._room < 0:
                raise ValueError(f"a block with more than {MAX_ITEMS} items of arrays and maps")
            for _ in range(abs(count)):
                at = self.values(item, self._blob(at) if has_keys else at, 1)
            if at > self._size:
                raise ValueError(f"items go on beyond the block's {self._size} bytes")
            count, at = self._long(self._data, at)
        return at

    def _blob(self, at: int) -> int:
        length, start = self._long(self._data, at)
        if not 0 <= length <= self._size - start:
            raise ValueError(f"{length} bytes at byte {start} of {self._size}")
        return start + length
