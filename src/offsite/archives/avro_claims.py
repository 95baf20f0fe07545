"""Bounds the claims of foreign Avro before fastavro reads the data; fastavro recurses and loops without limits.

A schema may nest, refer to itself, or double with every type; an array may have 2^40 items of zero bytes; two bytes may
become a dict. Therefore fastavro gets a copy of the schema. The copy, with all names expanded, is a tree of few types
whose items cost bytes. The items of a large block are counted before fastavro creates the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from offsite.log.buffer import Buffer
from offsite.log.records.record_body import PADDING, varint_reader
from offsite.model.units import MIB

__all__ = ["MAX_EMPTY_BLOCKS", "Claims", "compute_claims"]


MAX_ITEMS = 1_000_000
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}

_Object = dict[str, object]
MAX_DEPTH, MAX_TYPES = 32, 1_000
MAX_TYPES_PER_BYTE = 16
"""Types per minimum byte of a record or item: the steps that a byte may cost."""
MAX_BLOCK_RECORDS = 250_000
MAX_FIXED_BYTES = MIB
MAX_EMPTY_BLOCKS = 100_000
"""Per file: empty blocks hold nothing, but take time."""
_SMALL_BYTES = 2 * MIB
"""Items in blocks up to this size are not counted: even a dict for every two bytes needs some 300 MiB only."""
_LEAST_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


def check_items(schema: object, data: Buffer, records: int, named: Mapping[str, object]) -> None:
    """Count the items of arrays and maps in a block without creating the items.

    `schema` has little depth and refers to types in `named`; no type refers to itself. Raises `ValueError` for more
    than `MAX_ITEMS` items, and for bytes that do not hold the records. Format: Avro 1.11 specification, binary
    encoding.
    """
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
                raise ValueError(f"a value extends beyond the block's {self._size} bytes")
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
        element_schema = schema["values" if has_keys else "items"]
        count, at = self._long(self._data, at)
        while count != 0:
            if count < 0:  # then the size of the items follows
                _, at = self._long(self._data, at)
            self._room -= abs(count)
            if self._room < 0:
                raise ValueError(f"a block with more than {MAX_ITEMS} items of arrays and maps")
            for _ in range(abs(count)):
                at = self.values(element_schema, self._blob(at) if has_keys else at, 1)
            if at > self._size:
                raise ValueError(f"items extend beyond the block's {self._size} bytes")
            count, at = self._long(self._data, at)
        return at

    def _blob(self, at: int) -> int:
        length, start = self._long(self._data, at)
        if not 0 <= length <= self._size - start:
            raise ValueError(f"{length} bytes at byte {start} of {self._size}")
        return start + length


class Claims(NamedTuple):
    """The bounds of a schema's values. `schema`: the copy. `types`: types visited by a value at most, `height` of the
    types at once. `least_bytes`: minimum size of a value. `named`: named types referred to by the copy, known for a
    whole schema only."""

    schema: object
    types: int
    least_bytes: int
    height: int = 0
    named: Mapping[str, object] = {}

    def check_block(self, data: Buffer, records: int) -> None:
        """Check the size of the records in a block. Raises `ValueError` when the records might not fit into memory."""
        if records > MAX_BLOCK_RECORDS:
            raise ValueError(f"a block of {records} records, at most {MAX_BLOCK_RECORDS} are read")
        if len(data) > _SMALL_BYTES:
            check_items(self.schema, data, records, self.named)

    def of_many(self) -> Claims:
        if self.types > MAX_TYPES_PER_BYTE * self.least_bytes:
            raise ValueError(f"its schema has {self.types} types in a value of {self.least_bytes} bytes")
        return self


def compute_claims(schema: object) -> Claims:
    """Compute the claims of a schema parsed from JSON. Raises `ValueError` for a schema that might exhaust memory or
    stack, also for a type that refers to itself: Kafka records need no such type."""
    reader = _SchemaReader()
    claims = reader.claims(schema, _Place(0, ""))
    return claims._replace(named={name: named_claims.schema for name, named_claims in reader.named.items()})


class _Place(NamedTuple):
    """The depth of a type, and the surrounding namespace."""

    depth: int
    space: str

    @property
    def below(self) -> _Place:
        return self._replace(depth=self.depth + 1)

    def full_name(self, name: str) -> str:
        return name if "." in name or not self.space else f"{self.space}.{name}"

    def inside(self, schema: Mapping[str, object]) -> _Place:
        """Return the place of a record's fields."""
        name, space = schema.get("name"), schema.get("namespace", self.space)
        if isinstance(name, str) and "." in name:
            space = name.rpartition(".")[0]
        return _Place(self.depth, space if isinstance(space, str) else "")


