"""What this process waits for outside of itself at this moment: a broker's answer, the store, records of a copy.

Whoever waits cannot say so, because it waits: a broker that is frozen takes requests and answers none until their time
is up. So each wait is noted here while it lasts, and a thread beside it tells a person or a probe of the longest one
(`services.waiting`). A note proves nothing and decides nothing. Times are seconds of the machine's monotonic
clock.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self


class Wait:
    """A wait for as long as its `with` block lasts. `what` says in one line what has not happened; it is asked by
    another thread. `since_s` may be moved on while it lasts: then something had come."""

    __slots__ = ("_what", "since_s")

    def __init__(self, what: Callable[[], str], *, since_s: float) -> None:
        self._what, self.since_s = what, since_s

    @property
    def what(self) -> str:
        return self._what()

    def __enter__(self) -> Self:
        _open[id(self)] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.pop(id(self), None)


_open: dict[int, Wait] = {}


def longest_wait() -> Wait | None:
    """The wait that has lasted longest of those that have not ended. For any thread."""
    return min(tuple(_open.values()), key=lambda wait: wait.since_s, default=None)
