"""One SparkContext, from its start in the background to its end. All kinds share this part: also a context of somebody
else, and a cluster whose executors arrive one after the other."""

from __future__ import annotations

import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsite.engine.job import WorkerMailbox
from offsite.engine.local import pyspark_internals
from offsite.engine.sessions.master import runs_in_one_jvm, slots, task_attempts
from offsite.engine.settings import MAX_ATTEMPTS, STRANGERS, accepts_strangers, is_private
from offsite.model.errors import BadOption, OffsiteError, SparkFailed, check
from offsite.model.journal import warned
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.java_failure import hint_here, innermost_exception

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


WAIT_MAX_S = 30.0
"""How long a run waits for the first executor before it plans without a count: pulling an image takes longer, and a
guess will do."""
SETTLED_AFTER_S = 1.0
"""After as long without a further executor, the present executors count as all."""
POLL_S = 0.1
_NO_LIMIT = 1 << 20
WAIT_SETTING = "spark.offsite.executors.wait"
WAIT_DEFAULT = "10m"


def wait_for_executors(context: SparkContext) -> None:
    """Return when as many executors are present as the settings ask for; without such a setting, when no more come; and
    after `WAIT_MAX_S` in any case."""
    if runs_in_one_jvm(str(context.master)):
        return
    requested = _asked_for(context.getConf())
    began_s = changed_s = time.monotonic()
    last_running = 0
    while (now_s := time.monotonic()) - began_s < WAIT_MAX_S:
        running = pyspark_internals.running_at_once(context)
        if running != last_running:
            last_running, changed_s = running, now_s
        if last_running >= requested or (last_running and now_s - changed_s >= SETTLED_AFTER_S):
            return
        time.sleep(POLL_S)


def patience_s(chosen: Mapping[str, str]) -> float:
    """Return how long a run waits for an executor while there is none, in seconds. Raises `BadOption`."""
    return parse_duration_s(chosen.get(WAIT_SETTING, WAIT_DEFAULT))


def has_executors(context: SparkContext) -> bool:
    """Whether tasks of `context` can run just now; True where unknown."""
    return runs_in_one_jvm(str(context.master)) or pyspark_internals.executors_now(context) != 0


def cluster_slots(context: SparkContext) -> int:
    """Return the number of tasks that the executors of `context` run at once, or may come to run on a growing cluster;
    a guess without executors."""
    if runs_in_one_jvm(str(context.master)):
        return slots(str(context.master))
    return max(pyspark_internals.running_at_once(context), _grows_to(context.getConf())) or slots(str(context.master))


def _asked_for(conf: SparkConf) -> int:
    """Return the number by the settings, or more than any cluster has."""
    if cores := _number(conf, "spark.cores.max"):
        return cores // _task_cpus(conf)
    return _number(conf, "spark.executor.instances") * _tasks_of_one(conf) or _NO_LIMIT


def _grows_to(conf: SparkConf) -> int:
    """Return the limit of dynamic allocation, where set; else 0."""
    if (conf.get("spark.dynamicAllocation.enabled") or "").strip().lower() != "true":
        return 0
    return _number(conf, "spark.dynamicAllocation.maxExecutors") * _tasks_of_one(conf)


def _tasks_of_one(conf: SparkConf) -> int:
    return max(1, (_number(conf, "spark.executor.cores") or 1) // _task_cpus(conf))


def _task_cpus(conf: SparkConf) -> int:
    return _number(conf, "spark.task.cpus") or 1


def _number(conf: SparkConf, name: str) -> int:
    text = conf.get(name) or ""
    return int(text) if text.isdecimal() else 0


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
        try:
            text = str(error)
        except Exception:  # noqa: BLE001  # the text of a Java exception is asked of the JVM, which may have ended
            return type(error).__name__
        if words := innermost_exception(text):
            return words
        first, _, following = text.strip().partition("\n")
        return following.partition("\n")[0].removeprefix(": ") if first.startswith("An error occurred while") else first


class BorrowedSession(ContextSession):
    """Somebody else's SparkContext, returned by `lend`: used, and left as found."""

    def __init__(self, lend: Callable[[], SparkContext]) -> None:
        self._lend = lend
        self._lent: SparkContext | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        self._lent = lent = self._lend()
        self._python = lent.pythonExec
        if (lent.getConf().get("spark.speculation") or "").strip().lower() == "true":
            raise BadOption(
                "the Spark session has spark.speculation on: two attempts at one partition would stop each other",
                hint="start the session with spark.speculation=false",
            )
        if runs_in_one_jvm(str(lent.master)) and "PYSPARK_PYTHON" not in os.environ:
            lent.pythonExec = sys.executable  # pyspark would take any python3 of the PATH, without offsite
        self.max_attempts = task_attempts(str(lent.master), lent.getConf().get("spark.task.maxFailures"))
        return lent

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # its workers are not ours
        if self._lent is not None:
            self._lent.pythonExec = self._python
