"""Registries mean the same by an id where schemas say the same, however they are written."""

from __future__ import annotations

import pytest

from offsite.model.schema_registry import RegistrySnapshot, SchemaReference, StoredSchema, SubjectVersion
from offsite.schemas.meaning import meaning_of, other_meanings


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


def registry(*uses: tuple[int, ...], texts: str = "", prefix: str = "s") -> RegistrySnapshot:
    """Schemas 0, 1, … that use the given ones; `texts`: a letter for each, its text."""
    return RegistrySnapshot(
        schemas=tuple(
            StoredSchema(
                id=schema_id,
                kind="AVRO",
                text=f'"{texts[schema_id : schema_id + 1] or schema_id}"',
                references=tuple(SchemaReference(name="n", subject=f"{prefix}{other}", version=1) for other in used),
            )
            for schema_id, used in enumerate(uses)
        ),
        versions=tuple(
            SubjectVersion(subject=f"{prefix}{number}", version=1, id=number) for number in range(len(uses))
        ),
    )


def test_what_a_schema_uses_is_part_of_it() -> None:
    held = registry((), (0,), (0, 1), (), texts="abcd")
    assert other_meanings(held, registry((), (0,), (1, 0), (), texts="abcd", prefix="other")) == ()
    assert other_meanings(held, registry((), (0,), (0, 1), (), texts="xbcd")) == (0, 1, 2)
    assert other_meanings(held, registry((), (3,), (0, 1), (), texts="abcd")) == (1, 2)
    assert other_meanings(held, registry((), (0,), (0, 1))) == (0, 1, 2, 3)
    assert other_meanings(held, registry((), (), (), (), texts="dabc"), {0: 1, 3: 0}) == ()


@pytest.mark.parametrize("first", [(), (19_999,)], ids=["chain", "circle"])
def test_a_chain_of_any_length_is_compared_once(first: tuple[int, ...]) -> None:
    """Schema by schema with all that it uses, it would take hours."""
    uses = [first, *((number,) for number in range(19_999))]
    assert other_meanings(registry(*uses), registry(*uses)) == ()
    assert other_meanings(registry(*uses), registry(*uses, texts="x")) == tuple(range(20_000))
