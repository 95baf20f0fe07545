"""Schemas that others wrote: named types, and schemas that ask for more than a process gets."""

from __future__ import annotations

import io
import json
import os
import signal
from typing import Any

import fastavro
import pytest

from offsite.archives import decoding_process
from offsite.archives.avro.decoding import ForeignDecoding
from offsite.archives.avro.encoding import PLAIN_SCHEMA
from offsite.archives.avro.foreign import OtherSchema
from offsite.archives.decoding_process import DecodingEnded
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


def test_named_types_that_come_twice_are_read() -> None:
    extra = [{"name": name, "type": kind} for name, kind in NAMED]
    schema = {**PLAIN_SCHEMA, "namespace": "n", "fields": [*extra, *PLAIN_SCHEMA["fields"]]}
    block = written(schema, {**ROW, **VALUES})
    (first,) = ForeignDecoding(ORDERS, schema).decode(block, 1)
    assert (first.offset, first.key, first.value) == (7, b"k", b"v")
    assert ForeignDecoding(ORDERS, schema).decode(b"", 0) == []
    with pytest.raises(ValueError, match="exactly 0 records"):
        ForeignDecoding(ORDERS, schema).decode(b"x", 0)


def test_a_type_in_an_object_of_its_own_is_that_type() -> None:
    """Some tools write a union so, for example to say something about it."""
    wrapped = [{**row, "type": {"type": {"type": row["type"]}, "about": "it"}} for row in PLAIN_SCHEMA["fields"]]
    (first,) = ForeignDecoding(ORDERS, {**PLAIN_SCHEMA, "fields": wrapped}).decode(written(PLAIN_SCHEMA, ROW), 1)
    assert (first.offset, first.key, first.value) == (7, b"k", b"v")
    with pytest.raises(OtherSchema, match="no field 'topic'"):
        ForeignDecoding(ORDERS, {"type": PLAIN_SCHEMA, "fields": 5})


def test_so_are_those_of_trivadis() -> None:
    header = {"type": "fixed", "name": "Id", "size": 2}
    kinds = {"key": ["null", "bytes", header], "value": ["null", "bytes", "Id"]}
    fields = [{**row, "type": kinds.get(row["name"], row["type"])} for row in TRIVADIS_SCHEMA["fields"]]
    schema = {**TRIVADIS_SCHEMA, "fields": [{"name": row["name"], "type": row["type"]} for row in fields]}
    data = written(schema, {**ROW, "key": b"ab"})
    assert read_rows(parse_writer_schema(json.dumps(schema).encode())).decode(data, 1)[0].key == b"ab"


@pytest.mark.parametrize(
    "schema",
    [
        record(("a", "B"), ("b", record(name="B"))),
        record(("a", record(name="B", namespace="x")), ("b", "B")),
        record(("a", ENUM), ("b", ENUM)),
        record(("a", {"type": "fixed", "size": 1})),
        record(("a", {"type": "no such type"})),
        {"type": "record", "name": "A"},
    ],
)
def test_what_is_no_schema_is_refused(schema: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (the words are of fastavro)
        ForeignDecoding(ORDERS, schema)


def with_extra(kind: object) -> dict[str, Any]:
    return {**PLAIN_SCHEMA, "fields": [{"name": "extra", "type": kind}, *PLAIN_SCHEMA["fields"]]}


def test_a_type_in_itself_is_read_as_deep_as_a_process_survives() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    block = written(PLAIN_SCHEMA, ROW)
    assert len(ForeignDecoding(ORDERS, with_extra(node)).decode(b"\x02\x02\x00" + block, 1)) == 1
    with pytest.raises(ValueError, match=r"cannot be read|ends the process"):
        ForeignDecoding(ORDERS, with_extra(node)).decode(b"\x02" * 10_000_000 + b"\x00" + block, 1)


@pytest.mark.slow
def test_types_that_double_with_every_type_end_with_the_time_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_BASE_S", 1)
    decoding = ForeignDecoding(ORDERS, with_extra(nested(9, width=10)))
    with pytest.raises(DecodingEnded, match="too much time"):
        decoding.decode(written(PLAIN_SCHEMA, ROW), 1)


def test_items_of_nothing_end_with_the_memory_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 50 << 20)
    schema = {**TRIVADIS_SCHEMA, "fields": [dict(row) for row in TRIVADIS_SCHEMA["fields"]]}
    schema["fields"][0]["type"] = {"type": "array", "items": "null"}
    decoding = read_rows(parse_writer_schema(json.dumps(schema).encode()))
    with pytest.raises(ValueError, match="too much memory"):
        decoding.decode(b"\x80\x80\x80\x80\x80\x20\x00", 1)


def test_decodings_that_nobody_uses_leave_one_process_to_the_next() -> None:
    decodings = [ForeignDecoding(ORDERS, PLAIN_SCHEMA) for _ in range(3)]
    running = decoding_process._servers[-1]._running
    before = len(running)
    decodings.clear()
    assert len(running) == before - 2


def test_the_end_of_a_shared_process_is_no_damage_of_the_file_at_hand() -> None:
    schema = {**PLAIN_SCHEMA, "namespace": "n"}
    ForeignDecoding(ORDERS, schema).decode(written(schema, ROW), 1)
    decoding = ForeignDecoding(ORDERS, schema)

    def decoder() -> Any:
        return decoding._blocks._items.gi_frame.f_locals["decoder"]  # type: ignore[attr-defined]

    assert decoder().is_used
    os.kill(decoder().pid, signal.SIGSEGV)
    (first,) = decoding.decode(written(schema, ROW), 1)
    assert (first.offset, decoder().is_used) == (7, False)
    os.kill(decoder().pid, signal.SIGSEGV)
    with pytest.raises(DecodingEnded, match="SIGSEGV"):
        decoding.decode(written(schema, ROW), 1)
