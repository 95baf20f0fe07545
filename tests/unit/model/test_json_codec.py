"""A declared form reads and writes a dataclass as the hand-written code did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import pytest

from offsite.model.untrusted.json_codec import (
    Count,
    Inline,
    JsonCodec,
    Key,
    Later,
    Nullable,
    OptionalFirst,
    Spare,
    Unstored,
    text_up_to,
)
from offsite.model.untrusted.json_object import JsonObject


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    topic: str
    partition: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    name: str
    size_bytes: Annotated[Count, Key("bytes")]
    place: Inline[Place]
    until_ms: int | None
    texts: tuple[str, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    places: tuple[Place, ...] = ()
    colour: Later[Colour] = Colour.RED
    by: Spare[str] = ""
    seal: Nullable[Spare[str]] = ""
    part: Spare[Place | None] = None
    short: Annotated[str, text_up_to(3)] = ""
    first: Spare[OptionalFirst[Place]] = None
    seen: Unstored[int] = 0


LEAST: dict[str, Any] = {"name": "n", "bytes": 3, "topic": "t", "partition": 1, "sizes": {}, "short": ""}
CODEC = JsonCodec(Example)


class WrongError(Exception):
    pass


def read(**members: Any) -> Example:
    return CODEC.read(JsonObject(fields={**LEAST, **members}, damaged=WrongError))


def test_a_missing_member_gives_the_default_where_the_field_says_so() -> None:
    place = Place(topic="t", partition=1)
    assert read() == Example(name="n", size_bytes=3, place=place, until_ms=None)


def test_what_is_written_is_read_again() -> None:
    place = Place(topic="t", partition=1)
    example = Example(
        name="n",
        size_bytes=3,
        place=place,
        until_ms=4,
        texts=("b", "a"),
        sizes=(("a", 1), ("b", 2)),
        places=(place,),
        colour=Colour.BLUE,
        by="me",
        seal="s",
        part=place,
        short="abc",
        first=place,
    )
    assert read(**CODEC.write(example)) == example


def test_a_default_is_left_out_only_where_the_field_says_so() -> None:
    written = CODEC.write(read())
    assert written == {**LEAST, "until_ms": None, "texts": [], "places": [], "colour": "red"}


def test_a_text_is_cut_when_it_is_read() -> None:
    assert read(short="abcdef").short == "abc"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"bytes": -1}, "field 'bytes' is not an integer of 64 bits, from 0 on"),
        ({"until_ms": True}, "field 'until_ms' is not an integer of 64 bits"),
        ({"texts": None}, "field 'texts' is not a list"),
        ({"sizes": {"a": "b"}}, "field 'a' is not an integer of 64 bits"),
        ({"places": [1]}, "field 'places' is not an object"),
        ({"colour": "green"}, "field 'colour' is not one of red, blue"),
        ({"colour": None}, "field 'colour' is not text"),
        ({"by": None}, "field 'by' is not text"),
        ({"part": {"topic": "t"}}, "field 'partition' is not an integer of 64 bits, from 0 on"),
    ],
)
def test_a_wrong_member_is_named(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(WrongError) as caught:
        read(**members)
    assert str(caught.value) == problem


def test_what_is_checked_first_is_named_first() -> None:
    with pytest.raises(WrongError, match="field 'first' is not an object"):
        read(first=1, bytes=-1)
    with pytest.raises(WrongError, match="field 'bytes'"):
        read(first={"topic": 1}, bytes=-1)


def test_an_unstored_field_is_neither_read_nor_written() -> None:
    assert read(seen=3).seen == 0
    assert "seen" not in CODEC.write(read())


def test_null_is_the_default_of_a_nullable_field() -> None:
    assert read(seal=None).seal == ""


@dataclass
class Odd:
    value: complex


@dataclass
class Late:
    value: Later[str]


@pytest.mark.parametrize("kind", [Odd, Late])
def test_a_type_without_a_form_and_a_later_field_without_a_default_are_errors(kind: type[Any]) -> None:
    with pytest.raises(TypeError):
        JsonCodec(kind).write(kind("v"))
