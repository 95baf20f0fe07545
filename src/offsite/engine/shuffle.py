"""The steps of a shuffle in front of a job: values found in all tasks are brought to the tasks that need them.

Spark moves and spills the parcels without knowledge of their contents. A parcel holds many values, so Spark's cost per
element hardly counts. Plain RDDs, because the JVM started by offsite has no SQL engine. Functions and tasks travel as
bytes until the worker has confirmed the same version, as in every job.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from offsite.engine import meter, rate_lease
from offsite.engine.meter import ProgressAddress, ProgressSender
from offsite.engine.rate_limits import RateAddress
from offsite.engine.runner import ShuffledTask, TaskT
from offsite.engine.task_attempt import LASTING_ERRORS, AttemptFailed, interrupted_by_hangup
from offsite.engine.unfit_executor import check_version
from offsite.model.errors import OffsiteError
from offsite.model.journal import safe_trace

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


@dataclass(frozen=True, slots=True, kw_only=True)
class FindStep:
    """The first step in a worker, with everything needed there. An offsite of another version raises `ExecutorDiffers`
    and so ends the job: values left out would be missing from all tasks."""

    version: str
    """Of the sending offsite."""
    job: int
    functions: bytes
    """`find` and `give_up` of the shuffle, pickled."""
    datagrams: ProgressAddress
    rates: RateAddress | None
    max_attempts: int

    def __call__(self, tasks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Any]]:
        check_version(self.version)
        with interrupted_by_hangup():
            for index, task in tasks:
                with closing(ProgressSender(self.datagrams, job=self.job, index=index)) as sender:
                    meter.start(sender)
                    sender.send_begin()
                    rate_lease.start(self.rates)
                    yield from self._find(task)

    def _find(self, task_data: bytes) -> Iterator[tuple[int, Any]]:
        try:
            (find, give_up), task = unpickle(self.functions), unpickle(task_data)
        except Exception as error:  # noqa: BLE001  # as below
            raise AttemptFailed(safe_trace(error)) from None
        try:
            yield from find(task)
        except OffsiteError as error:
            if not isinstance(error, LASTING_ERRORS) and not _is_last_attempt(self.max_attempts):
                raise AttemptFailed(safe_trace(error)) from None
            yield from give_up(task, error)
        except Exception as error:  # noqa: BLE001  # a foreign exception, whose whole message Spark would write
            raise AttemptFailed(safe_trace(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStep:
    """The second step, run for every bucket. Raises as the first step."""

    version: str
    function: bytes
    """`send` of the shuffle, pickled."""
    buckets: int

    def __call__(self, places: dict[int, int], parcels: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        check_version(self.version)
        send = unpickle(self.function)
        for index, element in send(element for _, element in parcels):
            if index in places:  # a repeated job for some tasks still finds values for all
                yield places[index], element


def shuffle_tasks(
    context: SparkContext,
    tasks: Sequence[tuple[int, TaskT]],
    everything: Sequence[TaskT],
    finding: FindStep,
    sending: SendStep,
) -> RDD[tuple[int, ShuffledTask[bytes, Any]]]:
    """Return the numbered `tasks`, pickled, one partition per task, with the values that the two steps bring from
    `everything`."""
    places = {index: place for place, (index, _) in enumerate(tasks)}
    parcels = context.parallelize(pickle_tasks(enumerate(everything)), len(everything)).mapPartitions(finding)
    sent = parcels.partitionBy(sending.buckets, _same).mapPartitions(partial(sending, places))
    arrived = sent.partitionBy(len(tasks), _same)
    return arrived.mapPartitionsWithIndex(partial(_with_received, pickle_tasks(tasks)))


def pickle_tasks(tasks: Iterable[tuple[int, object]]) -> list[tuple[int, bytes]]:
    """Pickle numbered tasks for workers."""
    return [(index, pickle.dumps(task)) for index, task in tasks]


def unpickle(data: bytes) -> Any:  # noqa: ANN401  # of any job
    """Unpickle a task or a function in a worker with the same version."""
    return pickle.loads(data)  # noqa: S301  # pickled by the driver of this task


def _same(place: int) -> int:
    return place


def _with_received(
    tasks: Sequence[tuple[int, bytes]], place: int, arrived: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, ShuffledTask[bytes, Any]]]:
    index, task = tasks[place]
    yield index, ShuffledTask(task=task, received=(element for _, element in arrived))


def _is_last_attempt(max_attempts: int) -> bool:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is None or context.attemptNumber() + 1 >= max_attempts
