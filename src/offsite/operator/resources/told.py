"""Shows foreign values in messages: short, on one line, and never in full size."""

from __future__ import annotations

from offsite.model.untrusted.text import printable

SHOWN_MAX_CHARS = 120


def shorten(text: str) -> str:
    """Return the beginning of a `text`, on one line."""
    return printable(text if len(text) <= SHOWN_MAX_CHARS else f"{text[:SHOWN_MAX_CHARS]}…")


def show_value(value: object) -> str:
    """Return text in quotes. For any further value return only its kind, because the value may hold anything."""
    if isinstance(value, str):
        return f"'{shorten(value)}'"
    kinds = {type(None): "nothing", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")
