"""One Spark job over numbered tasks: submitted from a thread of its own, its envelopes handed out as they arrive.

Two ways lead home. Envelopes, which carry outcomes, travel in a Spark accumulator: it reaches the driver when a task
ends, exactly then, and counts no failed attempt. Progress and notes of failed attempts cannot wait for that end, and
travel in datagrams that may be lost: no result may depend on one. One Spark task per task value. Must never build a
SparkContext.

What travels to a worker is bytes until the worker has said that it is of the same version: another one may not know
the classes, and must say so in words.
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

from offsite.model.errors import SecretStays
from offsite.model.ids import random_id
from offsite.model.journal import JOURNAL
from offsite.model.secret import Travel, secrets_travel
from offsite.model.version import __version__
from offsite.spark import meter
from offsite.spark.job_name import job_name
from offsite.spark.progress_datagram import ProgressAddress, ProgressDatagram, ProgressReceiver, ProgressSender
from offsite.spark.rates import rate_lease
from offsite.spark.rates.rate_limits import RateAddress, RateLimits
from offsite.spark.rates.rate_server import RateServer
from offsite.spark.runner import Fed, ResultT, Shuffle, TaskT
from offsite.spark.settings import LOOPBACK
from offsite.spark.shuffle import Finding, Sending, fed, opened, pickled
from offsite.spark.task_attempt import Envelope, NoteAddress, NoteReceiver, NoteSender, attempt, interrupted_by_hangup
from offsite.spark.unfit_executor import check_version

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator, SparkContext, TaskContext

TICK_S = 0.2
"""How long the driver waits for an envelope before it shows progress again: five times a second looks alive."""

LOOK_EVERY_S = 5.0
"""How often a job that brings nothing home looks whether there are executors at all."""


CANCEL_LIMIT_S = 5.0
"""How long a cancelled job may take to come back; then it is left alone, and ends with its JVM."""


@dataclass(frozen=True, slots=True)
class Looked:
    """An event: just now the cluster has executors for this job, or has none."""

    has_executors: bool


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An event: an attempt was repeated that did not say how it ended. It may go on where nobody sees it."""


class Mailbox:
    """The driver's end for envelopes and datagrams of workers. One per SparkContext: pyspark never gives an accumulator
    back, so one per job would grow for ever. What an earlier job still sends (it was cancelled, its tasks are ending)
    is dropped."""

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
        """A job number never used before, and the queue that its envelopes go to from now on."""
        self._job, self._inbox = self._job + 1, queue.SimpleQueue()
        return self._job, self._inbox

    def rates(self, limits: RateLimits) -> RateAddress | None:
        """Where workers take what `limits` let through, one job after the other out of the same; None without any."""
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
class Engine:
    """The Spark that runs a job, and how: attempts at a task, rate limits, and what may travel of secrets."""

    context: SparkContext
    mailbox: Mailbox
    max_attempts: int
    limits: RateLimits
    secrets: Travel
    has_executors: Callable[[], bool]


