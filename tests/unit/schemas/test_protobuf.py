"""A payload of Protobuf becomes the value that was written, by the sources in a registry alone."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.model.schema_registry import RegistrySnapshot, SchemaReference, StoredSchema, SubjectVersion
from offsite.schemas.protobuf import ProtobufTypes, protobuf_types

MONEY = 'syntax = "proto3"; package shop; message Money { string currency = 1; int64 units = 2; }'
ORDER = """
syntax = "proto3"; package shop.v1;
import "money.proto"; import "google/protobuf/timestamp.proto"; import "buf/validate/validate.proto";
message Note { map<string, string> m = 1; message Inner { sint32 x = 1; message Deep { bool y = 1; } } }
message Order {
  string id = 1 [(buf.validate.field).string.min_len = 1]; int64 customer = 2; repeated Line lines = 3;
  map<int32, shop.Money> by_number = 5; Status status = 6;
  google.protobuf.Timestamp placed_at = 7; oneof payment { string card = 8; bytes token = 9; }
  optional double total = 10;
  message Line { string sku = 1; repeated sint32 discounts = 4; }
  enum Status { UNKNOWN = 0; NEW = 1; }
}
"""


def snapshot_of(*texts: str, references: tuple[SchemaReference, ...] = ()) -> RegistrySnapshot:
    """The last of the texts uses the others, by `references`; schema 1 is version 1 of `s1`."""
    schemas = tuple(
        StoredSchema(id=number, kind="PROTOBUF", text=text, references=references if number == len(texts) else ())
        for number, text in enumerate(texts, start=1)
    )
    versions = tuple(SubjectVersion(subject=f"s{schema.id}", version=1, id=schema.id) for schema in schemas)
    return RegistrySnapshot(schemas=schemas, versions=versions)


def types_of(snapshot: RegistrySnapshot) -> ProtobufTypes | None:
    return protobuf_types(snapshot, snapshot.schemas[-1])


USES_MONEY = (SchemaReference(name="money.proto", subject="s1", version=1),)


@pytest.fixture
def types() -> ProtobufTypes:
    types = types_of(snapshot_of(MONEY, ORDER, references=USES_MONEY))
    assert types is not None
    return types


def written(types: ProtobufTypes, indexes: tuple[int, ...], **values: Any) -> bytes:
    message_class = types._class(indexes)
    assert message_class is not None
    return message_class(**values).SerializeToString()


def test_every_kind_of_field_is_read(types: ProtobufTypes) -> None:
    payload = written(
        types,
        (1,),
        id="order-1",
        lines=[{"sku": "a", "discounts": [1, -2]}, {"sku": "b"}],
        by_number={-7: {"currency": "EUR", "units": 5}},
        status=1,
        placed_at={"seconds": 1_700_000_000},
        token=b"\x00\xff",
        total=0.0,
    )
    read = types.read(b"\x02\x02" + payload, 0)
    assert read is not None
    assert (read.message, read.is_whole) == ("shop.v1.Order", True)
    assert read.value == {
        "id": "order-1",
        "customer": 0,
        "lines": [{"sku": "a", "discounts": [1, -2]}, {"sku": "b"}],
        "by_number": {"-7": {"currency": "EUR", "units": 5}},
        "status": "NEW",
        "placed_at": {"seconds": 1_700_000_000, "nanos": 0},
        "token": b"\x00\xff",
        "total": 0.0,
    }


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (b"\x00", "shop.v1.Note"),
        (b"\x02\x00", "shop.v1.Note"),
        (b"\x02\x02", "shop.v1.Order"),
        (b"\x04\x00\x00", "shop.v1.Note.Inner"),
        (b"\x06\x00\x00\x00", "shop.v1.Note.Inner.Deep"),
        (b"\x04\x02\x00", "shop.v1.Order.Line"),
        (b"\x80\x00", "shop.v1.Note"),
    ],
)
def test_indexes_name_a_message_of_the_source(types: ProtobufTypes, prefix: bytes, message: str) -> None:
    read = types.read(b"....." + prefix, 5)
    assert read is not None
    assert read.message == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",  # a count below zero
        b"\x02",  # an index is missing
        b"\x02\x04",  # no third message
        b"\x04\x00\x02",  # no second message in the first
        b"\x02\x01",
        b"\xff\xff\xff\xff\xff\xff",
        b"\xfe\xff\xff\xff\x0f" + b"\x00" * 100,
        b"\x02\x02\x0a\xff",  # a text that ends too early
        b"\x02\x02\x0a\x01\xff",  # a text that is no UTF-8
        b"\x02\x02\x0b",  # a group that does not end
        b"\x02\x02" + b"\x07",  # no such wire type
    ],
)
def test_bytes_of_another_form_are_no_value(types: ProtobufTypes, data: bytes) -> None:
    assert types.read(data, 0) is None


def test_a_field_that_the_schema_lacks_is_told(types: ProtobufTypes) -> None:
    line = written(types, (1, 0), sku="a") + b"\xa0\x06\x01"
    read = types.read(b"\x02\x02" + b"\x1a" + bytes([len(line)]) + line, 0)
    assert read is not None
    assert (read.is_whole, read.value["lines"]) == (False, [{"sku": "a"}])


def test_a_message_that_nests_too_deep_is_no_value() -> None:
    types = types_of(snapshot_of('syntax = "proto3"; message R { R r = 1; }'))
    assert types is not None
    payload = b""
    for _ in range(500):
        length, number = b"", len(payload)
        while number > 127:
            length, number = length + bytes([number & 127 | 128]), number >> 7
        payload = b"\x0a" + length + bytes([number]) + payload
    assert types.read(b"\x00" + payload, 0) is None


@pytest.mark.parametrize(
    "text",
    [
        "message A {",
        'syntax = "proto3"; message A { Missing m = 1; }',
        'syntax = "proto3"; message A { int32 x = 1; int32 x = 2; }',
        'syntax = "proto3"; message A { int32 x = 99999999999; }',
        'syntax = "proto3"; message A { int32 x = 0; }',
        'syntax = "proto3"; message A {} message A {}',
        'syntax = "proto3"; import "other.proto"; message A { other.B b = 1; }',
    ],
)
def test_a_schema_that_no_compiler_takes_has_no_types(text: str) -> None:
    assert types_of(snapshot_of(text)) is None


def test_two_names_of_one_file_are_one_file() -> None:
    middle = 'syntax = "proto3"; package m; import "a/money.proto"; message Middle { shop.Money money = 1; }'
    top = 'syntax = "proto3"; import "money.proto"; import "m.proto"; message T { m.Middle m = 1; shop.Money n = 2; }'
    schemas = (
        StoredSchema(id=1, kind="PROTOBUF", text=MONEY),
        StoredSchema(
            id=2,
            kind="PROTOBUF",
            text=middle,
            references=(SchemaReference(name="a/money.proto", subject="s1", version=1),),
        ),
        StoredSchema(
            id=3,
            kind="PROTOBUF",
            text=top,
            references=(*USES_MONEY, SchemaReference(name="m.proto", subject="s2", version=1)),
        ),
    )
    versions = tuple(SubjectVersion(subject=f"s{schema.id}", version=1, id=schema.id) for schema in schemas)
    snapshot = RegistrySnapshot(schemas=schemas, versions=versions)
    types = types_of(snapshot)
    assert types is not None
    read = types.read(b"\x00" + written(types, (0,), m={"money": {"units": 1}}, n={"units": 2}), 0)
    assert read is not None
    assert read.value["n"] == {"currency": "", "units": 2}


def test_groups_and_required_fields_of_proto2_are_read() -> None:
    text = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 2; } required bool b = 3; }'
    types = types_of(snapshot_of(text))
    assert types is not None
    read = types.read(b"\x00\x0b\x10\x05\x0c\x18\x01", 0)
    assert read is not None
    assert read.value == {"g": {"x": 5}, "b": True}
    lacking = types.read(b"\x00\x0b\x10\x05\x0c", 0)
    assert lacking is not None
    assert not lacking.is_whole


def at_depth(depth: int, schema: StoredSchema) -> bool:
    return at_depth(depth - 1, schema) if depth else protobuf_types(RegistrySnapshot(schemas=(schema,)), schema) is None


@pytest.mark.parametrize("messages", [*range(80, 500, 20), 5_000])
def test_messages_that_use_one_another_are_no_question_of_the_stack(messages: int) -> None:
    """The runtime makes their classes by recursion."""
    text = "".join(f"message M{n} {{ M{(n + 1) % messages} next = 1; }} " for n in range(messages))
    schema = StoredSchema(id=1, kind="PROTOBUF", text=f'syntax = "proto3"; {text}')
    refused = {at_depth(depth, schema) for depth in (0, 100, 300)}
    assert len(refused) == 1
    assert refused == {messages > 500} or 100 <= messages <= 500
    types = protobuf_types(RegistrySnapshot(schemas=(schema,)), schema)
    assert types is None or types.fits(b"\0\x0a\0", 0)
