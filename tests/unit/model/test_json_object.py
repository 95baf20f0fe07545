"""The one strict reader of fields, as each format reads by it: types, bounds, what may be missing, and the words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from offsite.archives.indexed.index_json import BadIndex, IndexObject
from offsite.archives.osodevops.manifest import NotTheTools, ToolObject
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue

HALF = "\ud800"
BEYOND = 1 << 63

Read = Callable[[JsonObject], object]


def stored(value: JsonValue) -> JsonObject:
    return JsonObject(fields={"a": value}, damaged=lambda problem: DamagedObject(f"key.json: {problem}"))


def index(value: JsonValue) -> JsonObject:
    return IndexObject(fields={"a": value}, damaged=BadIndex)


def tools(value: JsonValue) -> JsonObject:
    return ToolObject(fields={"a": value}, damaged=NotTheTools)


def integer(item: JsonObject) -> object:
    return item.integer("a", least=-1, most=9) if isinstance(item, IndexObject) else item.integer("a")


READS: dict[str, Read] = {
    "integer": integer,
    "count": lambda item: item.count("a"),
    "text": lambda item: item.text("a"),
    "texts": lambda item: item.texts("a"),
    "child": lambda item: item.child("a"),
    "children": lambda item: item.children("a"),
    "missing": lambda item: item.children("b"),
    "missing child": lambda item: item.child("b"),
}


@pytest.mark.parametrize(
    ("make", "read", "value", "problem"),
    [
        (stored, "integer", True, "key.json: field 'a' is not an integer of 64 bits"),
        (stored, "integer", BEYOND, "key.json: field 'a' is not an integer of 64 bits"),
        (stored, "count", -1, "key.json: field 'a' is not an integer of 64 bits, from 0 on"),
        (stored, "text", HALF, "key.json: field 'a' is not text"),
        (stored, "texts", [HALF], "key.json: field 'a' is not a list of texts"),
        (stored, "child", [], "key.json: field 'a' is not an object"),
        (stored, "children", [1], "key.json: field 'a' is not an object"),
        (stored, "children", None, "key.json: field 'a' is not a list"),
        (stored, "missing child", 0, "key.json: field 'b' is not an object"),
        (index, "integer", 1.0, "field 'a' is not an integer"),
        (index, "integer", 10, "field 'a' is not from -1 to 9"),
        (index, "count", -1, "field 'a' is not from 0 to 9223372036854775807"),
        (index, "children", [1], "field 'a' is not a list of objects"),
        (index, "missing", 0, "field 'b' is not a list"),
        (tools, "integer", "1", "field 'a' is not an integer"),
        (tools, "integer", BEYOND, "field 'a' is not an integer of 64 bits"),
        (tools, "children", [1], "an item of 'a' is not an object"),
        (tools, "child", 1, "field 'a' is not an object"),
    ],
)
def test_a_wrong_field_is_named_in_the_words_of_its_format(
    make: Callable[[JsonValue], JsonObject], read: str, value: JsonValue, problem: str
) -> None:
    with pytest.raises((DamagedObject, BadIndex, NotTheTools)) as raised:
        READS[read](make(value))
    assert str(raised.value) == problem


def test_what_each_format_lets_be_missing() -> None:
    assert stored(0).children("b") == ()
    assert tools(None).children("a") == tools(0).children("b") == ()
    assert tools(None).child("a").fields == {}
    assert index(HALF).text("a") == tools(HALF).text("a") == HALF
    assert stored(None).integer_or("a", -1) == stored(0).integer_or("b", -1) == -1


def test_what_lies_deeper_is_read_in_the_same_way() -> None:
    child = index({"b": [{"c": 1 << 70}]}).child("a")
    with pytest.raises(BadIndex, match="field 'c' is not from 0 to"):
        child.children("b")[0].count("c")
