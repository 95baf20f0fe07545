"""A cluster without executors: shown while the state lasts, and an error when it lasts too long. Spark itself would
wait for ever, and tell only a log that nobody reads."""

from __future__ import annotations

from offsite.model.clock import Clock
from offsite.model.errors import SparkFailed
from offsite.model.journal import warned
from offsite.model.time import format_duration
from offsite.model.waits import Wait

TELL_AFTER_S = 10.0
"""Replaced executors, or executors that a cluster has yet to start, are not worth a message before."""


class ExecutorOutage:
    """Watches for a cluster without executors. `patience_s`: seconds that the state may last."""

    def __init__(self, patience_s: float, clock: Clock) -> None:
        self._patience_s, self._clock = patience_s, clock
        self._wait: Wait | None = None
        self._is_told = False

    def mark_present(self) -> None:
        """Note an answer of an executor, or the end of the wait."""
        if self._wait is not None:
            self._wait.__exit__(None, None, None)
        self._wait, self._is_told = None, False

    def mark_absent(self) -> None:
        """Note a cluster without executors. Raises `SparkFailed` when the state has lasted too long."""
        if self._wait is None:
            self._wait = Wait(lambda: "the Spark cluster has provided no executor", since_s=self._clock.monotonic_s())
            self._wait.__enter__()
        for_s = self._for_s()
        if for_s >= self._patience_s:
            raise SparkFailed(
                f"the Spark cluster has provided no executor for {format_duration(for_s)}",
                hint="check that its workers are alive and have enough cores and memory for executors. Run the same "
                "command again: it continues where it stopped. To wait longer: --spark-conf "
                "spark.offsite.executors.wait=1h",
            )
        if for_s >= TELL_AFTER_S and not self._is_told:
            self._is_told = True
            warned("no_executor", why="the cluster has provided no executor; tasks wait", for_s=round(for_s))

    def note(self) -> str:
        """Return the state in words, while it lasts."""
        for_s = self._for_s()
        return (
            f"the Spark cluster has provided no executor for {format_duration(for_s)}" if for_s >= TELL_AFTER_S else ""
        )

    def _for_s(self) -> float:
        return 0.0 if self._wait is None else self._clock.monotonic_s() - self._wait.since_s
