"""Reads the fields of an index or a manifest strictly: sealed bytes, known members, numbers within Kafka's limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Self

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadName
from offsite.model.names import check_topic_name
from offsite.model.untrusted.bounded_json import (
    DIGEST_KEY,
    UNAMBIGUOUS,
    BadJson,
    DigestState,
    check_digest,
    decode_object,
    with_digest,
)
from offsite.model.untrusted.json_object import JsonObject, JsonValue

__all__ = ["BadIndex", "IndexObject", "encode_sealed", "parse_sealed", "parse_topic_name"]

FORMAT = 1
"""The version of both files. New fields do not change the version: readers ignore new fields vouched for by the
digest."""


class BadIndex(ValueError):
    """The bytes are no index. `position`: where parsing failed, 0 when the whole file is wrong."""

    def __init__(self, problem: str, *, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


class IndexObject(JsonObject):
    """An object of an index. Lists are mandatory; errors name the bounds of a number."""

    __slots__ = ()
    ANY_TEXT = True

    def integers(self, name: str, *, least: int = 0, most: int = MAX_OFFSET) -> tuple[int, ...]:
        return tuple(self._bounded(name, value, least, most) for value in self._list(name))

    def rows(self, name: str) -> list[list[int]]:
        """Return a list of lists of integers; no integer is below 0."""
        values = self._list(name)
        rows = [row for row in values if isinstance(row, list)]
        if len(rows) != len(values):
            raise self.wrong(name, "a list of rows")
        return [[self._bounded(name, value, 0, MAX_OFFSET) for value in row] for row in rows]

    def _bounded(self, name: str, value: JsonValue, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            raise self._no_integer(name, value, least, most)
        return value

    def _item(self, name: str, value: JsonValue) -> Self:
        if not isinstance(value, dict):
            raise self.wrong(name, "a list of objects")
        return self._object(name, value)

    def _list(self, name: str) -> Sequence[JsonValue]:
        if name not in self.fields:
            raise self.wrong(name, "a list")
        return super()._list(name)

    def _no_integer(self, name: str, value: JsonValue, least: int, most: int) -> Exception:
        return self.wrong(name, "an integer" if type(value) is not int else f"from {least} to {most}")


def encode_sealed(fields: Mapping[str, object]) -> bytes:
    return with_digest((json.dumps({"format": FORMAT, **fields}, sort_keys=True, indent=1) + "\n").encode("ascii"))


def parse_sealed(data: bytes, *, unsealed: frozenset[str]) -> IndexObject:
    """Parse sealed bytes. `unsealed`: the members of files written before digests existed. Any further member shows
    that a digest existed, and that the digest or its name was changed. Raises `BadIndex`."""
    try:
        document = IndexObject(fields=decode_object(data, decoder=UNAMBIGUOUS), damaged=BadIndex)
    except BadJson as error:
        raise BadIndex(str(error), position=error.position) from error
    match check_digest(data):
        case DigestState.WRONG:
            raise BadIndex("its bytes do not match its digest")
        case DigestState.ABSENT if other := sorted(document.fields.keys() - unsealed - {"format"}):
            raise BadIndex(f"has {other[0]!r}, but no matching {DIGEST_KEY} at its end")
        case _:
            pass
    if (version := document.count("format")) != FORMAT:
        raise BadIndex(f"format {version}; this offsite reads {FORMAT}")
    return document


def parse_topic_name(topic: str) -> str:
    """Parse the field `topic`, a name accepted by Kafka."""
    try:
        return check_topic_name(topic)
    except BadName as error:
        raise BadIndex(error.message) from error
