"""Topics whose keys and values carry schema ids, for tests: one topic for each kind of schema, with schemas that use
others, and records in all of them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import fastavro

from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.schema_registry import RegistrySnapshot
from offsite.schemas.framing import FramedReader
from offsite.schemas.read_registry import read_registry
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.cluster import FakeCluster
from tests.schema_registry import SchemaRegistryServer

PRICE = {"type": "record", "name": "Price", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "sku", "type": "string"}, {"name": "price", "type": "shop.Price"}],
}
MONEY_PROTO = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
EVENT_PROTO = (
    'syntax = "proto3"; package shop; import "money.proto"; message Event { string text = 1; Money price = 2; }'
)
KINDS = ("avro", "json", "protobuf")
LOOKALIKES = (b"\0\0\0\0\1", b"\0\0\0\0\1plain text", b"\0" * 12, b"\0\0\0\0\2\x01")
"""Bytes that begin as a field with an id does, and are none: their schemas do not decode them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedIds:
    """The ids of the schemas at the registry of the source, by subject."""

    by_subject: Mapping[str, int]

    def key(self, kind: str, number: int) -> bytes:
        return framed(self.by_subject[f"{kind}-key"], payload(kind, number))

    def value(self, kind: str, number: int) -> bytes:
        return framed(self.by_subject[f"{kind}-value"], payload(kind, number))

    def record(self, kind: str, number: int, offset: int) -> Record:
        headers = (("trace", b"\0\0\0\0\1"), ("none", None))
        key, value = self.key(kind, number % 7), self.value(kind, number)
        return Record(offset, FIRST_TIME_MS + offset, 0, key, value, headers)


def framed(schema_id: int, content: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + content


def payload(kind: str, number: int) -> bytes:
    match kind:
        case "avro":
            whole = {**ORDER, "fields": [ORDER["fields"][0], {"name": "price", "type": PRICE}]}  # type: ignore[index]
            value = {"sku": f"s{number}", "price": {"cents": number}}
            fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(whole), value)  # type: ignore[arg-type]
            return out.getvalue()
        case "json":
            return json.dumps({"note": number}).encode()
        case _:
            text = f"e{number}".encode()
            return b"\0\x0a" + bytes([len(text)]) + text + b"\x12\x02\x08" + bytes([number % 128])


def register_kinds(server: SchemaRegistryServer) -> FramedIds:
    """Schemas for keys and values of one topic for each kind; the values' use another schema."""
    server.register("price", json.dumps(PRICE))
    server.register("money", MONEY_PROTO, schemaType="PROTOBUF")
    ids = {}
    for column in ("key", "value"):
        doc = {"doc": column}
        used = [{"name": "shop.Price", "subject": "price", "version": 1}]
        ids[f"avro-{column}"] = server.register(f"avro-{column}", json.dumps(ORDER | doc), references=used)
        title = json.dumps({"title": column, "type": "object"})
        ids[f"json-{column}"] = server.register(f"json-{column}", title, schemaType="JSON")
        used = [{"name": "money.proto", "subject": "money", "version": 1}]
        text = EVENT_PROTO if column == "value" else EVENT_PROTO.replace("Event", "EventKey")
        ids[f"protobuf-{column}"] = server.register(f"protobuf-{column}", text, schemaType="PROTOBUF", references=used)
    return FramedIds(by_subject=ids)


def write_records(
    cluster: FakeCluster, topic: str, records: Sequence[Record], *, partition: int = 0, codec: int = 0
) -> None:
    cluster.topics[topic].partitions[partition].put(bytes(encode(records, codec=codec)))


def take_ids(server: SchemaRegistryServer, count: int) -> None:
    """Other schemas have the first ids."""
    for number in range(count):
        server.register(f"taken{number}", json.dumps({"type": "record", "name": f"Taken{number}", "fields": []}))


def address_of(server: SchemaRegistryServer) -> RegistryAddress:
    return RegistryAddress(url=server.url)


def snapshot_of(server: SchemaRegistryServer) -> RegistrySnapshot:
    return read_registry(RegistryClient(address_of(server)))


def reader_of(server: SchemaRegistryServer) -> FramedReader:
    """A consumer that read this registry once."""
    snapshot = snapshot_of(server)
    return FramedReader(lambda: snapshot)


def meanings(reader: FramedReader, contents: Sequence[bytes | None]) -> list[object]:
    """What the contents mean to a consumer; bytes without a meaning as they are."""
    read_values = [None if content is None else reader.read(content) for content in contents]
    return [
        content if value is None else (value.kind, value.type, value.value)
        for content, value in zip(contents, read_values, strict=True)
    ]
