"""The fields of an index or a manifest, read strictly: sealed bytes, known members, numbers that Kafka can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from offsite.model.bounded_json import BadJson, decode_json
from offsite.model.bounds import MAX_OFFSET
from offsite.model.digest import DIGEST_KEY, DigestState, check_digest, with_digest
from offsite.model.errors import BadName
from offsite.model.names import check_topic_name

__all__ = [
    "MAX_INT",
    "BadIndex",
    "Fields",
    "encoded",
    "integer",
    "integers",
    "object_of",
    "objects",
    "parsed",
    "rows",
    "text",
    "texts",
    "topic_name",
]

FORMAT = 1
"""The version of both files. Added fields do not change it: readers ignore them where the digest vouches for them."""

MAX_INT = (1 << 31) - 1

Fields = Mapping[str, object]


class BadIndex(ValueError):
    """The bytes are no index; `position` is where they stop making sense (0 when the whole does not)."""

    def __init__(self, problem: str, *, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


def encoded(fields: Fields) -> bytes:
    return with_digest((json.dumps({"format": FORMAT, **fields}, sort_keys=True, indent=1) + "\n").encode("ascii"))


def parsed(data: bytes, *, unsealed: frozenset[str]) -> Fields:
    """`unsealed`: all that files had which were written before there was a digest. Any other member says that there was
    one, and that it, or its name, is not as it was. Raises `BadIndex`."""
    fields = _loaded(data)
    match check_digest(data):
        case DigestState.WRONG:
            raise BadIndex("its bytes are not those that its digest is of")
        case DigestState.ABSENT if other := sorted(fields.keys() - unsealed - {"format"}):
            raise BadIndex(f"has {other[0]!r}, and no {DIGEST_KEY} at its end that fits")
        case _:
            pass
    if (version := integer(fields, "format")) != FORMAT:
        raise BadIndex(f"format {version}; this offsite reads {FORMAT}")
    return fields


def _loaded(data: bytes) -> Fields:
    try:
        fields = decode_json(data, decoder=_UNAMBIGUOUS)
    except BadJson as error:
        raise BadIndex(str(error), position=error.position) from error
    if not isinstance(fields, dict):
        raise BadIndex("not a JSON object")
    return fields


def _unambiguous(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("an object names a field twice")
    return fields


_UNAMBIGUOUS = json.JSONDecoder(object_pairs_hook=_unambiguous)


def text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else _wrong(name, "text")


def topic_name(topic: str) -> str:
    """`topic`, which must be a name that Kafka accepts."""
    try:
        return check_topic_name(topic)
    except BadName as error:
        raise BadIndex(error.message) from error


def integer(fields: Fields, name: str, *, least: int = 0, most: int = MAX_OFFSET) -> int:
    return _integer(name, fields.get(name), least, most)


def object_of(fields: Fields, name: str) -> Fields:
    value = fields.get(name)
    return value if isinstance(value, dict) else _wrong(name, "an object")


def objects(fields: Fields, name: str) -> Sequence[Fields]:
    return [each if isinstance(each, dict) else _wrong(name, "a list of objects") for each in _list(fields, name)]


def texts(fields: Fields, name: str) -> Sequence[str]:
    return [each if isinstance(each, str) else _wrong(name, "a list of texts") for each in _list(fields, name)]


def integers(fields: Fields, name: str, *, least: int = 0, most: int = MAX_OFFSET) -> Sequence[int]:
    return [_integer(name, each, least, most) for each in _list(fields, name)]


def rows(fields: Fields, name: str) -> Sequence[Sequence[int]]:
    lists = [each if isinstance(each, list) else _wrong(name, "a list of rows") for each in _list(fields, name)]
    return [[_integer(name, each, 0, MAX_OFFSET) for each in row] for row in lists]


def _list(fields: Fields, name: str) -> Sequence[object]:
    value = fields.get(name)
    return value if isinstance(value, list) else _wrong(name, "a list")


def _integer(name: str, value: object, least: int, most: int) -> int:
    if type(value) is not int:
        _wrong(name, "an integer")
    if not least <= value <= most:
        _wrong(name, f"from {least} to {most}")
    return value


def _wrong(name: str, wanted: str) -> NoReturn:
    raise BadIndex(f"field {name!r} is not {wanted}")
