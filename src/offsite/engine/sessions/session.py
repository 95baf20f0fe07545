"""One SparkContext, from the start in the background to the end: the common part of all kinds."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from offsite.engine.job import WorkerMailbox
from offsite.engine.sessions.executors import cluster_slots, wait_for_executors
from offsite.engine.sessions.master import runs_in_one_jvm
from offsite.engine.settings import MAX_ATTEMPTS, STRANGERS, accepts_strangers, is_private
from offsite.model.check import check
from offsite.model.errors import OffsiteError, SparkFailed
from offsite.model.journal import warned
from offsite.model.untrusted.java_words import hint_here, innermost_exception

if TYPE_CHECKING:
    from pyspark import SparkContext


class ContextSession(ABC):
    """One SparkContext, from the start in the background to the end."""

    max_attempts = MAX_ATTEMPTS
    """How often Spark tries a task."""
    accepts_strangers = False
    """Whether anybody who reaches the ports of the cluster may send it code, and nobody declared this acceptable. Known
    once ready."""
    is_private = False
    """Whether nobody but this machine and Spark's executors can read the traffic to executors. Known once ready."""

    def __init__(self) -> None:
        self._context: SparkContext | None = None
        self._mailbox: WorkerMailbox | None = None
        self._error: OffsiteError | None = None
        self._has_waited = False
        self._starter = threading.Thread(target=self._start, name="offsite-spark-start", daemon=True)
        self._starter.start()

    def ready(self) -> tuple[SparkContext, WorkerMailbox]:
        """Wait for the end of the start. Raises the error of the start."""
        self._starter.join()
        if self._error is not None:
            raise self._error
        check(self._context is not None and self._mailbox is not None, "a started session has a context")
        return self._context, self._mailbox  # type: ignore[return-value]  # checked in the line above

    def slots(self) -> int:
        """Return the number of tasks that run at once on the present executors; the first call waits for the first
        executors. Raises the error of the start."""
        context, _ = self.ready()
        if not self._has_waited:
            wait_for_executors(context)
            self._has_waited = True
        return cluster_slots(context)

    def close(self, *, surely: bool = False) -> bool:
        """End the session; with `surely`, also wait for the end of its tasks. True when surely no task runs any
        more."""
        self._give_up_start()
        self._starter.join()
        self._stop(surely=surely)
        if self._mailbox is not None:
            self._mailbox.close()
        return self._has_ended(surely=surely)

    def _has_ended(self, *, surely: bool) -> bool:  # noqa: ARG002  # for sessions that see their workers
        return False  # workers of a cluster, or of a borrowed Spark, are out of sight

    def _give_up_start(self) -> None:  # noqa: B027  # by default the start runs to its end
        """Let a start in progress end soon. An error of the command should not wait for Spark."""

    @abstractmethod
    def _build(self) -> SparkContext:
        """Start everything needed, in the starter's thread."""

    @abstractmethod
    def _stop(self, *, surely: bool) -> None:
        """End everything that `_build` started, however far `_build` came. With `surely`, tasks may be running."""

    def _start(self) -> None:
        try:
            self._context = self._build()
            self._mailbox = WorkerMailbox(self._context)
            in_one_jvm = runs_in_one_jvm(str(self._context.master))
            settings = dict(self._context.getConf().getAll())
            self.is_private = in_one_jvm or is_private(settings)
            is_open = accepts_strangers(settings, in_one_jvm=in_one_jvm)
            self.accepts_strangers = is_open and not in_one_jvm and settings.get(STRANGERS) != "allowed"
            if is_open:
                warned(
                    "spark_open",
                    why="Spark runs without authentication: anybody who reaches its ports can run code there",
                )
        except OffsiteError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  # raised to the caller by `ready`
            words = self._explain(error)
            self._error = SparkFailed(f"Spark did not start: {words}", hint=hint_here(words))
            self._error.__cause__ = error

    def _explain(self, error: Exception) -> str:
        if words := innermost_exception(str(error)):
            return words
        first, _, following = str(error).strip().partition("\n")
        return following.partition("\n")[0].removeprefix(": ") if first.startswith("An error occurred while") else first
