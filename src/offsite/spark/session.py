"""Spark, started and stopped: with `pyspark_internals` the only files that build a SparkContext.

A session starts in a thread of its own the moment it is made, so that Spark comes up while the driver plans.
pyspark is imported inside functions only: commands that copy nothing stay quick. Must never hold data or secrets.
"""

from __future__ import annotations

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from offsite.model.check import check
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, OffsiteError, SparkFailed
from offsite.model.journal import warned
from offsite.model.uninterrupted import uninterrupted
from offsite.spark.job import Mailbox, ShuffledJob, SparkJob
from offsite.spark.jobs import TaskJobs, TaskOutcomes
from offsite.spark.local import pyspark_internals
from offsite.spark.local.daemon import TEMPLATE_VARIABLE
from offsite.spark.local.jvm import LocalJvm, java_binary, last_words
from offsite.spark.local.worker_lock import WorkerLock
from offsite.spark.local.worker_template import WorkerTemplate
from offsite.spark.master import check_reachable, runs_in_one_jvm, slots, task_attempts
from offsite.spark.rate_server import RateLimits
from offsite.spark.runner import (
    Done,
    Failed,
    Fed,
    FoundT,
    OnOutcome,
    OnProgress,
    ResultT,
    SentT,
    Shuffle,
    TaskT,
)
from offsite.spark.scratch import Scratch
from offsite.spark.settings import (
    FIRM_SETTINGS,
    MAX_ATTEMPTS,
    WORKER_ENVIRONMENT,
    common_settings,
    local_settings,
    plain_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext


FAREWELL_S = 2.0
"""Time for workers to delete what they were writing, before they are killed."""


class SparkRunner:
    """A `Runner` on Spark: this machine's cores, unless `master` is a cluster's URL. One at a time in a process.

    With `context`: that running one, whose Python workers must be able to import offsite; it is left running. Else one
    is started: `conf` is laid over offsite's own Spark settings and must hold no secret, `preload` names modules that
    workers import before their first task; modules that start threads when imported must stay out of it. `limits`: what
    the tasks of all its runs may move together, those that go by them (see `rate_lease`).
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with a default
        self,
        *,
        master: str | None = None,
        context: SparkContext | None = None,
        app_name: str = "offsite",
        driver_memory_mib: int = 512,
        conf: Mapping[str, str] | None = None,
        preload: Sequence[str] = (),
        limits: RateLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._master = master or f"local[{os.cpu_count() or 1},{MAX_ATTEMPTS}]"
        own = {"spark.app.name": app_name, "spark.driver.memory": f"{driver_memory_mib}m"}
        self._settings = {**own, **(conf or {}), **FIRM_SETTINGS}
        self._borrowed = context
        self._preload = preload
        self._limits = limits or RateLimits()
        self._clock = clock or SystemClock()
        self._session: _Session | None = None
        self._may_be_running = False  # tasks of a run that was broken off

    @property
    def slots(self) -> int:
        return slots(self._master if self._borrowed is None else str(self._borrowed.master))

    def begin(self) -> None:
        self._begun()

    def run(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[ResultT]:
        results = self._run(tasks, self._plain(function), on_progress, None, keep_going=False)
        if (error := results.first_error()) is not None:
            raise error
        return [outcome.value for outcome in results.outcomes() if isinstance(outcome, Done)]

    def run_all(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        *,
        on_progress: OnProgress | None = None,
        on_outcome: OnOutcome[ResultT] | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return list(self._run(tasks, self._plain(function), on_progress, on_outcome, keep_going=True).outcomes())

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[Fed[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        def open_job(
            session: _Session, context: SparkContext, mailbox: Mailbox, numbered: Sequence[tuple[int, TaskT]]
        ) -> SparkJob[TaskT, ResultT]:
            return ShuffledJob(
                context,
                mailbox,
                numbered,
                function,
                everything=tasks,
                shuffle=shuffle,
                max_attempts=session.max_attempts,
                limits=self._limits,
            )

        return list(self._run(tasks, open_job, on_progress, None, keep_going=True).outcomes())

    def halt(self) -> bool:
        if self._may_be_running:
            self.close()
        return not self._may_be_running

    def close(self) -> None:
        if self._session is not None:
            is_over = self._session.close(surely=self._may_be_running)
            self._may_be_running = self._may_be_running and not is_over
            self._session = None

    def _begun(self) -> _Session:
        if self._session is None:
            with uninterrupted():  # a session that nobody knows of would never be closed
                self._session = self._open_session()
        return self._session

    def _open_session(self) -> _Session:
        if self._borrowed is not None:
            return _BorrowedSession(self._borrowed)
        if runs_in_one_jvm(self._master):
            return _LocalSession(self._master, self._settings, preload=self._preload, clock=self._clock)
        return _ClusterSession(self._master, self._settings)

    def _plain(self, function: Callable[[TaskT], ResultT]) -> _OpenJob[TaskT, ResultT]:
        def open_job(
            session: _Session, context: SparkContext, mailbox: Mailbox, numbered: Sequence[tuple[int, TaskT]]
        ) -> SparkJob[TaskT, ResultT]:
            attempts = session.max_attempts
            return SparkJob(context, mailbox, numbered, function, max_attempts=attempts, limits=self._limits)

        return open_job

    def _run(
        self,
        tasks: Sequence[TaskT],
        open_one: _OpenJob[TaskT, ResultT],
        on_progress: OnProgress | None,
        on_outcome: OnOutcome[ResultT] | None,
        *,
        keep_going: bool,
    ) -> TaskOutcomes[ResultT]:
        def open_job(numbered: Sequence[tuple[int, TaskT]]) -> SparkJob[TaskT, ResultT]:
            session = self._begun()
            context, mailbox = session.ready()
            return open_one(session, context, mailbox, numbered)

        before, self._may_be_running = self._may_be_running, True
        try:
            results = TaskJobs(
                tasks,
                open_job,
                on_progress=on_progress,
                on_outcome=on_outcome,
                keep_going=keep_going,
                clock=self._clock,
            ).run()
        except SparkFailed:  # not about a task: this Spark is of no use any more, and the next run starts another
            self.close()
            raise
        self._may_be_running = before or bool(results.open_tasks())
        return results


_OpenJob: TypeAlias = (
    "Callable[[_Session, SparkContext, Mailbox, Sequence[tuple[int, TaskT]]], SparkJob[TaskT, ResultT]]"
)


class _Session(ABC):
    """One SparkContext, from the start in the background to the end."""

    max_attempts = MAX_ATTEMPTS
    """How often Spark tries a task."""

    def __init__(self) -> None:
        self._context: SparkContext | None = None
        self._mailbox: Mailbox | None = None
        self._error: OffsiteError | None = None
        self._starter = threading.Thread(target=self._start, name="offsite-spark-start", daemon=True)
        self._starter.start()

    def ready(self) -> tuple[SparkContext, Mailbox]:
        """Wait for the start to end. Raises what went wrong in it."""
        self._starter.join()
        if self._error is not None:
            raise self._error
        check(self._context is not None and self._mailbox is not None, "a started session has a context")
        return self._context, self._mailbox  # type: ignore[return-value]  # checked in the line above

    def close(self, *, surely: bool = False) -> bool:
        """End the session; with `surely`, wait for the end of its tasks as well. True when it is known for sure that
        none runs any more."""
        self._give_up_start()
        self._starter.join()
        self._stop(surely=surely)
        if self._mailbox is not None:
            self._mailbox.close()
        return self._has_ended(surely=surely)

    def _has_ended(self, *, surely: bool) -> bool:  # noqa: ARG002  # for those who see their workers
        return False  # a cluster's are out of sight, and so are those of a Spark that is not ours

    def _give_up_start(self) -> None:  # noqa: B027  # where nothing can be given up, it is waited for
        """Let a start that is still under way end soon. An error of the command should not wait for Spark."""

    @abstractmethod
    def _build(self) -> SparkContext:
        """Start all it takes, in the starter's thread."""

    @abstractmethod
    def _stop(self, *, surely: bool) -> None:
        """End what `_build` started, however far it came. With `surely`, tasks may be running."""

    def _start(self) -> None:
        try:
            self._context = self._build()
            self._mailbox = Mailbox(self._context)
        except OffsiteError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  # raised to the caller by `ready`
            self._error = SparkFailed(
                f"Spark did not start: {self._explain(error)}",
                hint="check that java -version works and memory is free, then run again",
            )
            self._error.__cause__ = error

    def _explain(self, error: Exception) -> str:
        return str(error).strip().partition("\n")[0]


class _LocalSession(_Session):
    """The JVM started directly and killed at the end: nothing in it outlives its jobs. Where pyspark has changed too
    much for that, Spark's own way."""

    def __init__(self, master: str, settings: Mapping[str, str], *, preload: Sequence[str], clock: Clock) -> None:
        self._master, self._settings, self._preload, self._clock = master, settings, preload, clock
        self._scratch = Scratch()
        self._jvm: LocalJvm | None = None
        self._template: WorkerTemplate | None = None
        self._workers: WorkerLock | None = None
        self._submitted: _SubmittedSpark | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        folder = self._scratch.create()
        settings = {**local_settings(master=self._master, folder=folder), **self._settings}
        try:
            return self._build_quickly(folder, settings)
        except pyspark_internals.PartMissing as error:
            warned("plain_start", why=f"the quick start of Spark needs what this pyspark has not: {error}")
        self._kill()
        self._submitted = _SubmittedSpark(folder / "spark.log")
        return self._submitted.start(plain_settings(settings), python=sys.executable)

    def _build_quickly(self, folder: Path, settings: Mapping[str, str]) -> SparkContext:
        self._workers = WorkerLock(folder)
        environment = {**WORKER_ENVIRONMENT, TEMPLATE_VARIABLE: str(WorkerTemplate.socket_in(folder))}
        self._jvm = LocalJvm(folder, settings, environment=environment, clock=self._clock)
        self._template = WorkerTemplate(folder, self._preload)
        pyspark_internals.check_parts()  # half a second of imports, while the JVM starts
        context = pyspark_internals.join_jvm(*self._jvm.gateway())
        context.pythonExec = sys.executable
        return context

    def _has_ended(self, *, surely: bool) -> bool:
        if self._workers is None:
            return True  # none was ever born
        with closing(self._workers) as workers:
            return surely and self._submitted is None and workers.all_ended()

    def _give_up_start(self) -> None:
        if self._context is None and self._jvm is not None:
            self._jvm.abandon()

    def _stop(self, *, surely: bool) -> None:
        if self._submitted is not None:
            self._submitted.stop(self._context)
            self._scratch.remove()
            return
        if self._context is not None:
            pyspark_internals.expect_the_end(self._context)
        self._kill(surely=surely)
        self._scratch.remove()
        if self._context is not None:
            pyspark_internals.forget(self._context)

    def _kill(self, *, surely: bool = True) -> None:
        """End the JVM and the workers' parent. With `surely`, workers may put away what they were writing."""
        if self._jvm is not None:
            if surely:
                self._jvm.abandon()
            self._jvm.close()
        if self._template is not None:
            if surely and self._workers is not None:
                self._template.hang_up()
                self._workers.all_ended(limit_s=FAREWELL_S)
            self._template.close()


class _ClusterSession(_Session):
    """Spark's own way, with the user's defaults and environment."""

    def __init__(self, master: str, settings: Mapping[str, str]) -> None:
        self._master, self._settings = master, settings
        self._scratch = Scratch()
        self._spark: _SubmittedSpark | None = None
        super().__init__()

    def _build(self) -> SparkContext:
        java_binary()
        check_reachable(self._master)
        self._spark = _SubmittedSpark(self._scratch.create() / "spark.log")
        settings = {"spark.master": self._master, **common_settings(), **self._settings}
        return self._spark.start(settings, python=os.environ.get("PYSPARK_PYTHON", sys.executable))

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # Spark ends its executors itself
        if self._spark is not None:
            self._spark.stop(self._context)
        self._scratch.remove()

    def _explain(self, error: Exception) -> str:
        return (last_words(self._spark.log) if self._spark else "") or super()._explain(error)


class _SubmittedSpark:
    """Spark started by `spark-submit`, which writes into `log`, and ended in an orderly way."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._gateway: Any = None

    def start(self, settings: Mapping[str, str], *, python: str) -> SparkContext:
        """`python` runs the workers."""
        from pyspark import SparkConf, SparkContext

        conf = SparkConf()
        conf.setAll(list(settings.items()))
        self._gateway = self._launched(conf)
        context = SparkContext(conf=conf, gateway=self._gateway)
        self._gateway = self._gateway or getattr(context, "_gateway", None)
        context.pythonExec = python
        return context

    def stop(self, context: SparkContext | None) -> None:
        if context is not None:
            context.stop()
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway.proc.stdin.close()
            self._gateway.proc.wait()
            if context is not None:
                pyspark_internals.forget(context)

    def _launched(self, conf: SparkConf) -> Any:  # noqa: ANN401  # Py4J has no types
        """A JVM with its log in our file; None where pyspark has no such way: it launches one itself then, whose log
        goes to stderr."""
        try:
            from pyspark.java_gateway import launch_gateway
        except ImportError:
            return None
        with self.log.open("wb") as log:
            return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]


class _BorrowedSession(_Session):
    """Somebody else's SparkContext: used, and left as it was."""

    def __init__(self, context: SparkContext) -> None:
        self._lent, self._python = context, context.pythonExec
        super().__init__()

    def _build(self) -> SparkContext:
        if self._lent.getConf().get("spark.speculation", "false") == "true":
            raise BadOption(
                "the Spark session has spark.speculation on: two attempts at one partition would shut each other out",
                hint="start it with spark.speculation=false",
            )
        if runs_in_one_jvm(str(self._lent.master)) and "PYSPARK_PYTHON" not in os.environ:
            self._lent.pythonExec = sys.executable  # pyspark would take any python3 of the PATH, without offsite
        self.max_attempts = task_attempts(str(self._lent.master), self._lent.getConf().get("spark.task.maxFailures"))
        return self._lent

    def _stop(self, *, surely: bool) -> None:  # noqa: ARG002  # its workers are not ours
        self._lent.pythonExec = self._python
