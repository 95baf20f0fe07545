"""Conditions on the decoded value of a record: a JSON pointer (RFC 6901), an operator, and a value to compare with.

`/customer/id=42`: the operator that stands first ends the pointer. A name that contains an operator is written in the
fragment form of RFC 6901, section 6: `#/a%3Db=5`. `42` means the number and the text of the same digits, `"42"` the
text alone. `<` and its like compare numbers with numbers, and texts with texts by code points, so times in ISO 8601
compare as times.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from offsite.model.errors import BadOption
from offsite.model.untrusted.bounded_json import STRICT, BadJson, parse_json
from offsite.model.untrusted.nesting import nests_too_deep

_OPERATOR = re.compile(r"!=|<=|>=|=|<|>")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "": lambda _place, _wanted: True,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_BAD_ESCAPE = re.compile(r"~(?![01])")
_HINT = "write it as /customer/id=42, /total>=100 or /email, by RFC 6901; ~1 means / and ~0 means ~"
_MISSING = object()
_MAX_DEPTH = 100
"""Deeper values are not decoded either (`shown_bytes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCondition:
    """`path`: the names and indexes of the pointer. `compared`: one of `= != < <= > >=`; empty: the place exists.
    `wanted`: what a number, a truth value, null, a list or an object is compared with; empty: nothing equals it.
    `wanted_text`: what a text is compared with."""

    path: tuple[str, ...]
    compared: str = ""
    wanted: tuple[object, ...] = ()
    wanted_text: str = ""

    def matches(self, value: object) -> bool:
        """Whether `value`, decoded JSON, fulfils the condition. A place that does not exist fulfils none."""
        place = _resolve(value, self.path)
        if place is _MISSING:
            return False
        compare = _COMPARISONS[self.compared]
        if isinstance(place, str):
            return compare(place, self.wanted_text)
        if not all(_is_comparable(place, wanted, self.compared) for wanted in self.wanted or (_MISSING,)):
            return self.compared in {"", "!="}
        return all(compare(place, wanted) for wanted in self.wanted)


def parse_condition(text: str) -> ValueCondition:
    """Parse `POINTER`, or `POINTER`, an operator and a value. Raises `BadOption`, which does not quote the text."""
    sign = _OPERATOR.search(text)
    path = _parse_pointer(text if sign is None else text[: sign.start()])
    if sign is None:
        return ValueCondition(path=path)
    typed = text[sign.end() :]
    wanted = _literals(typed)
    is_quoted = typed.startswith('"') and bool(wanted)
    return ValueCondition(
        path=path, compared=sign[0], wanted=wanted, wanted_text=str(wanted[0]) if is_quoted else typed
    )


def _literals(text: str) -> tuple[object, ...]:
    """The JSON value that `text` is; empty: it is none."""
    try:
        value = parse_json(text.encode("utf-8", "replace"), decoder=STRICT)
    except BadJson:
        return ()
    return () if nests_too_deep(value, most=_MAX_DEPTH) else (value,)


def _parse_pointer(pointer: str) -> tuple[str, ...]:
    try:
        plain = unquote(pointer[1:], errors="strict") if pointer.startswith("#") else pointer
    except UnicodeDecodeError as error:
        raise BadOption("the bytes of a JSON pointer are not UTF-8", hint=_HINT) from error
    if (plain and not plain.startswith("/")) or _BAD_ESCAPE.search(plain):
        raise BadOption("a condition on a value does not begin with a JSON pointer", hint=_HINT)
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in plain.split("/")[1:])


def _resolve(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value


def _is_comparable(place: object, wanted: object, compared: str) -> bool:
    """Whether JSON compares both: true is not 1, and only numbers have an order."""
    are_numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (place, wanted))
    return are_numbers or (compared in {"=", "!="} and type(place) is type(wanted))
