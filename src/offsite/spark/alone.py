"""A cluster without executors: told while it lasts, and an error when it lasts too long. Spark itself would wait for
ever, and say so in a log that nobody reads."""

from __future__ import annotations

from offsite.model.errors import SparkFailed
from offsite.model.journal import warned
from offsite.model.time import format_duration

TELL_AFTER_S = 10.0
"""Executors that are replaced, or that a cluster has yet to start, are not worth a word before."""


class Alone:
    """Times are seconds since the run began. `patience_s`: how long it may last."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since_s: float | None = None
        self._is_told = False

    def heard(self) -> None:
        """Something came from an executor."""
        self._since_s, self._is_told = None, False

    def seen(self, *, at_s: float) -> None:
        """There is none. Raises `SparkFailed` when it has been so for too long."""
        self._since_s = at_s if self._since_s is None else self._since_s
        for_s = at_s - self._since_s
        if for_s >= self._patience_s:
            raise SparkFailed(
                f"the cluster has given no executor for {format_duration(for_s)}",
                hint="look at the cluster: are workers alive, and have they the cores and the memory that executors ask"
                " for? Wait longer with --spark-conf spark.offsite.executors.wait=1h",
            )
        if for_s >= TELL_AFTER_S and not self._is_told:
            self._is_told = True
            warned("no_executor", why="the cluster has given none; tasks wait", for_s=round(for_s))

    def note(self, *, at_s: float) -> str:
        """In words, while it lasts."""
        if self._since_s is None or at_s - self._since_s < TELL_AFTER_S:
            return ""
        return f"the cluster has given no executor for {format_duration(at_s - self._since_s)}"
