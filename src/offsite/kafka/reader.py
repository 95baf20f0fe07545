"""Reads a range of one partition as raw batches: the way out of Kafka.

While the consumer works on a chunk, the broker already sends the next one into the socket's buffer. A reader goes on
over leader changes, restarts and lost connections, for as long as its `Backoff` allows between two bits of progress.
Its position moves by the rule in `evidence` and no other. It commits nothing and joins no group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from uuid import UUID

from offsite.kafka.evidence import GIVEN_UP_MAX_S, UNANSWERED_MAX_S
from offsite.kafka.fetch_pace import UNLIMITED, FetchPace
from offsite.kafka.net.backoff import LEADERLESS_MAX_S, MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.net.receive_buffer import ReceiveBuffer
from offsite.kafka.net.routing import Router
from offsite.kafka.partition_stream import ASKED, Asked, PartitionStream
from offsite.kafka.read_task import Item, ReadTask
from offsite.log.range import LogRange
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    DamagedBatch,
    KafkaProtocolError,
    KafkaTimeout,
    KafkaUnavailable,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
    TopicReplaced,
)


def _unheard(_throttle_ms: int) -> None:
    pass


class PartitionReader:
    """Reads ranges one after the other through one reused buffer. Not for several threads."""

    def __init__(
        self,
        router: Router,
        *,
        clock: Clock | None = None,
        on_throttle: Callable[[int], None] = _unheard,
        pace: FetchPace = UNLIMITED,
        patience_max_s: float = UNANSWERED_MAX_S,
    ) -> None:
        """`on_throttle` is told each pause that a quota asks for, in milliseconds; `pace` is asked before each fetch.
        `patience_max_s`: how long a partition may give nothing, if that is less than others wait."""
        self._router = router
        self._clock = clock or SystemClock()
        self._on_throttle, self._pace = on_throttle, pace
        self._patience_max_s = patience_max_s
        self._buffer = ReceiveBuffer()

    def read(self, log_range: LogRange, *, topic_id: UUID | None = None, reach_back: bool = False) -> Iterator[Item]:
        """The items of `log_range`: `read_task` with defaults."""
        return self.read_task(ReadTask(range=log_range, topic_id=topic_id, reach_back=reach_back))

    def read_task(self, task: ReadTask) -> Iterator[Item]:
        """All batches whose base offset is in the range, in order, CRC32C and offsets checked; holes where the log no
        longer has them; gaps where it is known to hold nothing, each with its evidence.

        A chunk is valid until the next one is asked for. Raises `NoEvidence` when the leader neither gives records nor
        shows that there are none, `SourceTruncated`, `TopicReplaced`, `NoSuchTopic`, `LeaderUnavailable`,
        `KafkaUnreachable`, `KafkaTimeout`, `DamagedBatch` (after one more try), `OldMessageFormat`, `Denied`.
        """
        return (each for each in self._told(task) if not isinstance(each, Asked))

    def begin_task(self, task: ReadTask) -> Iterator[Item]:
        """The same items, with the first fetch on its way when this returns: the broker works on it while the caller
        does something else. It must be read on before this reader is asked for another range, or be closed. What goes
        wrong is raised when the items are asked for."""
        told = self._told(task)
        try:
            first = next(told, ASKED)
        except OffsiteError as error:
            return _raising(error)
        return (each for each in chain([first], told) if not isinstance(each, Asked))

    def _told(self, task: ReadTask) -> Iterator[Item | Asked]:
        try:
            yield from self._read(task)
        except KafkaUnavailable:
            self._router.given_up.add(task.range.topic_partition, self._clock.monotonic_s())
            raise

    def _read(self, task: ReadTask) -> Iterator[Item | Asked]:
        key = task.range.topic_partition
        is_known_sick = self._router.given_up.holds(key, self._clock.monotonic_s())
        most_s = min(self._patience_max_s, GIVEN_UP_MAX_S) if is_known_sick else self._patience_max_s
        patience = Backoff(self._clock, limit_s=min(most_s, UNANSWERED_MAX_S))
        outage = Backoff(self._clock, limit_s=min(most_s, LEADERLESS_MAX_S))
        absence = Backoff(self._clock, limit_s=min(most_s, MISSING_TOPIC_MAX_S))
        stream = PartitionStream(self._router, self._clock, self._buffer, task, patience, self._on_throttle, self._pace)
        damaged_at = -1
        while not stream.done:
            try:
                with closing(stream.run()) as items:
                    for item in items:
                        if isinstance(item, Asked):
                            yield item
                            continue
                        for waiting in (patience, outage, absence):
                            waiting.reset()
                        self._router.given_up.discard(key)
                        yield item
            except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
                yield ASKED  # in vain: whoever only began need not wait
                outage.wait(error)
            except (NoSuchTopic, TopicReplaced) as error:
                yield ASKED
                absence.wait(error)
            except (DamagedBatch, KafkaProtocolError):
                if damaged_at == stream.position:
                    raise
                damaged_at = stream.position
            if not stream.done:
                self._router.forget(key)


def _raising(error: OffsiteError) -> Iterator[Item]:
    raise error
    yield  # a generator: it raises when it is asked for an item
