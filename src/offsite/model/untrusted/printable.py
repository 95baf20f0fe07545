"""Text of strangers on a screen: a name or a message may hold characters that move a cursor, turn text around or begin
a line."""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]


def printable(text: str) -> str:
    """Return `text` in one line, with Python escapes for everything but visible characters and spaces."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def printable_lines(text: str) -> str:
    """Return `text` with its line breaks, otherwise as `printable`. Lines behind the first are indented, so that none
    looks like a line of offsite."""
    first, *following = text.split("\n")
    indented = (line if line.startswith(" ") or not line else f"  {line}" for line in following)
    return "\n".join(map(printable, (first, *indented)))
