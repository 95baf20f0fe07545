"""The runner on Spark: tasks in, outcomes out.

A session starts in a separate thread as soon as made, so that Spark starts while the driver plans. pyspark is imported
inside functions only: commands without a copy stay quick. The module must never hold data or secrets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from offsite.engine.executor_archive import NO_ARCHIVE, archive_settings
from offsite.engine.job import JobEnvironment, ShuffledJob, SparkJob
from offsite.engine.jobs import TaskJobs, TaskOutcomes
from offsite.engine.rate_limits import RateLimits
from offsite.engine.runner import (
    Done,
    Failed,
    FoundT,
    OnOutcome,
    OnProgress,
    ResultT,
    Runner,
    SentT,
    Shuffle,
    ShuffledTask,
    TaskT,
)
from offsite.engine.sessions.local_session import LocalSession
from offsite.engine.sessions.master import SUBMITTED, runs_in_one_jvm, slots
from offsite.engine.sessions.session import BorrowedSession, ContextSession, has_executors, patience_s
from offsite.engine.sessions.submitted_spark import ClusterSession, check_submitted, submitted_context
from offsite.engine.settings import MAX_ATTEMPTS, STRANGERS, SparkChoice
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import OpenSpark, SparkFailed
from offsite.model.options import SecretsChoice
from offsite.model.secret import SecretHandling
from offsite.model.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkRunner(Runner):
    """A `Runner` on the chosen Spark: by default on this machine's cores. One at a time in a process.

    With `context`: use the running context, and leave it running; its Python workers must be able to import offsite.
    Else a context is started, called `app_name`. `preload`: modules that parents of workers import, once for all
    workers; modules that start threads at import must stay out. `limits`: bytes that the tasks of all runs may move
    together, for tasks that use `rate_lease`. Raises `BadOption`, and `BadSparkArchive` for an archive that does not
    fit.
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with a default
        self,
        choice: SparkChoice | None = None,
        *,
        context: SparkContext | None = None,
        app_name: str = "offsite",
        preload: Sequence[str] = (),
        limits: RateLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._choice = choice or SparkChoice()
        self._master = self._choice.master or f"local[{os.cpu_count() or 1},{MAX_ATTEMPTS}]"
        self._chosen = {"spark.app.name": app_name, **self._choice.conf}
        self._patience_s = patience_s(self._chosen)
        self._archive = archive_settings(self._choice.archive) if self._choice.archive else NO_ARCHIVE
        self._lend = _lender(context, self._choice)
        self._preload = preload
        self._limits = limits or RateLimits()
        self._clock = clock or SystemClock()
        self._session: ContextSession | None = None
        self._may_be_running = False  # tasks of an interrupted run

    @property
    def slots(self) -> int:
        """Number of tasks that run at once; on a cluster, of the present executors. The first call waits until some
        executors are present."""
        is_local = self._lend is None and runs_in_one_jvm(self._master)
        return slots(self._master) if is_local else self._begun().slots()

    def begin(self) -> None:
        self._begun()

    def await_start(self) -> None:
        self._begun().ready()

    def refuse_strangers(self) -> None:
        """Wait for Spark, and raise `OpenSpark` where anybody who reaches the ports may send code."""
        if self._lend is None and runs_in_one_jvm(self._master):
            return
        self.await_start()
        if self._begun().accepts_strangers:
            raise OpenSpark(
                "this Spark runs without authentication: anybody who reaches its ports could write into the target",
                hint="enable spark.authenticate, here and on the cluster; or declare that nobody else reaches its "
                f"ports: --spark-conf {STRANGERS}=allowed",
            )

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        self._run(tasks, partial(_plain_job, function), on_progress, on_outcome, keep_going=keep_going)

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[ShuffledTask[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        def open_job(environment: JobEnvironment, numbered: Sequence[tuple[int, TaskT]]) -> SparkJob[TaskT, ResultT]:
            return ShuffledJob(environment, numbered, function, everything=tasks, shuffle=shuffle)

        return list(self._run(tasks, open_job, on_progress, None, keep_going=True).outcomes())

    def halt(self) -> bool:
        if self._may_be_running:
            self.close()
        return not self._may_be_running

    def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            is_over = session.close(surely=self._may_be_running)
            self._may_be_running = self._may_be_running and not is_over

    def _begun(self) -> ContextSession:
        if self._session is None:
            with uninterrupted():  # an unknown session would never be closed
                self._session = self._open_session()
        return self._session

    def _open_session(self) -> ContextSession:
        if self._lend is not None:
            return BorrowedSession(self._lend)
        if runs_in_one_jvm(self._master):
            return LocalSession(self._master, self._chosen, preload=self._preload, clock=self._clock)
        return ClusterSession(self._master, self._chosen, self._archive, preload=self._preload)

    def _environment(self) -> JobEnvironment:
        session = self._begun()
        context, mailbox = session.ready()
        return JobEnvironment(
            context=context,
            mailbox=mailbox,
            max_attempts=session.max_attempts,
            limits=self._limits,
            secrets=self._way_of_secrets(session),
            has_executors=partial(has_executors, context),
        )

    def _patience(self) -> float:
        """Return the patience in seconds, see `patience_s`. A borrowed Spark brings the setting along."""
        if self._lend is None:
            return self._patience_s
        context, _ = self._begun().ready()
        return patience_s(dict(context.getConf().getAll()))

    def _way_of_secrets(self, session: ContextSession) -> SecretHandling:
        """Return how tasks may carry secrets. A ready `session` knows whether others can read Spark's network."""
        if self._choice.secrets is SecretsChoice.ON_EXECUTORS:
            return SecretHandling.READ_THERE
        is_told_to = self._choice.secrets is SecretsChoice.IN_CLEAR
        return SecretHandling.SENT if is_told_to or session.is_private else SecretHandling.STAYS

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
            job = open_one(self._environment(), numbered)
            self._may_be_running = True
            return job

        before = self._may_be_running
        try:
            results = TaskJobs(
                tasks,
                open_job,
                on_progress=on_progress,
                on_outcome=on_outcome,
                keep_going=keep_going,
                clock=self._clock,
                patience_s=self._patience(),
            ).run()
        except SparkFailed:  # no task's error: this Spark is of no further use, and the next run starts another
            self.close()
            raise
        is_elsewhere = self._lend is not None or not runs_in_one_jvm(self._master)
        self._may_be_running = before or bool(results.open_tasks()) or (is_elsewhere and results.has_lost_attempts)
        return results


def _lender(context: SparkContext | None, choice: SparkChoice) -> Callable[[], SparkContext] | None:
    """Return the function that lends a context; None where a context has to be started. Raises `BadOption`."""
    if context is not None:
        return lambda: context
    if choice.master != SUBMITTED:
        return None
    check_submitted(choice)
    return submitted_context


def _plain_job(
    function: Callable[[TaskT], ResultT], environment: JobEnvironment, numbered: Sequence[tuple[int, TaskT]]
) -> SparkJob[TaskT, ResultT]:
    return SparkJob(environment, numbered, function)


_OpenJob: TypeAlias = "Callable[[JobEnvironment, Sequence[tuple[int, TaskT]]], SparkJob[TaskT, ResultT]]"
