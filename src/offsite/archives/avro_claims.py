"""What Avro that somebody else wrote may claim, before fastavro reads it, which recurses and loops without limits.

A schema may nest, refer to itself, or double with every type; an array may have 2^40 items of no bytes; and two bytes
may become a dict. So fastavro gets a copy of the schema that is a tree of few types, whose items cost bytes; and what
the items of a large block come to is counted before they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from offsite.archives.avro_items import check_items
from offsite.log.buffer import Buffer
from offsite.model.size import MIB

__all__ = ["Claims", "claims_of"]

MAX_DEPTH, MAX_TYPES = 32, 1_000
MAX_TYPES_PER_BYTE = 16
"""Of a record or item, by the fewest bytes that it can have: so many steps a byte may cost."""
MAX_BLOCK_RECORDS = 250_000
MAX_FIXED_BYTES = MIB
_SMALL_BYTES = 2 * MIB
"""In blocks up to this size nothing is counted: even a dict for every two bytes comes to some 300 MiB."""
_LEAST_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_KEPT = ("name", "namespace", "aliases")


class Claims(NamedTuple):
    """`schema` is the copy. `types`: what one value goes through at most; `least_bytes`: what it has at least."""

    schema: object
    types: int
    least_bytes: int

    def check_block(self, data: Buffer, records: int) -> None:
        """Raises `ValueError` for a block whose records might not fit into memory."""
        if records > MAX_BLOCK_RECORDS:
            raise ValueError(f"a block of {records} records, at most {MAX_BLOCK_RECORDS} are read")
        if len(data) > _SMALL_BYTES:
            check_items(self.schema, data, records)

    def of_many(self) -> Claims:
        if self.types > MAX_TYPES_PER_BYTE * self.least_bytes:
            raise ValueError(f"its schema has {self.types} types in a value of {self.least_bytes} bytes")
        return self


def claims_of(schema: object, depth: int = 0) -> Claims:
    """Of a schema as parsed from JSON. Raises `ValueError` for one that might not be survived. Types that are referred
    to by name are not read: nobody who writes such records needs them."""
    if depth > MAX_DEPTH:
        raise ValueError(f"its schema nests deeper than {MAX_DEPTH}")
    if isinstance(schema, str):
        if schema not in _LEAST_BYTES:
            raise ValueError(f"its schema refers to a type {schema[:100]!r}")
        return Claims(schema, 1, _LEAST_BYTES[schema])
    if isinstance(schema, list):
        return _union([claims_of(each, depth + 1) for each in schema])
    if isinstance(schema, Mapping):
        return _of_object(schema, depth)
    raise ValueError("its schema holds what is no type")


def _of_object(schema: Mapping[str, object], depth: int) -> Claims:
    kind = schema.get("type")
    named = {name: schema[name] for name in _KEPT if name in schema}
    if kind in ("record", "error"):
        return _record(schema, {**named, "type": "record"}, depth)
    if kind == "array":
        items = claims_of(schema.get("items"), depth + 1).of_many()
        return Claims({"type": "array", "items": items.schema}, 1 + items.types, 1)
    if kind == "map":
        values = claims_of(schema.get("values"), depth + 1)
        return Claims({"type": "map", "values": values.schema}, 1 + values._replace(least_bytes=1).of_many().types, 1)
    if kind == "enum":
        return Claims({**named, "type": "enum", "symbols": schema.get("symbols")}, 1, 1)
    if kind == "fixed":
        size = schema.get("size")
        if type(size) is not int or not 0 <= size <= MAX_FIXED_BYTES:
            raise ValueError("its schema has a fixed type of a size that cannot be")
        return Claims({**named, "type": "fixed", "size": size}, 1, size)
    return claims_of(kind, depth + 1)


def _union(branches: list[Claims]) -> Claims:
    if not branches:
        raise ValueError("its schema has a union of nothing")
    least_bytes = 1 + min(each.least_bytes for each in branches)
    return Claims([each.schema for each in branches], 1 + max(each.types for each in branches), least_bytes)


def _record(schema: Mapping[str, object], copy: dict[str, object], depth: int) -> Claims:
    rows = schema.get("fields")
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("its schema has a record without fields")
    fields = [claims_of(row.get("type"), depth + 1) for row in rows]
    types = 1 + sum(each.types for each in fields)
    if types > MAX_TYPES:
        raise ValueError(f"its schema has more than {MAX_TYPES} types")
    copy["fields"] = [
        {**{name: row[name] for name in ("name", "aliases") if name in row}, "type": each.schema}
        for row, each in zip(rows, fields, strict=True)
    ]
    return Claims(copy, types, sum(each.least_bytes for each in fields))
