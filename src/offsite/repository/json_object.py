"""A JSON object read strictly: every field has the type it must have, or the reader says which one has not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from offsite.model.errors import FormatTooNew, OffsiteError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

FORMAT = 1
"""The major format version of every JSON object of a repository. Added keys do not change it: readers ignore them."""


def encode_canonical(value: Mapping[str, JsonValue]) -> bytes:
    """The one byte form of `value`: keys sorted, no spaces, ASCII, a newline at the end."""
    return (json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonObject:
    """`fields` of the object that `source` names; `damaged` makes the error for one that is wrong."""

    source: str
    fields: Mapping[str, JsonValue]
    damaged: Callable[[str], OffsiteError]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.fields.get(name) is None else self.text(name)

    def integer(self, name: str) -> int:
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(name, "an integer")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self.fields.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        value = self.fields.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        values = tuple(v for v in self._sequence(name) if isinstance(v, int) and not isinstance(v, bool))
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
        values = tuple(v for v in self._sequence(name) if isinstance(v, str))
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
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.wrong(name, "a list")
        return value

    def _object(self, name: str, value: JsonValue) -> JsonObject:
        if not isinstance(value, Mapping):
            raise self.wrong(name, "an object")
        return JsonObject(source=self.source, fields=value, damaged=self.damaged)


def _is_row(row: Sequence[JsonValue], width: int) -> bool:
    return len(row) == width and all(type(value) is int for value in row)


def parse_json_object(data: bytes, *, source: str, damaged: Callable[[str], OffsiteError]) -> JsonObject:
    """Read one versioned JSON object. Raises what `damaged` makes, or `FormatTooNew`."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(f"{source}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise damaged(f"{source}: not a JSON object")
    parsed = JsonObject(source=source, fields=fields, damaged=damaged)
    if (written := parsed.integer("format")) > FORMAT:
        raise FormatTooNew(
            f"{source} has format {written}; this offsite reads up to {FORMAT}", hint="upgrade offsite and try again"
        )
    return parsed
