"""The steps of a shuffle in front of a job: what was found in all tasks is brought to the task that needs it.

Spark moves and spills the parcels, and knows nothing of what is in them: each holds many things, so that its cost for
every element does not count. Plain RDDs, because the SQL engine is no part of the JVM that this package starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from offsite.model.errors import OffsiteError
from offsite.model.journal import safe_trace
from offsite.spark import meter
from offsite.spark.progress_datagram import ProgressAddress, ProgressSender
from offsite.spark.rates import rate_lease
from offsite.spark.rates.rate_limits import RateAddress
from offsite.spark.runner import Fed, FoundT, SentT, Shuffle, TaskT
from offsite.spark.task_attempt import LASTING, AttemptFailed, interrupted_by_hangup

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Generic[TaskT, FoundT]):
    """The first step in a worker, with all that it needs there."""

    job: int
    find: Callable[[TaskT], Iterable[tuple[int, FoundT]]]
    give_up: Callable[[TaskT, OffsiteError], Iterable[tuple[int, FoundT]]]
    datagrams: ProgressAddress
    rates: RateAddress | None
    max_attempts: int

    def __call__(self, tasks: Iterable[tuple[int, TaskT]]) -> Iterator[tuple[int, FoundT]]:
        with interrupted_by_hangup():
            for index, task in tasks:
                with closing(ProgressSender(self.datagrams, job=self.job, index=index)) as sender:
                    meter.start(sender)
                    sender.begun()
                    rate_lease.start(self.rates)
                    yield from self._found(task)

    def _found(self, task: TaskT) -> Iterator[tuple[int, FoundT]]:
        try:
            yield from self.find(task)
        except OffsiteError as error:
            if not isinstance(error, LASTING) and not _is_last_attempt(self.max_attempts):
                raise AttemptFailed(safe_trace(error)) from None
            yield from self.give_up(task, error)
        except Exception as error:  # noqa: BLE001  # a foreign one, of which Spark would write all that it says
            raise AttemptFailed(safe_trace(error)) from None


def fed(
    context: SparkContext,
    tasks: Sequence[tuple[int, TaskT]],
    everything: Sequence[TaskT],
    shuffle: Shuffle[TaskT, FoundT, SentT],
    finding: Finding[TaskT, FoundT],
) -> RDD[tuple[int, Fed[TaskT, SentT]]]:
    """The numbered `tasks`, a partition for each, with what `shuffle` of `everything` brings them."""
    places = {index: place for place, (index, _) in enumerate(tasks)}
    found = context.parallelize(list(enumerate(everything)), len(everything)).mapPartitions(finding)
    sent = found.partitionBy(shuffle.buckets, _same).mapPartitions(partial(_sent, shuffle.send, places))
    arrived = sent.partitionBy(len(tasks), _same)
    return arrived.mapPartitionsWithIndex(partial(_fed, tasks))


def _same(place: int) -> int:
    return place


def _sent(
    send: Callable[[Iterator[Any]], Iterable[tuple[int, Any]]],
    places: dict[int, int],
    found: Iterator[tuple[int, Any]],
) -> Iterator[tuple[int, Any]]:
    for index, each in send(each for _, each in found):
        if index in places:  # a job that is repeated for some tasks finds for all of them
            yield places[index], each


def _fed(
    tasks: Sequence[tuple[int, TaskT]], place: int, arrived: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, Fed[TaskT, Any]]]:
    index, task = tasks[place]
    yield index, Fed(task=task, sent=(each for _, each in arrived))


def _is_last_attempt(max_attempts: int) -> bool:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is None or context.attemptNumber() + 1 >= max_attempts
