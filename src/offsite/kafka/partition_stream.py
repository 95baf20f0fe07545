"""One connection's worth of reading a range: fetch, cut, check, hand out, with one fetch always under way.

Holds the position, which moves only past batches that were checked, so that a new run goes on exactly there.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from uuid import UUID

from offsite.kafka.batch_window import batch_window
from offsite.kafka.broker_errors import NONE, OFFSET_OUT_OF_RANGE, broker_error
from offsite.kafka.connection import Connection
from offsite.kafka.fetch import ID_VERSION, NAME_VERSION, FetchAnswer, FetchFormat, FetchQuery
from offsite.kafka.fetch_size import FetchSize
from offsite.kafka.list_offsets import EARLIEST, LATEST, list_offsets_request
from offsite.kafka.receive_buffer import ReceiveBuffer
from offsite.kafka.request import Api
from offsite.kafka.routing import Router
from offsite.log.batch import verify_crc
from offsite.log.chunk import Chunk, Hole
from offsite.log.range import LogRange
from offsite.model.clock import Clock
from offsite.model.errors import DamagedBatch, KafkaProtocolError, LeaderUnavailable, TopicReplaced

# A leader elected anew learns its high watermark within replica.lag.time.max.ms (30 s): an end that stays above it for
# longer was cut off by an unclean election.
TRUNCATED_AFTER_S = 60.0
_MAX_WAIT_MS = 500
_EMPTY_ANSWERS = 2  # in a row, with the range's end below the high watermark: compaction took the rest


class PartitionStream:
    """The state of one `PartitionReader.read`."""

    def __init__(  # noqa: PLR0913  # the two ends of the line, and what to read
        self,
        router: Router,
        clock: Clock,
        buffer: ReceiveBuffer,
        log_range: LogRange,
        topic_id: UUID | None,
        *,
        reach_back: bool = False,
    ) -> None:
        self.position = log_range.start
        self._reach_back = reach_back
        self._router = router
        self._clock = clock
        self._buffer = buffer
        self._range = log_range
        self._topic_id = topic_id
        self._size = FetchSize()
        self._rack_id = router.config.rack_id
        self._follower = -1
        self._log_start = -1
        self._empty_answers = 0
        self._waiting_since_s: float | None = None

    @property
    def done(self) -> bool:
        return self.position >= self._range.end

    def run(self) -> Generator[Chunk | Hole, None, None]:
        """Read until the range ends, another replica is better, or something fails; then another run goes on."""
        self._check_incarnation()
        follower, self._follower = self._follower, -1
        with self._lease(follower) as connection:
            self._format = self._choose_format(connection)
            self._ask(connection, self.position)
            while not self.done and self._follower < 0:
                answer = self._receive(connection)
                if answer.error_code == OFFSET_OUT_OF_RANGE:
                    yield self._hole(connection, follower)
                elif answer.error_code != NONE:
                    raise broker_error(answer.error_code, f"fetching {self._range.topic_partition}")
                elif answer.preferred_replica >= 0 and follower < 0:
                    self._follower = answer.preferred_replica
                else:
                    yield from self._take(connection, answer)

    def _take(self, connection: Connection, answer: FetchAnswer) -> Iterator[Chunk | Hole]:
        log_start = max(answer.log_start, self._log_start)
        if self._reach_back and self.position == self._range.start:
            log_start = self.position
        window = batch_window(answer.records, self._range, self.position, log_start=log_start)
        if window.next_offset == self.position:
            yield from self._nothing_new(connection, answer)
            return
        self._size.learn(window.next_offset - self.position, len(answer.records))
        if window.next_offset < self._range.end:
            self._ask(connection, window.next_offset)
        if window.chunk:
            verify_crc(window.chunk.data, window.chunk.batches)
        self.position = window.next_offset
        self._empty_answers, self._waiting_since_s = 0, None
        if window.chunk:
            yield window.chunk

    def _nothing_new(self, connection: Connection, answer: FetchAnswer) -> Iterator[Hole]:
        """No whole batch came: it did not fit, there is none any more, or the leader does not know of it yet."""
        if len(answer.records):
            self._grow()
        elif answer.high_watermark >= self._range.end:
            self._empty_answers += 1
        else:
            self._waiting_since_s = self._waiting_since_s or self._clock.monotonic_s()
            if self._clock.monotonic_s() - self._waiting_since_s > TRUNCATED_AFTER_S:
                yield self._skip_to(self._range.end, "truncation")
        if self._empty_answers >= _EMPTY_ANSWERS:
            self.position = self._range.end
        if not self.done:
            self._ask(connection, self.position)

    def _grow(self) -> None:
        if not self._size.grow():
            raise DamagedBatch(f"{self._range}: the batch at {self.position} is never whole", hint="is it damaged?")

    def _hole(self, connection: Connection, follower: int) -> Hole:
        """The log no longer has the position: find out why, and go on where it has something."""
        if follower >= 0:
            raise LeaderUnavailable(f"replica {follower} does not have offset {self.position} of {self._range}")
        earliest, latest = (self._bound(connection, which) for which in (EARLIEST, LATEST))
        if self.position < earliest:
            self._log_start = earliest
            hole = self._skip_to(min(earliest, self._range.end), "retention")
        elif self.position > latest:
            hole = self._skip_to(self._range.end, "truncation")
        else:
            raise LeaderUnavailable(f"{self._range}: offset {self.position} is out of range, yet within the log")
        if not self.done:
            self._ask(connection, self.position)
        return hole

    def _skip_to(self, offset: int, reason: str) -> Hole:
        topic, partition, start = self._range.topic, self._range.partition, self.position
        self.position = offset
        return Hole(topic=topic, partition=partition, start=start, end=offset, reason=reason)

    def _bound(self, connection: Connection, which: int) -> int:
        key = self._range.topic_partition
        listed = connection.call(list_offsets_request([key], which))[key]
        if listed.error_code:
            raise broker_error(listed.error_code, f"listing offsets of {key}")
        return listed.offset

    def _check_incarnation(self) -> None:
        found = self._router.leader(self._range.topic_partition).topic_id
        if self._topic_id and found and found != self._topic_id:
            raise TopicReplaced(f"{self._range.topic} is no longer the topic {self._topic_id}", hint="plan again")

    def _lease(self, follower: int) -> AbstractContextManager[Connection]:
        if follower < 0:
            return self._router.lease_leader(self._range.topic_partition)
        self._rack_id = ""  # whatever ends this run, the next one asks the leader and stays there
        return self._router.lease_broker(follower)

    def _choose_format(self, connection: Connection) -> FetchFormat:
        by_id = self._topic_id is not None and connection.has_version(Api.FETCH, ID_VERSION)
        if not by_id:
            connection.check_version(Api.FETCH, NAME_VERSION)
        key = self._range.topic_partition
        return FetchFormat(key, topic_id=self._topic_id if by_id else None, rack_id=self._rack_id)

    def _ask(self, connection: Connection, position: int) -> None:
        waits = self._waiting_since_s is not None
        query = FetchQuery(
            offset=position,
            max_bytes=self._size.ask_bytes(self._range.end - position),
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1 if waits else 0,
        )
        connection.send(Api.FETCH, self._format.version, [self._format.encode(query)], flexible=self._format.flexible)

    def _receive(self, connection: Connection) -> FetchAnswer:
        data = connection.receive(self._buffer)
        try:
            answer = self._format.decode(data)
        except (struct.error, IndexError) as error:
            connection.close()
            raise KafkaProtocolError(f"{connection.address} sent an unreadable answer to Fetch") from error
        if answer.throttle_ms:
            self._clock.sleep(answer.throttle_ms / 1000)
        return answer
