"""Read a range over one connection: fetch, cut, check, yield, with one fetch always in flight.

The stream holds the position. The position moves only as `evidence` allows, so that a new run continues exactly at the
position.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager

from offsite.kafka.evidence import BatchWindow, FetchVerdict, batch_window, judge_fetch
from offsite.kafka.log_bounds import LeaderAnswers
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.broker_socket import ReceiveBuffer
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import NONE, OFFSET_OUT_OF_RANGE, broker_error
from offsite.kafka.protocol.fetch import ID_VERSION, NAME_VERSION, FetchAnswer, FetchFormat, FetchQuery
from offsite.kafka.protocol.request import Api
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.kafka.read_task import FETCH_BYTES, UNLIMITED, FetchPace, FetchSize, Item, ReadTask
from offsite.kafka.silence import FetchPatience
from offsite.log.batch import verify_crc
from offsite.log.range import Gap, GapEvidence, Hole
from offsite.model.clock import Clock
from offsite.model.errors import (
    DamagedBatch,
    KafkaProtocolError,
    LeaderUnavailable,
    SourceTruncated,
    TopicReplaced,
)
from offsite.model.journal import decided

_MAX_WAIT_MS = 500


class FetchPending:
    """Marker between items: a fetch is in flight."""


FETCH_PENDING = FetchPending()


class PartitionStream:
    """The state of one `PartitionReader.read`. `on_throttle` receives every pause that a quota asks for, in ms. `pace`
    is asked before every fetch.

    Followers (KIP-392). A client that names a rack may be sent to a replica in the rack, and the replica may lag
    behind. Records from a follower are as good as the leader's. An empty answer or an unknown offset from a follower
    proves nothing, so the reader then asks the leader.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # both ends of the connection, the task, and the patience
        self,
        router: Router,
        clock: Clock,
        buffer: ReceiveBuffer,
        task: ReadTask,
        patience: Backoff,
        on_throttle: Callable[[int], None] | None,
        pace: FetchPace = UNLIMITED,
    ) -> None:
        self.position = task.range.start
        self._task, self._range = task, task.range
        self._router = router
        self._clock = clock
        self._buffer = buffer
        self._patience = FetchPatience(router, clock, task, patience)
        self._on_throttle, self._pace = on_throttle, pace
        self._size = FetchSize()
        self._rack_id = router.config.rack_id
        self._follower = -1
        self._epoch = -1
        self._checked_epoch = -2
        self._log_start = -1

    @property
    def done(self) -> bool:
        return self.position >= self._range.end

    def run(self) -> Generator[Item | FetchPending, None, None]:
        """Read until the range ends, another replica is better, or an error occurs; afterwards another run continues.
        Yields `FETCH_PENDING` before the wait for the first answer."""
        self._meet_leader()
        follower, self._follower = self._follower if self._epoch == self._checked_epoch else -1, -1
        with self._lease(follower) as connection:
            self._format = self._choose_format(connection)
            self._check_not_truncated(connection, follower)
            self._ask(connection, self.position)
            yield FETCH_PENDING
            while not self.done and self._follower < 0:
                answer = self._receive(connection)
                if answer.error_code == OFFSET_OUT_OF_RANGE:
                    yield self._hole(connection, follower)
                elif answer.error_code != NONE:
                    raise broker_error(answer.error_code, f"fetching {self._range.topic_partition}")
                elif answer.preferred_replica >= 0 and follower < 0:
                    self._go_to(answer.preferred_replica)
                elif judge_fetch(answer, end=self._range.end) is FetchVerdict.RECORDS:
                    yield from self._take(connection, answer)
                elif follower >= 0:
                    return  # the leader may know more than a follower
                else:
                    yield from self._nothing_new(connection, answer)

    def _go_to(self, replica: int) -> None:
        """Continue at `replica`: the leader itself returns nothing. A replica selector that ignores racks redirects
        even after the replica returned nothing, so going to and fro uses up the patience."""
        if not self._rack_id:
            self._patience.wait(f"its leader redirects readers to replica {replica}", self.position)
        self._follower = replica

    def _take(self, connection: Connection, answer: FetchAnswer) -> Iterator[Item]:
        window = self._window(answer)
        if window.next_offset == self.position:
            self._grow()
            self._ask(connection, self.position)
            return
        self._check_within(window, answer)
        self._size.learn(window.next_offset - self.position, len(answer.records))
        if window.chunk and self._pace.portion_bytes < FETCH_BYTES:
            self._size.learn_batches(max([batch.size_bytes for batch in window.chunk.batches]))
        if window.next_offset < self._range.end:
            self._ask(connection, window.next_offset)
        if window.chunk:
            verify_crc(window.chunk.data, window.chunk.batches)
        self._move_to(window.next_offset)
        yield from self._items(window)

    def _window(self, answer: FetchAnswer) -> BatchWindow:
        log_start = max(answer.log_start, self._log_start)
        if self._task.reach_back and self.position == self._range.start:
            log_start = self.position
        owns_start = self._task.owns_start or self._task.reach_back
        return batch_window(answer.records, self._range, self.position, log_start=log_start, owns_start=owns_start)

    def _check_within(self, window: BatchWindow, answer: FetchAnswer) -> None:
        """Check that no batch reaches over the high watermark. Brokers send consumers no such batch, so the batch's
        offsets are wrong."""
        if window.reaches_to > answer.high_watermark:
            problem = f"a batch reaches to {window.reaches_to}, beyond the high watermark {answer.high_watermark}"
            raise DamagedBatch(
                f"{self._range}: {problem}", hint="run again; if the error stays, check the broker's disk"
            )

    def _items(self, window: BatchWindow) -> Iterator[Item]:
        """Yield the gap before the first batch, the batches, and the gap behind the last batch."""
        if window.gap_start < window.gap_end:
            at_end = window.gap_end == self._range.end and window.beyond >= 0
            yield self._gap(window.gap_start, window.gap_end, window.beyond if at_end else window.gap_end)
        if window.chunk:
            yield window.chunk
            if window.beyond >= 0 and window.reaches_to < self._range.end:
                yield self._gap(window.reaches_to, self._range.end, window.beyond)

    def _nothing_new(self, connection: Connection, answer: FetchAnswer) -> Iterator[Item]:
        """Handle an answer of the leader without a single byte."""
        if judge_fetch(answer, end=self._range.end) is FetchVerdict.THROTTLED:
            self._size.shrink()
        tail = self._patience.wait_out(connection, answer, position=self.position, epoch=self._epoch)
        if tail is not None:
            yield tail
            self._move_to(self._range.end)
        else:
            self._ask(connection, self.position)

    def _grow(self) -> None:
        if not self._size.grow():
            raise DamagedBatch(
                f"{self._range}: the broker never sends the whole batch at offset {self.position}",
                hint="the batch may be damaged on the broker",
            )

    def _hole(self, connection: Connection, follower: int) -> Hole:
        """Record a hole: the log no longer has the position. Ask the leader for the reason, in the epoch of the read,
        and continue behind the hole."""
        if follower >= 0:
            raise LeaderUnavailable(f"replica {follower} does not have offset {self.position} of {self._range}")
        bounds = LeaderAnswers(connection, self._range.topic_partition, self._epoch).bounds()
        if self.position >= bounds.start:
            raise LeaderUnavailable(
                f"{self._range}: offset {self.position} was reported as out of range, although the log is "
                f"[{bounds.start}, {bounds.end})"
            )
        self._log_start = bounds.start
        start, end = self.position, min(bounds.start, self._range.end)
        where = self._range
        why = f"the log starts at {bounds.start}"
        decided("hole", why=why, topic=where.topic, partition=where.partition, start=start, end=end, epoch=self._epoch)
        self._move_to(end)
        if not self.done:
            self._ask(connection, self.position)
        return Hole(topic=self._range.topic, partition=self._range.partition, start=start, end=end, reason="retention")

    def _check_not_truncated(self, connection: Connection, follower: int) -> None:
        """Check that no new leader cut the log back below the range's end.

        Only leader epochs can tell (KIP-101, KIP-320). Every fetch names the known leader epoch, so that a deposed or
        newly elected broker refuses the fetch instead of answering from another history. The epoch guards one fetch,
        and proves nothing about the time between plan and fetch: the election of a replica outside the in-sync set cuts
        the log below the planned end, and new records may already follow the cut. So a leader of a later epoch than the
        plan's is asked first for the end of the plan's epoch in the leader's log. An end before the range's end means a
        changed log: the range is not the planned range.
        """
        planned = self._task.planned_epoch
        if follower >= 0 or self._checked_epoch == self._epoch:
            return
        if self._epoch < planned:
            raise LeaderUnavailable(f"{self._range.topic_partition}: a broker still leads in epoch {self._epoch}")
        is_new = 0 <= planned < self._epoch
        end = LeaderAnswers(connection, self._range.topic_partition, self._epoch).end_of(planned).end if is_new else 0
        if end < 0:
            raise LeaderUnavailable(f"{self._range.topic_partition}: its leader does not know epoch {planned}")
        if is_new and end < self._range.end:
            raise SourceTruncated(
                f"{self._range.topic_partition} was cut back to {end} by a new leader while it was copied",
                hint="run again: the new run plans with the current log",
            )
        self._checked_epoch = self._epoch

    def _gap(self, start: int, end: int, seen_at: int) -> Gap:
        where, why = self._range, GapEvidence.BATCH
        return Gap(topic=where.topic, partition=where.partition, start=start, end=end, evidence=why, seen_at=seen_at)

    def _move_to(self, position: int) -> None:
        self.position = position
        self._patience.reset()

    def _meet_leader(self) -> None:
        """Check the topic id of the leader, and remember the leader epoch."""
        leader = self._router.leader(self._range.topic_partition)
        self._epoch = leader.epoch
        self._patience.forget_confirmations()
        expected, actual = self._task.topic_id, leader.topic_id
        if expected and actual and actual != expected:
            raise TopicReplaced(
                f"{self._range.topic} is no longer the topic {expected}",
                hint="run again: the new run makes a new plan",
            )

    def _lease(self, follower: int) -> AbstractContextManager[Connection]:
        if follower < 0:
            return self._router.lease_leader(self._range.topic_partition)
        self._rack_id = ""  # however this run ends, the next run asks the leader and stays there
        return self._router.lease_broker(follower)

    def _choose_format(self, connection: Connection) -> FetchFormat:
        topic_id = self._task.topic_id
        by_id = topic_id is not None and connection.has_version(Api.FETCH, ID_VERSION)
        if not by_id:
            connection.check_version(Api.FETCH, NAME_VERSION)
        key = self._range.topic_partition
        return FetchFormat(key, topic_id=topic_id if by_id else None, rack_id=self._rack_id)

    def _ask(self, connection: Connection, position: int) -> None:
        size_bytes = self._size.ask_bytes(self._range.end - position, most=self._pace.portion_bytes)
        self._pace.before_fetch(size_bytes)
        query = FetchQuery(
            offset=position,
            max_bytes=size_bytes,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1 if self._patience.is_waiting else 0,
            leader_epoch=self._epoch,
        )
        connection.send(Api.FETCH, self._format.version, [self._format.encode(query)], flexible=self._format.flexible)

    def _receive(self, connection: Connection) -> FetchAnswer:
        data = connection.receive(self._buffer)
        self._pace.after_fetch(len(data))
        try:
            answer = self._format.decode(data)
        except UNREADABLE as error:
            connection.close()
            raise KafkaProtocolError(f"{connection.address} sent an unreadable answer to Fetch") from error
        if answer.throttle_ms > 0:
            if self._on_throttle is not None:
                self._on_throttle(answer.throttle_ms)
            self._clock.sleep(answer.throttle_ms / 1000)
        return answer
