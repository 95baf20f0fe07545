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
