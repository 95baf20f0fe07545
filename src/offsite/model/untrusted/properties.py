"""Java's `.properties` syntax: comments, continued lines, escapes, `=`, `:` or blank between name and value.

Source: `java.util.Properties.load`, read as UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PROPERTY = re.compile(r"\A((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a file. `line`: the first line of the property, from 1. The value may be a secret, and is never
    printed."""

    name: str
    value: str
    line: int

    def __repr__(self) -> str:
        return f"Property({self.name!r}, line {self.line})"


def parse_properties(text: str) -> list[Property]:
    """Return all properties in order, repeated names included. Every text is readable, as in Java."""
    return [_property(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    number, parts = 0, list[str]()
    for count, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(_BLANK)
        if not parts and (not line or line[0] in "#!"):
            continue
        number = number if parts else count
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield number, "".join(parts)
            parts = []
    if parts:
        yield number, "".join(parts)


def _property(line: str, number: int) -> Property:
    ((name, value),) = _PROPERTY.findall(line)
    return Property(name=_unescape(name), value=_unescape(value), line=number)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
