"""Registries mean the same by an id where schemas say the same, however they are written."""

from __future__ import annotations

import pytest

from offsite.model.schema_registry import StoredSchema
from offsite.schemas.meaning import meaning_of


@pytest.mark.parametrize(
    ("text", "other", "is_same"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1.0}', True),
        ('{"const": 1}', '{"const": true}', False),
        ('{"const": [0.5]}', '{"const": [0]}', False),
        ("{", "{", True),
    ],
)
def test_json_is_compared_as_json(text: str, other: str, *, is_same: bool) -> None:
    schemas = [StoredSchema(id=1, kind="JSON", text=written) for written in (text, other)]
    assert (meaning_of(schemas[0]) == meaning_of(schemas[1])) is is_same


_DEFAULT = 'syntax = "proto2"; message M { optional int32 a = 1 [default = 1]; }'
_EXTENSION = "message M { extensions 5; } extend M { optional int32 a = 5; }"
_OPTION = "extend google.protobuf.FieldOptions { optional bool b = 50000; } message M {}"


@pytest.mark.parametrize(
    ("text", "other", "is_same"),
    [
        (_DEFAULT, _DEFAULT.replace(" ", "\n"), True),
        (_DEFAULT, _DEFAULT.replace("default = 1", "default = 2"), False),
        (_DEFAULT, _DEFAULT.replace("[default = 1]", ""), False),
        (_EXTENSION, "// fields of others\n" + _EXTENSION, True),
        (_EXTENSION, _EXTENSION.replace("int32 a", "string a"), False),
        (_OPTION, "message M {}", True),
    ],
)
def test_protobuf_is_compared_as_consumers_see_it(text: str, other: str, *, is_same: bool) -> None:
    """A field that is absent has its default, and an extension is a field."""
    schemas = [StoredSchema(id=1, kind="PROTOBUF", text=written) for written in (text, other)]
    assert (meaning_of(schemas[0]) == meaning_of(schemas[1])) is is_same
