"""A JSON object read strictly: every field has the required type, or the reader names the wrong field. Pure.

The only reader of fields: of a repository's objects, of the indexes of archives, of another tool's manifests. The
caller supplies the error (`damaged`). A format with other rules for missing fields, or other texts of errors, overrides
the methods at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self, TypeAlias, TypeGuard, TypeVar

from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.names import is_topic_name

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

EnumT = TypeVar("EnumT", bound=StrEnum)

_LEAST = -MAX_OFFSET - 1
_MAX_NUMBER = sys.float_info.max
"""JSON has no infinity, and Python reads one out of 1e999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """The members of one JSON object, read by type. `fields`: the members; `damaged`: makes the error for a wrong
    member, from a sentence."""

    fields: Mapping[str, JsonValue]
    damaged: Callable[[str], Exception]

    ANY_TEXT: ClassVar[bool] = False
    """Whether texts may hold halves of surrogate pairs: JSON can spell them, but they are no characters, and cannot be
    written elsewhere."""

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str) or not (value.isascii() or self._may_be_text(value)):
            raise self.wrong(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.fields.get(name) is None else self.text(name)

    def integer(self, name: str, *, least: int = _LEAST, most: int = MAX_OFFSET) -> int:
        """Read an integer from `least` to `most`, both inclusive."""
        value = self.fields.get(name)
        if type(value) is not int or not least <= value <= most:
            raise self._no_integer(name, value, least, most)
        return value

    def count(self, name: str) -> int:
        """Read an offset, a number of things, or a size: not below 0."""
        value = self.fields.get(name)
        if type(value) is not int or not 0 <= value <= MAX_OFFSET:
            raise self._no_integer(name, value, 0, MAX_OFFSET)
        return value

    def partition(self, name: str = "partition") -> int:
        """Read the number of a partition."""
        if not 0 <= (value := self.integer(name)) < MAX_PARTITIONS:
            raise self.wrong(name, f"a partition (0 to {MAX_PARTITIONS - 1})")
        return value

    def topic(self, name: str = "topic") -> str:
        """Read a name that Kafka accepts for a topic."""
        if not is_topic_name(value := self.text(name)):
            raise self.wrong(name, "the name of a Kafka topic")
        return value

    def member(self, name: str, kind: type[EnumT]) -> EnumT:
        """Read a member of `kind`."""
        try:
            return kind(self.text(name))
        except ValueError as error:
            raise self.wrong(name, f"one of {', '.join(kind)}") from error

    def integer_or(self, name: str, default: int) -> int:
        """Read an integer; `default` for a missing field, and for null."""
        return default if self.fields.get(name) is None else self.integer(name)

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

    def optional_flag(self, name: str) -> bool:
        """Read a flag; False for a missing field. Such a field was added later, or is written only where true."""
        return name in self.fields and self.flag(name)

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._list(name)
        integers = tuple(value for value in values if _is_integer(value))
        if len(integers) != len(values):
            raise self.wrong(name, "a list of integers")
        return integers

    def integer_rows(self, name: str, *, width: int) -> tuple[tuple[int, ...], ...]:
        """Read a list of lists of `width` integers."""
        values = self._list(name)
        rows = tuple(tuple(row) for row in values if isinstance(row, list | tuple))
        if len(rows) != len(values) or not all(_is_row(row, width) for row in rows):
            raise self.wrong(name, f"a list of rows of {width} integers")
        return rows

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        texts = tuple(value for value in values if isinstance(value, str) and self._may_be_text(value))
        if len(texts) != len(values):
            raise self.wrong(name, "a list of texts")
        return texts

    def text_map(self, name: str) -> tuple[tuple[str, str], ...]:
        """Read an object of texts as sorted pairs."""
        child = self.child(name)
        return tuple((key, child.text(key)) for key in child.names(name))

    def names(self, of: str) -> Sequence[str]:
        """The names of all members, sorted. `of`: the field that holds the object."""
        if not all(map(self._may_be_text, self.fields)):
            raise self.wrong(of, "an object with text for names")
        return sorted(self.fields)

    def child(self, name: str) -> Self:
        return self._object(name, self.fields.get(name))

    def optional_child(self, name: str) -> Self | None:
        return None if self.fields.get(name) is None else self._object(name, self.fields[name])

    def children(self, name: str) -> tuple[Self, ...]:
        """Read a list of objects."""
        return tuple(self._item(name, value) for value in self._list(name))

    def wrong(self, name: str, expected: str) -> Exception:
        return self.damaged(f"field {name!r} is not {expected}")

    def _may_be_text(self, value: str) -> bool:
        return self.ANY_TEXT or _is_utf8(value)

    def _object(self, name: str, value: JsonValue) -> Self:
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return type(self)(fields=value, damaged=self.damaged)

    def _item(self, name: str, value: JsonValue) -> Self:
        """Read an element of the list of objects `name`."""
        return self._object(name, value)

    def _list(self, name: str) -> Sequence[JsonValue]:
        """Read a list; a missing list is empty, because writers leave out empty lists."""
        value = self.fields.get(name, ())
        if not isinstance(value, list | tuple):
            raise self.wrong(name, "a list")
        return value

    def _no_integer(self, name: str, value: JsonValue, least: int, most: int) -> Exception:  # noqa: ARG002 - for others
        return self.wrong(name, "an integer of 64 bits" if least else "an integer of 64 bits, from 0 on")


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and _LEAST <= value <= MAX_OFFSET


def _is_row(row: Sequence[JsonValue], width: int) -> bool:
    return len(row) == width and all(map(_is_integer, row))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
