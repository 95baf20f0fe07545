"""One Spark job over numbered tasks: submitted from a separate thread, with envelopes yielded as they arrive.

Results return in two ways. Envelopes carry outcomes, and travel in a Spark accumulator: the accumulator reaches the
driver exactly when a task ends, and counts no failed attempt. Progress and notes of failed attempts cannot wait for the
end, and travel in datagrams that may be lost: no result may depend on a datagram. One Spark task per task value. The
module must never build a SparkContext.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

from offsite.engine import meter, rate_lease
from offsite.engine.meter import ProgressAddress, ProgressDatagram, ProgressReceiver, ProgressSender
from offsite.engine.rate_limits import RateAddress, RateLimits
from offsite.engine.rate_server import RateServer
from offsite.engine.runner import ResultT, Shuffle, ShuffledTask, TaskT, job_name
from offsite.engine.settings import LOOPBACK
from offsite.engine.shuffle import FindStep, SendStep, pickle_tasks, shuffle_tasks, unpickle
from offsite.engine.task_attempt import Envelope, NoteAddress, NoteReceiver, NoteSender, attempt, interrupted_by_hangup
from offsite.engine.unfit_executor import check_version
from offsite.model.errors import SecretStays
from offsite.model.ids import random_id
from offsite.model.journal import JOURNAL
from offsite.model.secret import SecretHandling, handle_secrets
from offsite.model.version import __version__

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext, TaskContext

TICK_S = 0.2
"""How long the driver waits for an envelope before it shows progress again: five times a second looks alive."""

LOOK_EVERY_S = 5.0
"""How often a job without news checks for executors."""


CANCEL_LIMIT_S = 5.0
"""How long a cancelled job may take to return; afterwards the job is abandoned, and ends with its JVM."""


@dataclass(frozen=True, slots=True)
class ExecutorsChecked:
    """An event: the result of a check for executors of the job."""

    has_executors: bool


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An event: Spark repeated an attempt that did not report its end. The attempt may continue unseen."""


class WorkerMailbox:
    """The driver's end for envelopes and datagrams of workers. One per SparkContext: pyspark never frees an
    accumulator, so one per job would grow for ever. Late envelopes of an earlier job (cancelled, with tasks still
    ending) are dropped."""

    def __init__(self, context: SparkContext) -> None:
        self.accumulator: Accumulator[Any] = context.accumulator((), _Gathering(self._deliver))  # type: ignore[arg-type]
        conf = context.getConf()
        self._host = conf.get("spark.driver.host") or LOOPBACK
        self._bind = conf.get("spark.driver.bindAddress") or self._host
        self.datagrams = ProgressReceiver(self._host, bind=self._bind)
        self.notes = NoteReceiver(self._host, bind=self._bind)
        self._rates: RateServer | None = None
        self._job = 0
        self._inbox: queue.SimpleQueue[Envelope[Any] | _End] = queue.SimpleQueue()

    def open(self) -> tuple[int, queue.SimpleQueue[Envelope[Any] | _End]]:
        """Return a new job number, and the queue for the job's envelopes."""
        self._job, self._inbox = self._job + 1, queue.SimpleQueue()
        return self._job, self._inbox

    def rates(self, limits: RateLimits) -> RateAddress | None:
        """Return the address where workers take bytes under `limits`, shared by all jobs in sequence; None without
        limits."""
        if self._rates is None and limits.by_direction():
            self._rates = RateServer(self._host, limits, bind=self._bind)
        return None if self._rates is None else self._rates.address

    def close(self) -> None:
        self.datagrams.close()
        self.notes.close()
        if self._rates is not None:
            self._rates.close()

    def _deliver(self, job: int, envelope: Envelope[Any]) -> None:
        if job == self._job:
            self._inbox.put(envelope)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnvironment:
    """The Spark of a job: context, attempts per task, rate limits, and the handling of secrets."""

    context: SparkContext
    mailbox: WorkerMailbox
    max_attempts: int
    limits: RateLimits
    secrets: SecretHandling
    has_executors: Callable[[], bool]


