"""Ids of another registry are written where subject and schema prove an id, and nowhere else."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import fastavro
import pytest

from offsite.log.batch import scan, verify_crc
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import Record
from offsite.log.rewrite import change_beginnings
from offsite.model.schema_registry import RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.schemas.id_rewrite import NO_FIT, NO_SUBJECT, NOT_MAPPED, UNKNOWN, TopicIds

ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
PROTO = 'syntax = "proto3"; package shop; message Event { string text = 1; int32 n = 2; }'
SCHEMAS = (
    StoredSchema(id=1, kind="AVRO", text=json.dumps(ITEM)),
    StoredSchema(id=2, kind="JSON", text='{"title": "Note", "type": "object"}'),
    StoredSchema(id=3, kind="PROTOBUF", text=PROTO),
    StoredSchema(id=4, kind="AVRO", text='"string"'),
)
VERSIONS = tuple(
    SubjectVersion(subject=subject, version=number, id=schema_id)
    for number, (subject, schema_id) in enumerate(
        [
            ("orders-value", 1),
            ("orders-key", 4),
            ("notes-value", 2),
            ("Note", 2),
            ("events-shop.Event", 3),
            ("shop.Event", 3),
            (":.west:orders-value", 2),
        ],
        start=1,
    )
)
SNAPSHOT = RegistrySnapshot(schemas=SCHEMAS, versions=VERSIONS)
IDS = {1: 1001, 2: 1002, 3: 3, 4: 1004}


def avro(schema: object, value: object) -> bytes:
    fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(schema), value)  # type: ignore[arg-type]
    return out.getvalue()


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


ORDER = framed(1, avro(ITEM, {"sku": "a"}))
NOTE = framed(2, b'{"a": 1}')
EVENT = framed(3, b"\x00\x0a\x02hi\x10\x05")
KEY = framed(4, avro("string", "k"))


@pytest.mark.parametrize(
    ("topic", "content", "is_key", "new_id"),
    [
        ("orders", ORDER, False, 1001),
        ("orders", KEY, True, 1004),
        ("notes", NOTE, False, 1002),
        ("anything", NOTE, False, 1002),
        ("anything", NOTE, True, 1002),
    ],
    ids=["topic", "topic and key", "topic of JSON", "type", "type of a key"],
)
def test_an_id_under_a_subject_of_the_topic_is_rewritten(topic: str, content: bytes, is_key: bool, new_id: int) -> None:
    ids = TopicIds(SNAPSHOT, topic, IDS)
    assert ids(0, content, is_key) == framed(new_id, b"")
    assert (ids.counts.rewritten, dict(ids.counts.left)) == (1, {})


@pytest.mark.parametrize("topic", ["events", "other"], ids=["topic and type", "type"])
def test_an_id_that_means_the_same_is_counted_and_stays(topic: str) -> None:
    ids = TopicIds(SNAPSHOT, topic, IDS)
    assert ids(0, EVENT, False) is None
    assert ids.counts.rewritten == 1


@pytest.mark.parametrize(
    ("topic", "content", "is_key", "reason"),
    [
        ("users", ORDER, False, NO_SUBJECT),
        ("orders", ORDER, True, NO_SUBJECT),
        ("orders", KEY, False, NO_SUBJECT),
        ("orders", ORDER + b"\0", False, NO_FIT),
        ("orders", ORDER[:-1], False, NO_FIT),
        ("notes", framed(2, b"{"), False, NO_FIT),
        ("events", framed(3, b"\x02\x02"), False, NO_FIT),
        ("events", EVENT + b"\xa0\x06\x01", False, NO_FIT),
    ],
)
def test_what_only_looks_like_an_id_stays_and_is_counted(topic: str, content: bytes, is_key: bool, reason: str) -> None:
    ids = TopicIds(SNAPSHOT, topic, IDS)
    assert ids(0, content, is_key) is None
    assert (ids.counts.rewritten, dict(ids.counts.left)) == (0, {reason: 1})


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\0\0\0\0\1", b"\1\0\0\0\1a", framed(0, b"a"), framed(99, b""), b"text"]
)
def test_other_bytes_are_none_of_a_registry(content: bytes) -> None:
    ids = TopicIds(SNAPSHOT, "orders", IDS)
    assert ids(0, content, False) is None
    assert (ids.counts.rewritten, dict(ids.counts.left)) == (0, {})


def test_an_id_that_the_backup_lacks_is_counted_where_values_have_ids() -> None:
    """Registered after the last reading of the registry: at the target, the id may mean anything."""
    unknown = framed(99, b"a")
    orders = TopicIds(SNAPSHOT, "orders", IDS)
    assert orders(7, unknown, False) is None
    assert (orders.counts.left, orders.counts.first) == ({UNKNOWN: 1}, {UNKNOWN: 7})
    by_type, plain = (TopicIds(SNAPSHOT, topic, IDS) for topic in ("anything", "plain"))
    by_type(0, NOTE, False)
    for ids, left in ((by_type, {UNKNOWN: 1}), (plain, {})):
        assert (ids(1, unknown, False), ids(1, unknown, True)) == (None, None)
        assert dict(ids.counts.left) == left


TREE = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def ids_of(kind: str, schema: object) -> TopicIds:
    snapshot = RegistrySnapshot(
        schemas=(StoredSchema(id=1, kind=kind, text=json.dumps(schema)),),
        versions=(SubjectVersion(subject="t-value", version=1, id=1),),
    )
    return TopicIds(snapshot, "t", {1: 1001})


def at_depth(depth: int, content: bytes, ids: TopicIds) -> bytes | None:
    return at_depth(depth - 1, content, ids) if depth else ids(0, content, False)


@pytest.mark.parametrize(
    ("kind", "schema", "level", "end", "longest"),
    [("JSON", {}, b"[", b"]", 1_000), ("AVRO", TREE, b"\x02", b"\0", 300)],
    ids=["JSON", "Avro"],
)
def test_an_id_does_not_depend_on_the_stack_of_its_reader(
    kind: str, schema: object, level: bytes, end: bytes, longest: int
) -> None:
    """Writer and proof call from different places."""
    for levels in (0, 100, *range(110, longest, 10)):
        content = framed(1, level * levels + (end if kind == "AVRO" else end * levels or b"0"))
        changed = [at_depth(depth, content, ids_of(kind, schema)) for depth in (0, 60, 120)]
        assert len(set(changed)) == 1
        assert levels > 100 or changed[0] is not None


def test_a_number_that_python_takes_for_no_time_is_a_number() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    content = framed(1, avro("long", 253_402_300_800_000))  # the year 10000
    assert ids_of("AVRO", schema)(0, content, False) == framed(1001, b"")


def test_a_decimal_of_a_megabyte_costs_no_more_than_its_bytes() -> None:
    """To become a decimal takes an hour."""
    content = framed(1, avro("bytes", b"\x7f" * 1_000_000))
    assert ids_of("AVRO", DECIMAL)(0, content, False) == framed(1001, b"")


def test_a_schema_that_the_target_lacks_is_counted() -> None:
    ids = TopicIds(SNAPSHOT, "orders", {})
    assert ids(0, ORDER, False) is None
    assert dict(ids.counts.left) == {NOT_MAPPED: 1}


def batch_of(records: Sequence[Record], codec: int) -> bytes:
    return bytes(encode(records, codec=codec, producer_id=7, producer_epoch=2, base_sequence=5, is_transactional=True))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_keeps_all_but_the_ids(codec: int) -> None:
    headers = (("h", b"\0\0\0\0\1"), ("h", None))
    records = [
        Record(10, 5_000, 0, KEY, ORDER, headers),
        Record(12, 4_000, 0, None, ORDER),
        Record(13, -1, 0, b"", None),
        Record(17, 6_000, 0, KEY, b"\0\0\0\0\1 plain"),
        Record(18, 6_000, 0, KEY * 40, b"x" * 300),
    ]
    batch = batch_of(records, codec)
    (header,) = scan(batch)
    ids = TopicIds(SNAPSHOT, "orders", IDS)
    changed, count = change_beginnings(batch, header, ids)
    new = bytes(changed)
    (new_header,) = scan(new)
    verify_crc(new, [new_header])
    order, key = framed(1001, ORDER[5:]), framed(1004, KEY[5:])
    expected = [record._replace(key=key if record.key == KEY else record.key) for record in records]
    expected[:2] = [record._replace(value=order) for record in expected[:2]]
    assert decode(new, new_header) == expected
    assert count == ids.counts.rewritten == 4
    assert dict(ids.counts.left) == {NO_FIT: 2}
    same = ("base_offset", "attributes", "base_timestamp_ms", "max_timestamp_ms", "producer_id", "base_sequence")
    assert [getattr(new_header, name) for name in same] == [getattr(header, name) for name in same]
    if codec == 0:
        assert len(new) == len(batch)


def test_a_batch_without_an_id_is_the_same_batch() -> None:
    batch = batch_of([Record(0, 5, 0, b"k", b"v"), Record(1, 5, 0, None, None)], 4)
    assert change_beginnings(batch, scan(batch)[0], TopicIds(SNAPSHOT, "orders", IDS)) == (batch, 0)


@pytest.mark.parametrize("text", ['{"type": "record", "name": "Ping", "fields": []}', '"null"'])
def test_a_value_without_bytes_has_an_id_all_the_same(text: str) -> None:
    """Confluent's serializer frames a record without fields as a prefix alone."""
    schema = StoredSchema(id=9, kind="AVRO", text=text)
    snapshot = RegistrySnapshot(schemas=(schema,), versions=(SubjectVersion(subject="pings-value", version=1, id=9),))
    ids = TopicIds(snapshot, "pings", {9: 1009})
    assert ids(0, framed(9, b""), False) == framed(1009, b"")
    assert ids.counts.rewritten == 1
    other = TopicIds(snapshot, "others", {9: 1009})
    assert other(0, framed(9, b""), False) is None
    assert dict(other.counts.left) == {NO_SUBJECT: 1}
