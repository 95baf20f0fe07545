"""Read a range of one partition as raw batches: the way out of Kafka.

While the consumer works on a chunk, the broker already sends the next chunk into the socket's buffer. A reader
continues over leader changes, restarts and lost connections, as long as the reader's `Backoff` allows between two steps
of progress. The position moves by the rule in `evidence` alone. The reader commits nothing and joins no group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from uuid import UUID

from offsite.kafka.evidence import GIVEN_UP_MAX_S, UNANSWERED_MAX_S
from offsite.kafka.net.backoff import LEADERLESS_MAX_S, MISSING_TOPIC_MAX_S, PASSING, Backoff
from offsite.kafka.net.broker_socket import ReceiveBuffer
from offsite.kafka.net.routing import Router
from offsite.kafka.partition_stream import FETCH_PENDING, FetchPending, PartitionStream
from offsite.kafka.read_task import UNLIMITED, FetchPace, Item, ReadTask
from offsite.log.range import LogRange
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    DamagedBatch,
    KafkaProtocolError,
    KafkaUnavailable,
    NoSuchTopic,
    OffsiteError,
    TopicReplaced,
)


class PartitionReader:
    """Reads ranges in sequence through one reused buffer. Not thread-safe."""

    def __init__(
        self,
        router: Router,
        *,
        clock: Clock | None = None,
        on_throttle: Callable[[int], None] | None = None,
        pace: FetchPace = UNLIMITED,
        patience_max_s: float = UNANSWERED_MAX_S,
    ) -> None:
        """`on_throttle` receives every pause that a quota asks for, in milliseconds; `pace` is asked before every
        fetch. `patience_max_s`: how long a partition may return nothing, if shorter than the default."""
        self._router = router
        self._clock = clock or SystemClock()
        self._on_throttle, self._pace = on_throttle, pace
        self._patience_max_s = patience_max_s
        self._buffer = ReceiveBuffer()

    def read(self, log_range: LogRange, *, topic_id: UUID | None = None, reach_back: bool = False) -> Iterator[Item]:
        """Yield the items of `log_range`: `read_task` with defaults."""
        return self.read_task(ReadTask(range=log_range, topic_id=topic_id, reach_back=reach_back))

    def read_task(self, task: ReadTask) -> Iterator[Item]:
        """Yield all batches with a base offset in the range, in order, CRC32C and offsets checked; a hole where the log
        no longer has records; a gap where evidence shows no records, with the evidence.

        A chunk is valid until the caller asks for the next item. Raises `NoEvidence` when the leader neither returns
        records nor shows their absence, `SourceTruncated`, `TopicReplaced`, `NoSuchTopic`, `LeaderUnavailable`,
        `KafkaUnreachable`, `KafkaTimeout`, `DamagedBatch` (after a second try), `OldMessageFormat`, `Denied`.
        """
        return (item for item in self._read_noting_silence(task) if not isinstance(item, FetchPending))

    def begin_task(self, task: ReadTask) -> Iterator[Item]:
        """Return the items of `read_task`, with the first fetch already in flight: the broker works while the caller
        does something else. The caller must read or close the items before another range of the reader. Errors are
        raised when the caller asks for items."""
        items = self._read_noting_silence(task)
        try:
            first = next(items, FETCH_PENDING)
        except OffsiteError as error:
            return _raising(error)
        return (item for item in chain([first], items) if not isinstance(item, FetchPending))

    def _read_noting_silence(self, task: ReadTask) -> Iterator[Item | FetchPending]:
        try:
            yield from self._read(task)
        except KafkaUnavailable:
            self._router.silent_partitions.add(task.range.topic_partition, self._clock.monotonic_s())
            raise

    def _read(self, task: ReadTask) -> Iterator[Item | FetchPending]:
        key = task.range.topic_partition
        is_known_sick = self._router.silent_partitions.holds(key, self._clock.monotonic_s())
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
                        if isinstance(item, FetchPending):
                            yield item
                            continue
                        for waiting in (patience, outage, absence):
                            waiting.reset()
                        self._router.silent_partitions.discard(key)
                        yield item
            except PASSING as error:
                yield FETCH_PENDING  # a failed fetch: `begin_task` need not wait
                outage.wait(error)
            except (NoSuchTopic, TopicReplaced) as error:
                yield FETCH_PENDING
                absence.wait(error)
            except (DamagedBatch, KafkaProtocolError):
                if damaged_at == stream.position:
                    raise
                damaged_at = stream.position
            if not stream.done:
                self._router.forget(key)


def _raising(error: OffsiteError) -> Iterator[Item]:
    raise error
    yield  # makes the function a generator, which raises at the first item