class SparkJob(Generic[TaskT, ResultT]):
    """Everything sent to a worker is bytes until the worker has confirmed the same version: another version may lack
    the classes, and must be able to say so in words."""

    one_task_each = True
    """Whether a Spark task is one offsite task, number by number."""

    def __init__(
        self, environment: JobEnvironment, tasks: Sequence[tuple[int, TaskT]], function: Callable[[TaskT], ResultT]
    ) -> None:
        mailbox = environment.mailbox
        self._job, self._inbox = mailbox.open()
        self._datagrams, self._notes = mailbox.datagrams, mailbox.notes
        self._context, self._secrets = environment.context, environment.secrets
        self._has_executors = environment.has_executors
        self._tasks = tasks
        self._name, self._group = job_name(), f"offsite-{random_id(16)}"  # one context may have several mailboxes
        self._is_cancelled = threading.Event()
        self._told: Counter[int] = Counter()  # attempts with a note of their failure, by task
        self._work = _Work(
            job=self._job,
            function=self._sealed(function),
            home=mailbox.accumulator,
            datagrams=mailbox.datagrams.address,
            notes=mailbox.notes.address,
            journal_level=JOURNAL.getEffectiveLevel(),
            max_attempts=environment.max_attempts,
            rates=mailbox.rates(environment.limits),
            version=__version__,
        )
        self._thread = threading.Thread(target=self._submit, name=self._group, daemon=True)

    def events(self) -> Iterator[Envelope[ResultT] | ProgressDatagram | ExecutorsChecked | LostAttempt | None]:
        """Yield the events of the job; None after `TICK_S` without an event. The first request starts the job. Raises
        Spark's final error."""
        self._thread.start()
        look_s = time.monotonic() + LOOK_EVERY_S
        while True:
            try:
                arrived = self._inbox.get(timeout=TICK_S)
            except queue.Empty:
                yield from self._datagrams.take(self._job)
                yield None
                if time.monotonic() >= look_s:
                    look_s = time.monotonic() + LOOK_EVERY_S
                    yield ExecutorsChecked(self._has_executors())
                continue
            finally:
                self._told.update(self._notes.write(self._job))
            if isinstance(arrived, Envelope):
                if arrived.number > 1 + self._told[arrived.index]:
                    yield LostAttempt()
                yield arrived
            elif arrived.error is not None:
                raise arrived.error
            else:
                return

    def cancel(self) -> None:
        """Stop the job, even while being submitted. Spark forgets the job at once; tasks may continue for a moment."""
        self._is_cancelled.set()
        until_s = time.monotonic() + CANCEL_LIMIT_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            with suppress(Exception):  # from a dead JVM, whose jobs are dead too
                self._context.cancelJobGroup(self._group)
            self._thread.join(TICK_S)

    def _submit(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._name, interruptOnCancel=True)
            with handle_secrets(self._secrets):
                source = self._source().mapPartitions(self._work)
                if not self._is_cancelled.is_set():
                    source.collect()
        except Exception as error:  # noqa: BLE001  # handed to the thread in `events`, and raised there
            self._inbox.put(_End(error=error))
        else:
            self._inbox.put(_End(error=None))

    def _source(self) -> RDD[tuple[int, Any]]:
        return self._context.parallelize(pickle_tasks(self._tasks), len(self._tasks))

    def _sealed(self, function: object) -> bytes:
        """Pickle `function` as Spark does: functions of a program's own `__main__` travel whole. Raises
        `SecretStays`."""
        from pyspark import cloudpickle

        try:
            with handle_secrets(self._secrets):
                return bytes(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
        except SecretStays as error:
            host = self._context.getConf().get("spark.driver.host")
            raise SecretStays(f"{error.message} (the driver is {host})", hint=error.hint) from error


class ShuffledJob(SparkJob[Any, ResultT], Generic[TaskT, ResultT]):
    """A job whose tasks receive values by a shuffle over `everything`: over all tasks, even where only some run
    again."""

    one_task_each = False

    def __init__(
        self,
        environment: JobEnvironment,
        tasks: Sequence[tuple[int, TaskT]],
        function: Callable[[ShuffledTask[TaskT, Any]], ResultT],
        *,
        everything: Sequence[TaskT],
        shuffle: Shuffle[TaskT, Any, Any],
    ) -> None:
        super().__init__(environment, tasks, function)
        self._everything, self._shuffle = everything, shuffle

    def _source(self) -> RDD[tuple[int, Any]]:
        work, shuffle = self._work, self._shuffle
        finding = FindStep(
            version=work.version,
            job=work.job,
            functions=self._sealed((shuffle.find, shuffle.give_up)),
            datagrams=work.datagrams,
            rates=work.rates,
            max_attempts=work.max_attempts,
        )
        sending = SendStep(version=work.version, function=self._sealed(shuffle.send), buckets=shuffle.buckets)
        return shuffle_tasks(self._context, self._tasks, self._everything, finding, sending)


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    error: Exception | None


class _Gathering:
    """An accumulator parameter that keeps nothing. On the driver every envelope goes to `deliver`; in a worker
    envelopes are gathered until the task ends. Spark only calls the three methods, so the class need not derive from
    AccumulatorParam."""

    def __init__(self, deliver: Callable[[int, Envelope[Any]], None] | None = None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> tuple[type[_Gathering], tuple[()]]:
        return _Gathering, ()

    def zero(self, _value: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def addInPlace(self, gathered: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: N802  # Spark's name
        if self._deliver is None:
            return gathered + new
        for job, envelope in new:
            self._deliver(job, envelope)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The function of a job, pickled, with everything needed in a worker."""

    job: int
    function: bytes
    home: Any
    datagrams: ProgressAddress
    notes: NoteAddress
    journal_level: int
    max_attempts: int
    rates: RateAddress | None
    version: str
    """Of the sending offsite."""

    def __call__(self, tasks: Iterable[tuple[int, Any]]) -> Iterator[None]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 1 if context is None else context.attemptNumber() + 1
        with interrupted_by_hangup():
            self._attempt_all(tasks, context, number)
        return iter(())

    def _attempt_all(self, tasks: Iterable[tuple[int, Any]], context: TaskContext | None, number: int) -> None:
        for index, task in tasks:
            with closing(ProgressSender(self.datagrams, job=self.job, index=index)) as sender:
                meter.start(sender)
                sender.send_begin()
                rate_lease.start(self.rates)
                envelope = attempt(
                    index,
                    task,
                    self._run,
                    is_last_attempt=context is None or number >= self.max_attempts,
                    number=number,
                    journal_level=self.journal_level,
                    on_retry=NoteSender(address=self.notes, job=self.job),
                )
            self.home.add(((self.job, envelope),))

    def _run(self, task: Any) -> Any:  # noqa: ANN401  # of any job
        """Run one task. `task` is pickled, or a `ShuffledTask` with a pickled task."""
        check_version(self.version)
        function = unpickle(self.function)
        return function(replace(task, task=unpickle(task.task)) if isinstance(task, ShuffledTask) else unpickle(task))
