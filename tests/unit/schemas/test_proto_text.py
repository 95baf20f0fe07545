"""Sources of Protobuf become the descriptors that its own compiler makes of them, apart from what changes no value."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Any

import google.api
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import Default, DescriptorPool

from offsite.schemas.proto_text import MAX_CHARS, BadProto, parse_proto

ROOT = Path(next(iter(google.api.__path__))).parent.parent
SOURCES = sorted(
    str(path.relative_to(ROOT))
    for path in ROOT.glob("google/**/*.proto")
    if path.with_name(f"{path.stem}_pb2.py").exists()
)
LEFT_OUT = ("extension", "service", "source_code_info", "public_dependency", "weak_dependency", "option_dependency")
OF_MESSAGES = ("extension", "extension_range", "reserved_range", "reserved_name", "visibility")


def without_what_changes_no_value(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    _clear(file, "options", *LEFT_OUT)
    if file.syntax == "proto2":
        file.ClearField("syntax")
    for message in file.message_type:
        _clear_message(message)
    for enum in file.enum_type:
        _clear_enum(enum)
    return file


def _clear(part: Any, *names: str) -> None:
    for name in names:
        if name in part.DESCRIPTOR.fields_by_name:
            part.ClearField(name)


def _clear_message(message: descriptor_pb2.DescriptorProto) -> None:
    is_map = message.options.map_entry
    _clear(message, "options", *OF_MESSAGES)
    if is_map:
        message.options.map_entry = True
    for field in message.field:
        delimited = field.options.features.message_encoding
        _clear(field, "options", "json_name", "default_value")
        if delimited:
            field.options.features.message_encoding = delimited
    for oneof in message.oneof_decl:
        _clear(oneof, "options")
    for enum in message.enum_type:
        _clear_enum(enum)
    for nested in message.nested_type:
        _clear_message(nested)


def _clear_enum(enum: descriptor_pb2.EnumDescriptorProto) -> None:
    has_aliases = enum.options.allow_alias
    _clear(enum, "options", *OF_MESSAGES)
    if has_aliases:
        enum.options.allow_alias = True
    for value in enum.value:
        _clear(value, "options")


def resolved(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """`file` as a pool understands it, which has what it imports."""
    pool = DescriptorPool()

    def add(name: str) -> None:
        descriptor = Default().FindFileByName(name)
        for used in descriptor.dependencies:
            add(used.name)
        pool.AddSerializedFile(descriptor.serialized_pb)

    for name in file.dependency:
        add(name)
    pool.AddSerializedFile(file.SerializeToString())
    understood = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(file.name).CopyToProto(understood)
    return without_what_changes_no_value(understood)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_means_what_the_compiler_says(name: str) -> None:
    made = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    theirs = descriptor_pb2.FileDescriptorProto.FromString(made.serialized_pb)
    ours = parse_proto((ROOT / name).read_text("utf-8"), name=theirs.name)
    assert resolved(ours) == resolved(theirs)


def test_there_are_many_sources() -> None:
    assert len(SOURCES) > 40


ODD = (
    """
syntax = "proto2"; // a comment
package x . y;
""".replace(" . ", ".")
    + r"""
import public "money.proto"; import weak 'a' ".proto";
option (foo) = { a: 1 b: "}" c { d: 2 } };
message A {
  required string message = 1 [default = "a\"b", (my.opt).x = -inf];
  optional group G = 2 { optional int32 z = 0x7; }
  repeated .x.y.A.E e = 010 [packed=true, deprecated = false];
  extensions 100 to max; reserved 50 to 60, 70; reserved "q", 'r';
  enum E { option allow_alias = true; ZERO = 0 [deprecated=true]; NEG = -5; AGAIN = 0; reserved -9 to -7; }
  oneof o { option (bar) = 1; group H = 21 { } string s = 22; E ee = 23; }
  map<string, A> as_map = 30; map < int32 , .x.y.A.E > m_two = 31; ;
  message B { message C { optional A a = 1; } optional C c = 1; }
  optional B.C bc = 40;
  extend A { optional int32 ext = 150; }
}
/* extend */ extend A { optional string ext2 = 151 [json_name="q"]; }
service S { rpc F (stream A) returns (A) { option (z) = 1; } rpc G (A) returns (A); }
"""
)


def test_the_odd_parts_of_the_language_are_read() -> None:
    file = parse_proto(ODD, name="odd.proto")
    (message,) = file.message_type
    assert (file.package, list(file.dependency)) == ("x.y", ["money.proto", "a.proto"])
    assert [(field.name, field.number, field.type_name) for field in message.field] == [
        ("message", 1, ""),
        ("g", 2, "G"),
        ("e", 8, ".x.y.A.E"),
        ("h", 21, "H"),
        ("s", 22, ""),
        ("ee", 23, "E"),
        ("as_map", 30, "AsMapEntry"),
        ("m_two", 31, "MTwoEntry"),
        ("bc", 40, "B.C"),
    ]
    assert [nested.name for nested in message.nested_type] == ["G", "H", "AsMapEntry", "MTwoEntry", "B"]
    assert [(value.name, value.number) for value in message.enum_type[0].value] == [
        ("ZERO", 0),
        ("NEG", -5),
        ("AGAIN", 0),
    ]


def test_optional_fields_of_proto3_have_presence() -> None:
    text = 'syntax = "proto3"; message A { optional int32 x = 1; oneof o { int32 y = 2; } int32 z = 3; }'
    (message,) = parse_proto(text, name="a").message_type
    assert [(field.name, field.HasField("oneof_index")) for field in message.field] == [
        ("x", True),
        ("y", True),
        ("z", False),
    ]
    assert [oneof.name for oneof in message.oneof_decl] == ["o", "_x"]


def test_editions_are_read() -> None:
    text = """edition = "2023"; option features.field_presence = IMPLICIT;
    message M { M child = 2 [features.message_encoding = DELIMITED]; M plain = 3; reserved foo, bar; }"""
    file = parse_proto(text, name="a")
    delimited = descriptor_pb2.FeatureSet.DELIMITED
    assert (file.syntax, file.edition) == ("editions", descriptor_pb2.EDITION_2023)
    assert [field.options.features.message_encoding == delimited for field in file.message_type[0].field] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        'syntax="proto3";' + "message A{" * 100_000,
        "message A{" * 33 + "}" * 33,
        "\0",
        'message A { string a = 1 [x = "' + "y" * 900_000,
        "/*" + "*" * 900_000,
        "message A { int32 a = " + "9" * 500_000 + "; }",
        "message A { int32 a = -; }",
        "'\"\\" * 300_000,
        "a." * 500_000,
        "option x = " + "{" * 900_000,
        "reserved " * 100_000,
        "message A { message A",
        "message A { int32 x.y = 1; }",
        'syntax = "proto4";',
        'edition = "1999";',
        "message A { option message_set_wire_format = true; }",
        " " * (MAX_CHARS + 1),
        "nonsense",
    ],
    ids=range(18),
)
def test_what_is_no_source_is_refused_in_time(text: str) -> None:
    began_s = time.process_time()
    with pytest.raises(BadProto):
        parse_proto(text, name="bad")
    assert time.process_time() - began_s < 5
