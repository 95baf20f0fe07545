"""Words of a resource as arguments of a command line: any text of a person stays the value of its option. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.model.errors import BadResource
from offsite.model.selection import PATTERN_OPTIONS, escape_pattern


def option_words(who: str, words: Mapping[str, str | int | tuple[str, ...] | None]) -> tuple[str, ...]:
    """`{"topics": ("a", "b"), "commit": None}` → `--topics=a --topics=b`. Every argument is one option with its value,
    hence no value can become an option. `who`: the resource, for errors. Raises `BadResource` for characters unfit for
    a command line."""
    options = [(name, text) for name, value in words.items() for text in _values(value)]
    for name, text in options:
        if not _is_plain(text):
            raise BadResource(
                f"{who}: {name} contains characters that a command line cannot have", hint="remove these characters"
            )
    return tuple(f"--{name}={escape_pattern(text) if name in PATTERN_OPTIONS else text}" for name, text in options)


def _values(value: str | int | tuple[str, ...] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (str(value),)


def _is_plain(text: str) -> bool:
    """Whether the text has no NUL, and can be encoded in UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