class SparkJob(Generic[TaskT, ResultT]):
    one_task_each = True
    """Whether Spark's tasks are ours, number by number."""

    def __init__(
        self, engine: Engine, tasks: Sequence[tuple[int, TaskT]], function: Callable[[TaskT], ResultT]
    ) -> None:
        mailbox = engine.mailbox
        self._job, self._inbox = mailbox.open()
        self._datagrams, self._notes = mailbox.datagrams, mailbox.notes
        self._context, self._secrets = engine.context, engine.secrets
        self._has_executors = engine.has_executors
        self._tasks = tasks
        self._name, self._group = job_name(), f"offsite-{random_id(16)}"  # one context may have several mailboxes
        self._is_cancelled = threading.Event()
        self._told: Counter[int] = Counter()  # attempts that said how they failed, by task
        self._work = _Work(
            job=self._job,
            function=self._sealed(function),
            home=mailbox.accumulator,
            datagrams=mailbox.datagrams.address,
            notes=mailbox.notes.address,
            journal_level=JOURNAL.getEffectiveLevel(),
            max_attempts=engine.max_attempts,
            rates=mailbox.rates(engine.limits),
            version=__version__,
        )
        self._thread = threading.Thread(target=self._submit, name=self._group, daemon=True)

    def events(self) -> Iterator[Envelope[ResultT] | ProgressDatagram | Looked | LostAttempt | None]:
        """The events of the job, which starts with the first one asked for; None when nothing has arrived for `TICK_S`.
        Raises what Spark raised at the end."""
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
                    yield Looked(self._has_executors())
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
        """Stop the job, also one that is still being submitted: Spark forgets it at once, its tasks may go on for a
        moment."""
        self._is_cancelled.set()
        until_s = time.monotonic() + CANCEL_LIMIT_S
        while self._thread.is_alive() and time.monotonic() < until_s:
            with suppress(Exception):  # of a JVM that is gone, and its jobs with it
                self._context.cancelJobGroup(self._group)
            self._thread.join(TICK_S)

    def _submit(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._name, interruptOnCancel=True)
            with secrets_travel(self._secrets):
                source = self._source().mapPartitions(self._work)
                if not self._is_cancelled.is_set():
                    source.collect()
        except Exception as error:  # noqa: BLE001  # handed to the thread that waits in `events`, which raises it
            self._inbox.put(_End(error=error))
        else:
            self._inbox.put(_End(error=None))

    def _source(self) -> RDD[tuple[int, Any]]:
        return self._context.parallelize(pickled(self._tasks), len(self._tasks))

    def _sealed(self, function: object) -> bytes:
        """As Spark pickles functions: those of a program's own `__main__` go along whole. Raises `SecretStays`."""
        from pyspark import cloudpickle

        try:
            with secrets_travel(self._secrets):
                return bytes(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]
        except SecretStays as error:
            host = self._context.getConf().get("spark.driver.host")
            raise SecretStays(f"{error.message} (the driver is {host})", hint=error.hint) from error


class ShuffledJob(SparkJob[Any, ResultT], Generic[TaskT, ResultT]):
    """A job whose tasks are fed by a shuffle of `everything`: of all tasks, also where only some are done again."""

    one_task_each = False

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[tuple[int, TaskT]],
        function: Callable[[Fed[TaskT, Any]], ResultT],
        *,
        everything: Sequence[TaskT],
        shuffle: Shuffle[TaskT, Any, Any],
    ) -> None:
        super().__init__(engine, tasks, function)
        self._everything, self._shuffle = everything, shuffle

    def _source(self) -> RDD[tuple[int, Any]]:
        work, shuffle = self._work, self._shuffle
        finding = Finding(
            version=work.version,
            job=work.job,
            functions=self._sealed((shuffle.find, shuffle.give_up)),
            datagrams=work.datagrams,
            rates=work.rates,
            max_attempts=work.max_attempts,
        )
        sending = Sending(version=work.version, function=self._sealed(shuffle.send), buckets=shuffle.buckets)
        return fed(self._context, self._tasks, self._everything, finding, sending)


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    error: Exception | None


class _Gathering:
    """An accumulator parameter that keeps nothing: on the driver each envelope goes to `deliver`; in a worker they
    are gathered until the task ends. Spark only calls its three methods, so it need not be an AccumulatorParam."""

    def __init__(self, deliver: Callable[[int, Envelope[Any]], None] | None = None) -> None:
        self._deliver = deliver

    def __reduce__(self) -> tuple[type[_Gathering], tuple[()]]:
        return _Gathering, ()

    def zero(self, _value: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def addInPlace(self, kept: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: N802  # Spark's name
        if self._deliver is None:
            return kept + new
        for job, envelope in new:
            self._deliver(job, envelope)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The function of a job, pickled, with all that it needs in a worker: what travels there."""

    job: int
    function: bytes
    home: Any
    datagrams: ProgressAddress
    notes: NoteAddress
    journal_level: int
    max_attempts: int
    rates: RateAddress | None
    version: str
    """Of the offsite that sent it."""

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
                sender.begun()
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
        """`task` is pickled, or has been fed with its task pickled."""
        check_version(self.version)
        function = opened(self.function)
        return function(replace(task, task=opened(task.task)) if isinstance(task, Fed) else opened(task))
