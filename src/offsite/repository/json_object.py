"""A JSON object read strictly: every field has the type it must have, or the reader says which one has not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.errors import OffsiteError
from offsite.model.names import is_topic_name

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

_LEAST = -MAX_OFFSET - 1
_MAX_NUMBER = sys.float_info.max
"""JSON has no infinity, and Python reads one out of 1e999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """`fields` of the object that `source` names; `damaged` makes the error for one that is wrong."""

    source: str
    fields: Mapping[str, JsonValue]
    damaged: Callable[[str], OffsiteError]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str) or not (value.isascii() or _is_utf8(value)):
            raise self.wrong(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.fields.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        value = self.fields.get(name)
        if type(value) is not int or not _LEAST <= value <= MAX_OFFSET:
            raise self.wrong(name, "an integer of 64 bits")
        return value

    def count(self, name: str) -> int:
        """An offset, a number of things, or a size: not below 0."""
        value = self.fields.get(name)
        if type(value) is not int or not 0 <= value <= MAX_OFFSET:
            raise self.wrong(name, "an integer of 64 bits, from 0 on")
        return value

    def partition(self, name: str = "partition") -> int:
        """The number of a partition."""
        if not 0 <= (value := self.integer(name)) < MAX_PARTITIONS:
            raise self.wrong(name, f"a partition (0 to {MAX_PARTITIONS - 1})")
        return value

    def topic(self, name: str = "topic") -> str:
        """A name that Kafka accepts as that of a topic."""
        if not is_topic_name(value := self.text(name)):
            raise self.wrong(name, "the name of a Kafka topic")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self.fields.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        value = self.fields.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _MAX_NUMBER:
            raise self.wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        values = tuple(value for value in self._sequence(name) if _is_integer(value))
        if len(values) != len(self._sequence(name)):
            raise self.wrong(name, "a list of integers")
        return values

    def integer_rows(self, name: str, *, width: int) -> tuple[tuple[int, ...], ...]:
        """A list of lists of `width` integers each."""
        rows = tuple(tuple(row) for row in self._sequence(name) if isinstance(row, list | tuple))
        if len(rows) != len(self._sequence(name)) or not all(_is_row(row, width) for row in rows):
            raise self.wrong(name, f"a list of rows of {width} integers")
        return rows

    def texts(self, name: str) -> tuple[str, ...]:
        values = tuple(v for v in self._sequence(name) if isinstance(v, str) and _is_utf8(v))
        if len(values) != len(self._sequence(name)):
            raise self.wrong(name, "a list of texts")
        return values

    def text_map(self, name: str) -> tuple[tuple[str, str], ...]:
        """An object of texts as sorted pairs."""
        child = self.child(name)
        return tuple((key, child.text(key)) for key in sorted(child.fields))

    def child(self, name: str) -> JsonObject:
        return self._object(name, self.fields.get(name))

    def optional_child(self, name: str) -> JsonObject | None:
        return None if self.fields.get(name) is None else self.child(name)

    def children(self, name: str) -> tuple[JsonObject, ...]:
        """A list of objects; a missing one is empty, because writers leave out empty lists."""
        return tuple(self._object(name, value) for value in self._sequence(name))

    def wrong(self, name: str, wanted: str) -> OffsiteError:
        return self.damaged(f"{self.source}: field {name!r} is not {wanted}")

    def _sequence(self, name: str) -> Sequence[JsonValue]:
        value = self.fields.get(name, ())
        if not isinstance(value, list | tuple):
            raise self.wrong(name, "a list")
        return value

    def _object(self, name: str, value: JsonValue) -> JsonObject:
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return JsonObject(source=self.source, fields=value, damaged=self.damaged)


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and _LEAST <= value <= MAX_OFFSET


def _is_row(row: Sequence[JsonValue], width: int) -> bool:
    return len(row) == width and all(map(_is_integer, row))


def _is_utf8(text: str) -> bool:
    """JSON can spell halves of surrogate pairs, which are no characters and can be written nowhere."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
