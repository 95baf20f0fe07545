"""Cat and search over a real repository in a folder, without Spark."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest

from offsite.log.range import PartitionId
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import BadOption, NoSuchTopic
from offsite.model.schema_registry import RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.model.selection import parse_selection
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.snapshots.registry_snapshot import put_registry_snapshot
from offsite.restore.request import RestoreRequest
from offsite.schemas.framing import FramedReader, SchemaName
from offsite.schemas.shown_bytes import ShownBytes
from offsite.stores.open_store import open_store
from offsite.table.scan import MatchingRecord, RecordMatch
from offsite.table.search import (
    RecordsPlan,
    RecordsRequest,
    cat_records,
    plan_records,
    raw_values,
    search_records,
)
from offsite.table.shown_record import ShownRecord, show_record
from offsite.table.value_condition import parse_condition
from tests.batches import FIRST_TIME_MS
from tests.inline_runner import InlineRunner
from tests.tables import ORDERS, ORDERS_1, USERS, batch_of, commit_batches, new_table

SCHEMAS = PartitionId(topic="_schemas", topic_id="id-schemas", partition=0)
ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": "Item"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "seal", "type": "bytes"},
    ],
}


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_table(open_store(str(tmp_path / "repository")))


def plan(backup: Backup, topics: str = "orders", **request: object) -> RecordsPlan:
    point = RestoreRequest(selection=parse_selection([topics]))
    return plan_records(backup, RecordsRequest(point=point, **request))  # type: ignore[arg-type]


def shown(backup: Backup, topics: str = "orders", **request: object) -> list[ShownRecord]:
    return list(cat_records(plan(backup, topics, **request)))


def search(backup: Backup, topics: str = "*", *, limit: int | None = None, **match: object) -> list[tuple[str, int]]:
    matching = plan(backup, topics, match=RecordMatch(**match), limit=limit)  # type: ignore[arg-type]
    return [(each.topic, each.offset) for each in search_records(matching, InlineRunner()).records]


def value_of(backup: Backup, value: bytes | None) -> ShownBytes | None:
    commit_batches(backup, {ORDERS: [bytes(encode([Record(0, 5, 0, None, value)]))]})
    (record,) = shown(backup)
    return record.value


def test_records_come_partition_by_partition_in_the_order_of_offsets(backup: Backup) -> None:
    for base in (0, 10):
        commit_batches(backup, {p: [batch_of(base, 10)] for p in (ORDERS, ORDERS_1)})
    assert [(each.partition, each.offset) for each in shown(backup)] == [(p, n) for p in (0, 1) for n in range(20)]


def test_from_and_to_are_offsets_or_times(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 10), batch_of(10, 10)]})
    assert [each.offset for each in shown(backup, start="8", end="12")] == [8, 9, 10, 11]
    times = {"start": f"@{FIRST_TIME_MS + 8}", "end": f"@{FIRST_TIME_MS + 12}"}
    assert [each.offset for each in shown(backup, **times)] == [8, 9, 10, 11]
    assert [each.offset for each in shown(backup, start="8", limit=2)] == [8, 9]


def test_what_is_no_time_is_refused(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 1)]})
    with pytest.raises(BadOption):
        plan(backup, start="yesterday")


def test_a_topic_that_is_not_there_is_refused(backup: Backup) -> None:
    commit_batches(backup, {ORDERS: [batch_of(0, 1)]})
    with pytest.raises(NoSuchTopic):
        plan(backup, "nope")


def test_raw_values_are_the_bytes_of_the_records_that_have_any(backup: Backup) -> None:
    records = [Record(n, 5, 0, b"k", value) for n, value in enumerate([b"\x00\x01", None, b""])]
    commit_batches(backup, {ORDERS: [bytes(encode(records))]})
    assert list(raw_values(plan(backup))) == [b"\x00\x01", b""]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", ShownBytes(encoding="text", data="")),
        (b"caf\xc3\xa9", ShownBytes(encoding="text", data="café")),
        (b"7", ShownBytes(encoding="text", data="7")),
        (b'{"a": [1]}', ShownBytes(encoding="json", data={"a": [1]})),
        (b'{"a": NaN}', ShownBytes(encoding="text", data='{"a": NaN}')),
        (b"{torn", ShownBytes(encoding="text", data="{torn")),
        (b"[" * 100_000, ShownBytes(encoding="text", data="[" * 100_000)),
        (b"\xff\x00", ShownBytes(encoding="base64", data="/wA=")),
        (b"\x00\x00\x00\x00\x05abc", ShownBytes(encoding="base64", data="AAAAAAVhYmM=", schema_id=5)),
    ],
)
def test_bytes_are_shown_as_what_they_are(backup: Backup, value: bytes | None, expected: ShownBytes | None) -> None:
    assert value_of(backup, value) == expected


def register(backup: Backup, *schemas: dict) -> None:
    records = [
        Record(number, 5, 0, _json(keytype="SCHEMA", subject=each["subject"], version=1, magic=1), _json(**each))
        for number, each in enumerate(schemas)
    ]
    records.append(Record(len(records), 5, 0, _json(keytype="NOOP", magic=0), None))
    commit_batches(backup, {SCHEMAS: [bytes(encode(records))]}, holds_schemas=True)


def _json(**item: object) -> bytes:
    return json.dumps(item).encode()


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


PROTO = (
    'syntax = "proto3"; package shop; message A {} message B { string text = 1; Kind kind = 2; }'
    "enum Kind { BAD = 0; GOOD = 1; }"
)


def order_payload() -> bytes:
    out, named = io.BytesIO(), {}
    fastavro.parse_schema(ITEM, named_schemas=named)
    schema = fastavro.parse_schema(ORDER, named_schemas=named)
    fastavro.schemaless_writer(out, schema, {"id": 7, "items": [{"sku": "x"}], "day": 1, "seal": b"\xff"})
    return out.getvalue()


@pytest.fixture
def registry(backup: Backup) -> Backup:
    register(
        backup,
        {"subject": "item", "version": 1, "id": 1, "schema": json.dumps(ITEM)},
        {
            "subject": "order",
            "version": 1,
            "id": 2,
            "schema": json.dumps(ORDER),
            "references": [{"name": "shop.Item", "subject": "item", "version": 1}],
        },
        {"subject": "j", "version": 1, "id": 3, "schemaType": "JSON", "schema": "{}"},
        {"subject": "p", "version": 1, "id": 4, "schemaType": "PROTOBUF", "schema": "message A {}"},
        {"subject": "a", "version": 9, "id": 6, "schemaType": "PROTOBUF", "schema": PROTO},
        {"subject": "orders-value", "version": 3, "id": 6, "schemaType": "PROTOBUF", "schema": PROTO},
        {"subject": "bad", "version": 1, "id": 5, "schema": "{not avro"},
    )
    return backup


def test_avro_is_decoded_by_the_backed_up_schema_and_what_it_refers_to(registry: Backup) -> None:
    assert value_of(registry, framed(2, order_payload())) == ShownBytes(
        encoding="avro",
        schema_id=2,
        data={"id": 7, "items": [{"sku": "x"}], "day": "1970-01-02", "seal": "/w=="},
        schema=SchemaName(subject="order", version=1, name="shop.Order"),
    )


def test_protobuf_is_decoded_by_the_backed_up_source(registry: Backup) -> None:
    assert value_of(registry, framed(6, b"\x02\x02" + b"\x0a\x02hi\x10\x01")) == ShownBytes(
        encoding="protobuf",
        schema_id=6,
        data={"text": "hi", "kind": "GOOD"},
        schema=SchemaName(subject="orders-value", version=3, name="shop.B"),
    )


def test_what_a_registry_told_over_rest_decodes_as_well(registry: Backup) -> None:
    schema = StoredSchema(id=70, kind="AVRO", text='"string"')
    snapshot = RegistrySnapshot(schemas=(schema,), versions=(SubjectVersion(subject="x", version=4, id=70),))
    base = registry.state()
    ref = put_registry_snapshot(registry.store, registry.layout, base.seq + 1, snapshot, recorded=None)
    registry.commit(CommitChanges(registry=ref), base=base, writer="w")
    assert value_of(registry, framed(70, b"\x04hi")) == ShownBytes(
        encoding="avro", schema_id=70, data="hi", schema=SchemaName(subject="x", version=4, name="")
    )


def test_framed_json_is_decoded(registry: Backup) -> None:
    assert value_of(registry, framed(3, b'{"a": 1}')) == ShownBytes(
        encoding="json-schema", schema_id=3, data={"a": 1}, schema=SchemaName(subject="j", version=1, name="")
    )


@pytest.mark.parametrize(
    ("schema_id", "payload"),
    [
        (4, b"\x08\x01"),
        (2, b"\x0e"),
        (2, order_payload() + b"more"),
        (3, b"{"),
        (5, b"\x02"),
        (99, b"\x02"),
    ],
)
def test_what_cannot_be_decoded_is_shown_as_bytes_with_its_schema_id(
    registry: Backup, schema_id: int, payload: bytes
) -> None:
    found = value_of(registry, framed(schema_id, payload))
    assert found is not None
    assert (found.encoding, found.schema_id) == ("base64", schema_id)


def test_a_search_finds_by_key_value_and_header_what_has_all_of_them(backup: Backup) -> None:
    headers = (("trace", b"1"), ("trace", b"2"), ("empty", None))
    commit_batches(
        backup,
        {
            ORDERS: [bytes(encode([Record(0, 5, 0, b"a", b"hay needle hay"), Record(1, 5, 0, b"ab", b"a", headers)]))],
            USERS: [bytes(encode([Record(0, 5, 0, b"a", None), Record(1, 5, 0, None, b"x", headers)], codec=4))],
        },
    )
    assert search(backup, key=b"a") == [("orders", 0), ("users", 0)]
    assert search(backup, value_holds=b"needle") == [("orders", 0)]
    assert search(backup, headers=(("trace", None),)) == [("orders", 1), ("users", 1)]
    assert search(backup, headers=(("trace", b"2"), ("empty", None)), key=b"ab") == [("orders", 1)]
    assert search(backup, headers=(("trace", b"3"),)) == []
    assert search(backup, key=b"a", limit=1) == [("orders", 0)]


def test_a_search_with_a_limit_gives_the_first_in_order(backup: Backup) -> None:
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    assert search(backup, value_holds=b"val", limit=12) == [("orders", n) for n in range(12)]


def test_a_search_looks_into_values_decoded_by_the_schemas_of_the_backup(registry: Backup) -> None:
    values = [
        framed(2, order_payload()),
        framed(6, b"\x02\x02" + b"\x0a\x02hi\x10\x01"),
        framed(3, b'{"id": 7}'),
        b'{"id": 7, "items": [{"sku": "y"}]}',
        b"id=7",
        None,
        framed(99, b"{}"),
    ]
    commit_batches(
        registry, {ORDERS: [bytes(encode([Record(offset, 5, 0, b"k", value) for offset, value in enumerate(values)]))]}
    )
    for condition, offsets in {
        "/id=7": [0, 2, 3],
        "/items/0/sku=x": [0],
        "/day>=1970-01-02": [0],
        "/kind=GOOD": [1],
        "/text": [1],
        "/id>7": [],
    }.items():
        assert search(registry, "orders", where=(parse_condition(condition),)) == [("orders", n) for n in offsets]
    assert search(registry, "orders", where=(parse_condition("/id=7"),), value_holds=b"sku") == [("orders", 3)]


@pytest.mark.parametrize(("limit", "complete"), [(None, True), (30, True), (29, False), (1, False)])
def test_a_search_that_stopped_at_its_limit_never_claims_to_be_whole(
    backup: Backup, limit: int | None, *, complete: bool
) -> None:
    """Also where exactly as many match as were asked for, and where the limit is reached in the last segment."""
    for base in (0, 10, 20):
        commit_batches(backup, {ORDERS: [batch_of(base, 10)]})
    result = search_records(plan(backup, match=RecordMatch(value_holds=b"val"), limit=limit), InlineRunner())
    assert result.complete is complete
    assert len(result.records) == min(limit or 30, 30)
    assert 0 < result.searched_bytes <= result.total_bytes
    if complete:
        assert result.searched_bytes == result.total_bytes


@pytest.mark.parametrize(("depth", "encoding"), [(100, "json"), (101, "text"), (700, "text")])
def test_json_that_nests_too_deep_to_be_printed_is_shown_as_text(backup: Backup, depth: int, encoding: str) -> None:
    found = value_of(backup, b"[" * depth + b"]" * depth)
    assert found is not None
    assert found.encoding == encoding


def test_json_that_would_not_fit_into_memory_is_shown_as_text() -> None:
    wide = b"[" + b"0," * (9 << 20) + b"0]"
    found = MatchingRecord(partition=ORDERS, record=Record(0, 5, 0, None, wide))
    value = show_record(found, FramedReader(RegistrySnapshot)).value
    assert value is not None
    assert value.encoding == "text"


def test_framed_json_that_nests_too_deep_is_shown_as_bytes(registry: Backup) -> None:
    found = value_of(registry, framed(9, b"[" * 100_000))
    assert found is not None
    assert found.encoding == "base64"
