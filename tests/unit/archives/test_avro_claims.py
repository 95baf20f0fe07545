"""Schemas that others wrote: what may be referred to by name, and what may not."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from offsite.archives import avro_claims
from offsite.archives.avro.decoding import ForeignDecoding
from offsite.archives.avro.encoding import PLAIN_SCHEMA
from offsite.archives.avro_claims import compute_claims
from offsite.archives.trivadis.row import parse_writer_schema, read_rows
from offsite.log.range import TopicPartition
from tests.unit.archives.trivadis.made_archives import SCHEMA as TRIVADIS_SCHEMA

ENUM = {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}
FIXED = {"type": "fixed", "name": "x.Id", "size": 4}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "color", "type": "Color"}]}
NAMED = [("one", ENUM), ("two", "Color"), ("three", FIXED), ("four", ["null", "x.Id"]), ("five", PLACE)]
NAMED += [("six", {"type": "array", "items": "Place"}), ("seven", {"type": "map", "values": "n.Place"})]
VALUES = {"one": "RED", "two": "BLUE", "three": b"1234", "four": b"5678", "five": {"color": "BLUE"}}
VALUES |= {"six": [{"color": "RED"}, {"color": "BLUE"}], "seven": {"a": {"color": "RED"}}}
ORDERS = TopicPartition(topic="orders", partition=0)
ROW = {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1, "key": b"k", "value": b"v", "headers": {}}


def nested(levels: int, *, width: int) -> dict[str, object]:
    """Each record has the one before it so many times: every level multiplies what one value comes to."""
    fields: list[dict[str, object]] = [{"name": "n", "type": {"type": "record", "name": "R0", "fields": []}}]
    for level in range(1, levels):
        rows = [{"name": f"f{nr}", "type": f"R{level - 1}"} for nr in range(width)]
        fields.append({"name": f"r{level}", "type": {"type": "record", "name": f"R{level}", "fields": rows}})
    return {"type": "record", "name": "All", "fields": fields}


def record(*fields: tuple[str, object], **more: object) -> dict[str, Any]:
    return {"type": "record", "name": "A", "fields": [{"name": name, "type": kind} for name, kind in fields], **more}


def written(schema: object, row: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("counts", [False, True])
def test_named_types_that_come_twice_are_read(monkeypatch: pytest.MonkeyPatch, counts: bool) -> None:
    if counts:
        monkeypatch.setattr(avro_claims, "_SMALL_BYTES", 0)
    extra = [{"name": name, "type": kind} for name, kind in NAMED]
    schema = {**PLAIN_SCHEMA, "namespace": "n", "fields": [*extra, *PLAIN_SCHEMA["fields"]]}
    block = written(schema, {**ROW, **VALUES})
    (found,) = ForeignDecoding(ORDERS, schema).decode(block, 1)
    assert (found.offset, found.key, found.value) == (7, b"k", b"v")
    assert ForeignDecoding(ORDERS, schema).decode(b"", 0) == []
    with pytest.raises(ValueError, match="exactly 0 records"):
        ForeignDecoding(ORDERS, schema).decode(b"x", 0)


def test_so_are_those_of_trivadis() -> None:
    import json

    header = {"type": "fixed", "name": "Id", "size": 2}
    kinds = {"key": ["null", "bytes", header], "value": ["null", "bytes", "Id"]}
    fields = [{**row, "type": kinds.get(row["name"], row["type"])} for row in TRIVADIS_SCHEMA["fields"]]
    schema = {**TRIVADIS_SCHEMA, "fields": [{"name": row["name"], "type": row["type"]} for row in fields]}
    data = written(schema, {**ROW, "key": b"ab"})
    assert read_rows(data, parse_writer_schema(json.dumps(schema).encode()), 1)[0].key == b"ab"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (record(("a", "A")), "refers to a type 'A'"),
        (record(("a", ["null", "n.A"]), namespace="n"), "refers to a type 'n.A'"),
        (record(("a", "B"), ("b", record(name="B"))), "refers to a type 'B'"),
        (record(("a", record(name="B", namespace="x")), ("b", "B")), "refers to a type 'B'"),
        (record(("a", ENUM), ("b", ENUM)), "two types 'Color'"),
        (record(("a", {"type": "fixed", "size": 1})), "without a name"),
        (nested(6, width=10), "more than 1000 types"),
        (nested(40, width=1), "deeper than 32"),
        (nested(400, width=1), "deeper than 32"),
    ],
)
def test_what_might_not_be_survived_is_refused(schema: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compute_claims(schema)


def test_a_few_levels_are_fine() -> None:
    assert compute_claims(nested(4, width=5)).types > 150
