"""How values that others wrote are told in messages: short, in one line, and never as large as they are."""

from __future__ import annotations

from offsite.model.untrusted.printable import printable

TOLD_MAX_CHARS = 120


def shortened(text: str) -> str:
    """The beginning of a `text`, in one line."""
    return printable(text if len(text) <= TOLD_MAX_CHARS else f"{text[:TOLD_MAX_CHARS]}…")


def shown(value: object) -> str:
    """Text in quotes; of what is no text only its kind: it may hold anything."""
    if isinstance(value, str):
        return f"'{shortened(value)}'"
    kinds = {type(None): "nothing", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")
