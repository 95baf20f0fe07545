"""Names in one line of text, however many there are."""

from __future__ import annotations

from collections.abc import Sequence


def amount(number: int, noun: str) -> str:
    """Such as "1 topic" or "1,200 ranges"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def named(names: Sequence[str], *, most: int, of: str = "") -> str:
    """The first `most` of `names`, and how many more there are: "a, b and 3 more". `of`: what the rest are, plural."""
    told = ", ".join(names[:most])
    rest = len(names) - most
    return f"{told} and {rest} more {of}".rstrip() if rest > 0 else told
