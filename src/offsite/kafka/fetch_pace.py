"""The port for the speed of a reader: the reader asks before every fetch, and reports the size of every answer."""

from __future__ import annotations

from typing import Protocol

from offsite.kafka.fetch_size import FETCH_BYTES


class FetchPace(Protocol):
    @property
    def portion_bytes(self) -> int:
        """The most bytes that a fetch should ask for. A larger batch needs more."""

    def before_fetch(self, size_bytes: int) -> None:
        """Wait until a fetch of `size_bytes` may be sent."""

    def after_fetch(self, size_bytes: int) -> None:
        """Record the size of the answer, which may exceed the fetch by a batch."""


class Unlimited:
    """No limit: fetch `portion_bytes` at a time."""

    def __init__(self, portion_bytes: int = FETCH_BYTES) -> None:
        self.portion_bytes = portion_bytes

    def before_fetch(self, size_bytes: int) -> None: ...

    def after_fetch(self, size_bytes: int) -> None: ...


UNLIMITED = Unlimited()
