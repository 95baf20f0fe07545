"""A value that must not be seen: not in logs, tracebacks, plans, or the configuration of Spark.

It travels to workers by pickle, inside a task's closure, and nowhere else.
"""

from __future__ import annotations


class Secret:
    """Holds `text`; every way of printing shows `***`. Only `reveal()` gives it back."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself: call it where it is sent, and keep the result nowhere."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"
