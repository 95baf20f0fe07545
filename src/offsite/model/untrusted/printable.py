"""Text of others on a screen: a name or a message may hold what moves a cursor, turns text around or begins a line."""

from __future__ import annotations

__all__ = ["printable", "printable_lines"]


def printable(text: str) -> str:
    """`text` in one line, with Python escapes for all that is not a visible character or a space."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """The same for text that may have several lines: those behind the first are indented, so that none of them looks
    like one of ours."""
    first, *rest = text.split("\n")
    indented = (line if line.startswith(" ") or not line else f"  {line}" for line in rest)
    return "\n".join(map(printable, (first, *indented)))
