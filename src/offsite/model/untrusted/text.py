"""Text from outside: decoded, made safe for a screen, and Java's `.properties`.

Files of people are UTF-8, with or without a byte order mark, as put in front by editors of Windows. A name or a message
of strangers may hold characters that move a cursor, turn text around or begin a line. `.properties`: comments,
continued lines, escapes, `=`, `:` or blank between name and value (`java.util.Properties.load`, read as UTF-8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

SHOWN_MAX_CHARS = 120
"""Characters of a foreign value shown in an error."""
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PROPERTY = re.compile(r"\A((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


class NotUtf8(ValueError):
    """Names the byte and the line that are no UTF-8."""


def decode_text(data: bytes) -> str:
    """Decode the text, without the mark; line breaks stay. Raises `NotUtf8`."""
    if data.startswith(_UTF_16):
        raise NotUtf8("it is UTF-16: save the file as UTF-8")
    data = data.removeprefix(_MARK)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        byte = data[error.start]
        raise NotUtf8(f"line {line}: byte {column} (0x{byte:02x}) is not UTF-8: save the file as UTF-8") from error


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def printable(text: str) -> str:
    """Return `text` in one line, with Python escapes for everything but visible characters and spaces."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shorten(text: str) -> str:
    """Return the beginning of a `text`, on one line."""
    return printable(text if len(text) <= SHOWN_MAX_CHARS else f"{text[:SHOWN_MAX_CHARS]}…")


def printable_lines(text: str) -> str:
    """Return `text` with its line breaks, otherwise as `printable`. Lines behind the first are indented, so that none
    looks like a line of offsite."""
    first, *following = text.split("\n")
    indented = (line if line.startswith(" ") or not line else f"  {line}" for line in following)
    return "\n".join(map(printable, (first, *indented)))


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
    """Undo the escapes. A character beyond U+FFFF has two, as in UTF-16; half of one becomes U+FFFD."""
    halves = _ESCAPE.sub(_unescape_one, text)
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