class _SchemaReader:
    """Reads a schema. `named`: the complete types by full name; later types may refer to complete types."""

    def __init__(self) -> None:
        self.named: dict[str, Claims] = {}

    def claims(self, schema: object, place: _Place) -> Claims:
        if place.depth > MAX_DEPTH:
            raise ValueError(f"its schema nests deeper than {MAX_DEPTH}")
        if isinstance(schema, str):
            return Claims(schema, 1, _LEAST_BYTES[schema]) if schema in _LEAST_BYTES else self._referred(schema, place)
        if isinstance(schema, list):
            return _union([self.claims(branch, place.below) for branch in schema])
        if isinstance(schema, Mapping):
            return self._of_object(schema, place)
        raise ValueError("its schema contains an invalid type")

    def _referred(self, name: str, place: _Place) -> Claims:
        full_name = place.full_name(name)
        if (named_claims := self.named.get(full_name)) is None:
            raise ValueError(f"its schema refers to a type {name[:100]!r}")
        if place.depth + named_claims.height > MAX_DEPTH:
            raise ValueError(f"its schema nests deeper than {MAX_DEPTH}")
        return named_claims._replace(schema=full_name)

    def _of_object(self, schema: Mapping[str, object], place: _Place) -> Claims:
        kind = schema.get("type")
        if kind == "array":
            items = self.claims(schema.get("items"), place.below).of_many()
            return Claims({"type": "array", "items": items.schema}, 1 + items.types, 1, 1 + items.height)
        if kind == "map":
            values = self.claims(schema.get("values"), place.below)
            types = 1 + values._replace(least_bytes=1).of_many().types
            return Claims({"type": "map", "values": values.schema}, types, 1, 1 + values.height)
        if kind not in ("record", "error", "enum", "fixed"):
            return self.claims(kind, place.below)
        inside = place.inside(schema)
        claims = self._record(schema, inside) if kind in ("record", "error") else _leaf(schema)
        self._name(schema, claims, inside)
        return claims

    def _record(self, schema: Mapping[str, object], place: _Place) -> Claims:
        rows = schema.get("fields")
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError("its schema has a record without fields")
        fields = [self.claims(row.get("type"), place.below) for row in rows]
        types = 1 + sum(field.types for field in fields)
        if types > MAX_TYPES:
            raise ValueError(f"its schema has more than {MAX_TYPES} types")
        copies = [
            {**{name: row[name] for name in ("name", "aliases") if name in row}, "type": field.schema}
            for row, field in zip(rows, fields, strict=True)
        ]
        copy = {**_names_of(schema), "type": "record", "fields": copies}
        height = 1 + max((field.height for field in fields), default=0)
        return Claims(copy, types, sum(field.least_bytes for field in fields), height)

    def _name(self, schema: Mapping[str, object], claims: Claims, place: _Place) -> None:
        name = schema.get("name")
        if not isinstance(name, str):
            raise ValueError("its schema has a type without a name")  # noqa: TRY004
        full_name = place.full_name(name)
        if full_name in self.named:
            raise ValueError(f"its schema has two types {name[:100]!r}")
        self.named[full_name] = claims


def _names_of(schema: Mapping[str, object]) -> dict[str, object]:
    return {name: schema[name] for name in ("name", "namespace", "aliases") if name in schema}


def _leaf(schema: Mapping[str, object]) -> Claims:
    """Compute the claims of an enum or a fixed type."""
    if schema["type"] == "enum":
        return Claims({**_names_of(schema), "type": "enum", "symbols": schema.get("symbols")}, 1, 1)
    size = schema.get("size")
    if type(size) is not int or not 0 <= size <= MAX_FIXED_BYTES:
        raise ValueError("its schema has a fixed type of an impossible size")
    return Claims({**_names_of(schema), "type": "fixed", "size": size}, 1, size)


def _union(branches: list[Claims]) -> Claims:
    if not branches:
        raise ValueError("its schema has a union of nothing")
    least_bytes, types = (
        1 + min(branch.least_bytes for branch in branches),
        1 + max(branch.types for branch in branches),
    )
    return Claims(
        [branch.schema for branch in branches], types, least_bytes, 1 + max(branch.height for branch in branches)
    )
