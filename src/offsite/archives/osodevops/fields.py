"""Reads a JSON object of the tool field by field: a requested field must have the right type, further fields are
ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.model.untrusted.json_object import JsonObject, JsonValue

__all__ = ["NotTheTools", "ToolObject"]


class NotTheTools(Exception):
    """The bytes are no JSON of the tool; `position` is in bytes. Becomes `Damage` in the package."""

    def __init__(self, problem: str, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


class ToolObject(JsonObject):
    """An object of the tool. Null counts as a missing field, and a missing object or list as empty: the tool leaves
    both out."""

    __slots__ = ()
    ANY_TEXT = True

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a whole file as an object. Raises `NotTheTools`, like all methods."""
        try:
            return cls.of(parse_json(data), "the file")
        except BadJson as error:
            raise NotTheTools(str(error), error.position) from error

    @classmethod
    def of(cls, value: object, name: str) -> Self:
        if not isinstance(value, dict):
            raise NotTheTools(f"{name} is not an object")
        return cls(fields=value, damaged=NotTheTools)

    def child(self, name: str) -> Self:
        return self.optional_child(name) or self.of({}, name)

    def numbered(self) -> tuple[tuple[int, int], ...]:
        """Return the whole object as pairs of integers; the names are decimal text."""
        try:
            return tuple((int(name), self.integer(name)) for name in self.fields)
        except ValueError as error:
            raise NotTheTools(f"not a number: {error}") from error

    def _item(self, name: str, value: JsonValue) -> Self:
        return self.of(value, f"an item of {name!r}")

    def _list(self, name: str) -> Sequence[JsonValue]:
        return () if self.fields.get(name) is None else super()._list(name)

    def _no_integer(self, name: str, value: JsonValue, least: int, most: int) -> Exception:  # noqa: ARG002
        return self.wrong(name, "an integer" if type(value) is not int else "an integer of 64 bits")
