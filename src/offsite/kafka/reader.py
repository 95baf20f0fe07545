"""Reads a range of one partition as raw batches: the way out of Kafka.

While the consumer works on a chunk, the broker already sends the next one into the socket's buffer. A reader goes on
over leader changes, restarts and lost connections, for as long as its `Backoff` allows between two bits of progress.
It commits nothing and joins no group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

from offsite.kafka.backoff import MISSING_TOPIC_MAX_S, Backoff
from offsite.kafka.partition_stream import PartitionStream
from offsite.kafka.receive_buffer import ReceiveBuffer
from offsite.kafka.routing import Router
from offsite.log.chunk import Chunk, Hole
from offsite.log.range import LogRange
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    DamagedBatch,
    KafkaTimeout,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    TopicReplaced,
)


class PartitionReader:
    """Reads ranges one after the other through one reused buffer. Not for several threads."""

    def __init__(self, router: Router, *, clock: Clock | None = None) -> None:
        self._router = router
        self._clock = clock or SystemClock()
        self._buffer = ReceiveBuffer()

    def read(
        self, log_range: LogRange, *, topic_id: UUID | None = None, reach_back: bool = False
    ) -> Iterator[Chunk | Hole]:
        """All batches whose base offset is in the range, in order, CRC32C and offsets checked; holes where the log no
        longer has them. Ends even where compaction has taken the last offsets away.

        A chunk is valid until the next one is asked for. `topic_id`: the incarnation expected. `reach_back`: the batch
        that begins before the range and reaches into it is given too, whole.
        Raises `TopicReplaced`, `NoSuchTopic`, `LeaderUnavailable`, `KafkaUnreachable`, `KafkaTimeout`, `DamagedBatch`
        (after one more try), `OldMessageFormat`, `Denied`.
        """
        stream = PartitionStream(self._router, self._clock, self._buffer, log_range, topic_id, reach_back=reach_back)
        outage = Backoff(self._clock)
        absence = Backoff(self._clock, limit_s=MISSING_TOPIC_MAX_S)
        damaged_at = -1
        while not stream.done:
            try:
                with closing(stream.run()) as items:
                    for item in items:
                        outage.reset()
                        absence.reset()
                        yield item
            except (KafkaUnreachable, KafkaTimeout, LeaderUnavailable) as error:
                outage.wait(error)
            except (NoSuchTopic, TopicReplaced) as error:
                absence.wait(error)
            except DamagedBatch:
                if damaged_at == stream.position:
                    raise
                damaged_at = stream.position
            self._router.forget(log_range.topic_partition)
