"""Text of others on a screen: a name or a message may hold what moves a cursor, turns text around or begins a line."""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]


def printable(text: str) -> str:
    """The `text` in one line, with Python escapes for all that is not a visible character or a space."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """The `text` with its line breaks, otherwise as `printable` gives it: the lines behind the first are indented, so
    that none of them looks like one of ours."""
    first, *rest = text.split("\n")
    indented = (line if line.startswith(" ") or not line else f"  {line}" for line in rest)
    return "\n".join(map(printable, (first, *indented)))
