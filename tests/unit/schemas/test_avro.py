"""Avro of strangers is read, or shown as bytes: no schema and no payload ends the process, or fills its memory."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from offsite.schemas.avro import avro_type

LIST = {"type": "record", "name": "shop.List", "fields": [{"name": "next", "type": ["null", "List"]}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "parts", "type": {"type": "array", "items": "T"}}]}
MAP = {"type": "record", "name": "M", "fields": [{"name": "parts", "type": {"type": "map", "values": "M"}}]}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


def written(schema: Any, value: object) -> bytes:
    fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(schema), value)  # type: ignore[arg-type]
    return out.getvalue()


def read(schema: Any, data: bytes) -> tuple[object] | None:
    avro = avro_type([json.dumps(schema)])
    assert avro is not None
    return avro.read(b"....." + data, 5)


@pytest.mark.parametrize("levels", [5_000, 200_000])
@pytest.mark.parametrize(
    ("schema", "level"), [(LIST, b"\x02"), (TREE, b"\x02"), (MAP, b"\x02\x00")], ids=["list", "tree", "map"]
)
def test_a_payload_that_nests_without_end_is_shown_as_bytes(schema: Any, level: bytes, levels: int) -> None:
    assert read(schema, level * levels + b"\0" * (levels + 1)) is None


@pytest.mark.parametrize("schema", [LIST, TREE], ids=["list", "tree"])
def test_a_type_in_itself_is_read_as_far_as_people_nest(schema: Any) -> None:
    value: dict[str, object] = {"next": None} if schema is LIST else {"parts": []}
    for _ in range(50):
        value = {"next": value} if schema is LIST else {"parts": [value]}
    assert read(schema, written(schema, value)) == (value,)


def test_a_chain_of_schemas_that_use_the_next_is_not_followed_in_c() -> None:
    """Each level takes no byte of the payload."""
    texts = [json.dumps(EMPTY | {"name": "R0"})]
    for number in range(1, 5_000):
        fields = [{"name": "next", "type": f"R{number - 1}"}]
        texts.append(json.dumps({"type": "record", "name": f"R{number}", "fields": fields}))
    avro = avro_type(texts)
    assert avro is None or avro.read(b"", 0) is None


@pytest.mark.parametrize(
    "items",
    ["null", EMPTY, {"type": "fixed", "name": "F", "size": 0}, {"type": "null"}],
    ids=["null", "record", "fixed", "spelled out"],
)
@pytest.mark.parametrize("depth", [0, 3, 100])
def test_an_array_of_nothing_is_not_read(items: Any, depth: int) -> None:
    schema: Any = {"type": "array", "items": items}
    for number in range(depth):
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "x", "type": schema}]}
    assert avro_type([json.dumps(schema)]) is None


def test_a_schema_cannot_say_that_it_was_parsed() -> None:
    """Believed, it would be followed in C without end, and end the process."""
    marks = {"__fastavro_parsed": True, "__named_schemas": {"X": {"type": "X"}}}
    assert avro_type([json.dumps({**marks, "type": "X"})]) is None
    assert read({**marks, "type": "string"}, b"\x02a") == ("a",)


@pytest.mark.parametrize(
    ("schema", "plain", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", 1 << 60),
        ({"type": "string", "logicalType": "uuid"}, "string", "none"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "bytes", b"\x7f" * 100_000),
    ],
    ids=["time", "uuid", "decimal"],
)
def test_what_is_no_value_of_its_logical_type_is_shown_without(schema: Any, plain: Any, value: object) -> None:
    assert read(schema, written(plain, value)) == (value,)


@pytest.mark.parametrize("more", [{}, {"precision": 0}, {"precision": 2, "scale": 3}, {"precision": "4"}])
def test_an_invalid_logical_type_is_none(more: dict[str, object]) -> None:
    assert read({"type": "bytes", "logicalType": "decimal", **more}, b"\x02\x07") == (b"\x07",)


def test_an_array_of_nothing_by_a_name_is_not_read() -> None:
    user = {"type": "record", "name": "User", "fields": [{"name": "x", "type": {"type": "array", "items": "Empty"}}]}
    assert avro_type([json.dumps(EMPTY), json.dumps(user)]) is None


@pytest.mark.parametrize("items", [["null"], ["null", "int"], "string", LIST, {"type": "array", "items": "int"}])
def test_items_that_have_bytes_are_read(items: Any) -> None:
    assert read({"type": "array", "items": items}, b"\0") == ([],)


def test_a_schema_that_nests_deep_is_read() -> None:
    schema: Any = "int"
    value: object = 7
    for number in range(100):
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "x", "type": schema}]}
        value = {"x": value}
    assert read(schema, b"\x0e") == (value,)


def test_many_paths_to_one_type_are_looked_at_once() -> None:
    texts = [json.dumps(EMPTY | {"name": "R0"})]
    for number in range(1, 60):
        fields = [{"name": name, "type": f"R{number - 1}"} for name in ("a", "b")]
        texts.append(json.dumps({"type": "record", "name": f"R{number}", "fields": fields}))
    assert avro_type(texts) is not None


def test_null_is_a_value() -> None:
    assert read("null", b"") == (None,)
    assert read("null", b"\0") is None
