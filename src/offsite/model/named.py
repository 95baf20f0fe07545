"""Names in one line of text, however many."""

from __future__ import annotations

from collections.abc import Sequence


def amount(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 topic" or "1,200 ranges"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def named(names: Sequence[str], *, most: int, of: str = "") -> str:
    """Return the first `most` of `names`, and the number of the rest: "a, b and 3 more". `of`: the noun of the rest,
    plural."""
    text = ", ".join(names[:most])
    omitted = len(names) - most
    return f"{text} and {omitted} more {of}".rstrip() if omitted > 0 else text
