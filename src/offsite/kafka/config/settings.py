"""Settings by name, each remembering the file and line it came from, so that an error can point there.

Read from Java's `.properties` syntax: comments, continued lines, escapes, `=`, `:` or blank between name and value.
Source: `java.util.Properties.load`, read as UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsite.kafka.config.config import Secret
from offsite.model.errors import BadKafkaConfig
from offsite.model.untrusted.whole_number import whole_number

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PROPERTY = re.compile(r"\A((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_MAX_MS = (1 << 31) - 1  # about 24 days: sockets and locks refuse much more
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a file. `line` counts from 1: where the property begins. The value may be a secret, so it is
    never printed."""

    name: str
    value: str
    line: int

    def __repr__(self) -> str:
        return f"Property({self.name!r}, line {self.line})"


def parse_properties(text: str) -> list[Property]:
    """All properties in order; a name given twice is there twice. Every text is readable, as in Java."""
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


class Settings:
    """Read-only. Of a name given twice the later one counts. Errors never hold a value unless asked to show it."""

    def __init__(self, source: str, properties: Iterable[Property]) -> None:
        self._source = source
        self._properties = {each.name: each for each in properties}

    def get(self, *names: str) -> str:
        """The value under the first of these names that is set, or an empty text."""
        return next((self._properties[name].value.strip() for name in names if name in self._properties), "")

    def secret(self, *names: str) -> Secret | None:
        value = self.get(*names)
        return Secret(value) if value else None

    def has(self, *names: str) -> bool:
        return any(name in self._properties for name in names)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        value = self.get(name).upper() or default
        if value not in allowed:
            raise self.bad(name, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def milliseconds(self, *names: str, default: int) -> int:
        name = next((each for each in names if self.has(each)), names[0])
        value = self.get(name) or str(default)
        if not (number := whole_number(value)):
            raise self.bad(name, f"{value[:100]!r} is not a positive number of milliseconds")
        return min(number, _MAX_MS)

    def read_file(self, name: str) -> bytes:
        """The content of the file that setting names."""
        try:
            return Path(self.get(name)).read_bytes()
        except OSError as error:
            raise self.bad(name, f"cannot read {self.get(name)}: {error.strerror}") from error

    def parse(self, name: str, parse: Callable[[str], T]) -> T:
        """The value of a setting, read by `parse`, whose `BadKafkaConfig` is told with file and line."""
        try:
            return parse(self.get(name))
        except BadKafkaConfig as error:
            raise self.bad(name, error.message, hint=error.hint) from error

    def bad(self, name: str, reason: str, *, hint: str = "") -> BadKafkaConfig:
        found = self._properties.get(name)
        place = f"{self._source}:{found.line}" if found else self._source
        return BadKafkaConfig(f"{place}: {name}: {reason}", hint=hint or f"correct {name} in {self._source}")

    def unknown(self, known: Collection[str]) -> tuple[str, ...]:
        """One line for each setting that is not among `known`."""
        strangers = (each for each in self._properties.values() if each.name not in known)
        return tuple(f"{self._source}:{each.line}: {each.name} is not used by offsite" for each in strangers)
