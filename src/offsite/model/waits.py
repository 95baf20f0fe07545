"""The present outside waits of this process: for a broker's answer, the store, records of a copy.

A waiting thread cannot report its wait: a frozen broker takes requests and answers none until the time is up. So every
wait is noted here while it lasts, and a second thread tells a person or a probe of the longest wait
(`services.waiting`). A note proves nothing and decides nothing. Times are seconds of the machine's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self


class Wait:
    """A wait as long as the `with` block. `describe` returns in one line the missing event, and is called by another
    thread. `since_s` may be moved forward while the wait lasts, after a part has arrived."""

    __slots__ = ("_what", "since_s")

    def __init__(self, describe: Callable[[], str], *, since_s: float) -> None:
        self._what, self.since_s = describe, since_s

    @property
    def description(self) -> str:
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
    """Return the longest of the unfinished waits. For any thread."""
    return min(tuple(_open.values()), key=lambda wait: wait.since_s, default=None)
