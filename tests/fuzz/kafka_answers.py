"""Answers as a broker would give them, made from Kafka's own message schemas: offsite's decoder has no part in it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from kafka.protocol.schemas.load_json import load_json  # type: ignore[import-untyped]

_FIXED = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint16": ">H", "float64": ">d", "bitfield": ">i"}
ANSWERED_ID = bytes.fromhex("03c33196dcfd417682203770ec535f26")
_EVERY = 1 << 30

Values = Mapping[str, Any]


def answer(name: str, version: int, values: Values, *, items: int = 2) -> bytes:
    """The body of `name` (such as `MetadataResponse`). `values` by the name of a field, wherever it is; a list gives
    the items of an array their values one after the other. Fields that are not named get something legal."""
    schema = load_json(name)
    flexible = _holds(schema.get("flexibleVersions", "none"), version)
    shared = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    writer = _Writer(version=version, flexible=flexible, values=values, items=items, shared=shared)
    return writer.struct(schema["fields"], 0)


class _Writer:
    def __init__(self, *, version: int, flexible: bool, values: Values, items: int, shared: Mapping[str, Any]) -> None:
        self._version, self._flexible, self._values = version, flexible, values
        self._items, self._shared = items, shared

    def struct(self, fields: list[dict[str, Any]], nr: int) -> bytes:
        """`nr`: which item of its array it is."""
        known = [each for each in fields if _holds(each["versions"], self._version)]
        told = [each for each in known if not _holds(each.get("taggedVersions", "none"), self._version)]
        return b"".join(self._field(each, nr) for each in told) + (b"\0" if self._flexible else b"")

    def _field(self, field: dict[str, Any], nr: int) -> bytes:
        kind = str(field["type"])
        if kind.startswith("[]"):
            return self._array(field, kind.removeprefix("[]"))
        value = self._values.get(field["name"])
        if isinstance(value, list):
            value = value[nr % len(value)]
        if kind in _FIXED:
            return struct.pack(_FIXED[kind], _number(field, nr) if value is None else value)
        if kind == "bool":
            return bytes([bool(value)])
        if kind == "uuid":
            return ANSWERED_ID if value is None else value
        if kind in {"string", "bytes", "records"}:
            return self._bytes(value, f"{field['name']}-{nr}", is_text=kind == "string")
        return self.struct(field.get("fields") or self._shared[kind], nr)

    def _array(self, field: dict[str, Any], kind: str) -> bytes:
        items = self._values.get(f"{field['name']}[]", self._items)
        inner = {**field, "type": kind}
        return self._length(items, ">i") + b"".join(self._field(inner, nr) for nr in range(items))

    def _bytes(self, value: Any, default: str, *, is_text: bool) -> bytes:
        found = default if value is None else value
        data = found.encode() if isinstance(found, str) else found
        return self._length(len(data), ">h" if is_text else ">i") + data

    def _length(self, length: int, plain: str) -> bytes:
        return _uvarint(length + 1) if self._flexible else struct.pack(plain, length)


def _number(field: dict[str, Any], nr: int) -> int:
    name = field["name"]
    if "ErrorCode" in name:
        return 0
    return nr if name in {"PartitionIndex", "Partition", "NodeId"} else 1


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _holds(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    first, _, last = versions.rstrip("+").partition("-")
    highest = int(last) if last else _EVERY if versions.endswith("+") else int(first)
    return int(first) <= version <= highest
