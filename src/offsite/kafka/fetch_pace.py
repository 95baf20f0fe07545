"""How fast a reader may fetch: the port that it asks before each fetch, and tells the size of each answer."""

from __future__ import annotations

from typing import Protocol

from offsite.kafka.fetch_size import FETCH_BYTES


class FetchPace(Protocol):
    @property
    def portion_bytes(self) -> int:
        """The most that a fetch should ask for; a batch that is larger needs more."""

    def before_fetch(self, size_bytes: int) -> None:
        """Wait until a fetch of that size may be sent."""

    def after_fetch(self, size_bytes: int) -> None:
        """Take note of the size of its answer, which may be larger by a batch."""


class Unlimited:
    """As fast as it goes, `portion_bytes` at a time."""

    def __init__(self, portion_bytes: int = FETCH_BYTES) -> None:
        self.portion_bytes = portion_bytes

    def before_fetch(self, size_bytes: int) -> None: ...

    def after_fetch(self, size_bytes: int) -> None: ...


UNLIMITED = Unlimited()
