"""A JSON object of the tool, read field by field: what is asked for has the type it must have, the rest is ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.bounded_json import BadJson, parse_json
from offsite.model.bounds import MAX_OFFSET

__all__ = ["Fields", "NotTheTools"]


class NotTheTools(Exception):
    """The bytes are not the JSON that the tool writes; `position` is in bytes. Becomes `Damage` in this package."""

    def __init__(self, problem: str, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """`values` of one object; every method raises `NotTheTools` for a field of another type, or a missing one that
    has no default."""

    values: Mapping[str, object]

    @classmethod
    def parse(cls, data: bytes) -> Fields:
        try:
            return cls.of(parse_json(data), "the file")
        except BadJson as error:
            raise NotTheTools(str(error), error.position) from error

    @classmethod
    def of(cls, value: object, name: str) -> Fields:
        if not isinstance(value, Mapping):
            raise NotTheTools(f"{name} is not an object")
        return cls(values=value)

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotTheTools(f"field {name!r} is not an integer")
        if not -MAX_OFFSET - 1 <= value <= MAX_OFFSET:
            raise NotTheTools(f"field {name!r} is not an integer of 64 bits")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, str):
            raise NotTheTools(f"field {name!r} is not text")
        return value

    def child(self, name: str) -> Fields:
        """An object; a missing one is empty."""
        value = self.values.get(name)
        return Fields.of({} if value is None else value, f"field {name!r}")

    def children(self, name: str) -> tuple[Fields, ...]:
        """A list of objects; a missing one is empty, for the tool leaves such out."""
        value = self.values.get(name)
        value = () if value is None else value
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise NotTheTools(f"field {name!r} is not a list")
        return tuple(Fields.of(item, f"an item of {name!r}") for item in value)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """The whole object as pairs of text, by name."""
        return tuple((name, self.text(name)) for name in sorted(self.values))

    def integers(self) -> tuple[tuple[int, int], ...]:
        """The whole object as pairs of integers; the names are decimal text."""
        try:
            return tuple((int(name), self.integer(name)) for name in self.values)
        except ValueError as error:
            raise NotTheTools(f"not a number: {error}") from error
