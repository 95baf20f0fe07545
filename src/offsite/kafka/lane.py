"""One connection to a leader, shared by writers of several partitions: a broker's hand-over of a request between
threads is paid once for a batch of every writer.

A leader handles the requests of a connection in order, so many may be in flight. A lane decides nothing about a log.
The lane hands every answer to the writer of the piece. A lost connection, or a refusal for a passing reason, ends the
lane. The lane then tells all writers, and every writer reads its own log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.producer import LostTrackError, Producer, TransactionOutcome, write_outcomes_request
from offsite.kafka.protocol.produce import VERSION, ProduceAnswer, parse_produced, produce_parts
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import UNREADABLE
from offsite.log.batch import BatchHeader
from offsite.log.markers import parse_control_marker
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import (
    KafkaProtocolError,
    KafkaTimeout,
    KafkaUnreachable,
    LeaderUnavailable,
    NoSuchTopic,
    OffsiteError,
    check,
)
from offsite.model.units import MIB

_OUTCOME_BYTES = 78  # a batch with one control record, as the log has it


@dataclass(slots=True, kw_only=True, eq=False)
class Batch:
    """A batch at `[start, end)`. `sequence`: sequence number of the first record."""

    start: int
    end: int
    data: memoryview
    producer: Producer
    sequence: int

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def take_match(self, batch: memoryview, header: BatchHeader) -> bool:  # noqa: ARG002  # as outcomes have it
        """Whether a batch of the log at `start` is the same batch."""
        mine = (self.producer.producer_id, self.producer.epoch, self.sequence, self.end - self.start)
        return mine == (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count)


@dataclass(slots=True, kw_only=True, eq=False)
class ControlRecords:
    """Control records from `start` on, one per outcome."""

    start: int
    outcomes: Sequence[TransactionOutcome]

    @property
    def end(self) -> int:
        return self.start + len(self.outcomes)

    @property
    def size_bytes(self) -> int:
        return _OUTCOME_BYTES * len(self.outcomes)

    def take_match(self, batch: memoryview, header: BatchHeader) -> bool:
        """Whether a batch of the log at `start` is the first control record of the piece. A match is removed from the
        piece."""
        first, marker = self.outcomes[0], parse_control_marker(batch, header) if header.is_control else None
        is_same = (header.producer_id, header.producer_epoch) == (first.producer_id, first.producer_epoch)
        if marker is None or not is_same or (marker.kind == "commit") != first.committed:
            return False
        self.start, self.outcomes = self.start + 1, self.outcomes[1:]
        return True


Piece: TypeAlias = Batch | ControlRecords


REQUESTS_MAX = 64
"""Requests in flight at a time."""
BYTES_MAX = 8 * MIB
"""Bytes of batches in flight at a time; a single request may be larger."""
REQUEST_BYTES_MAX = 32 * MIB
"""Bytes of several batches in one request: brokers accept 100 MiB by default (socket.request.max.bytes)."""


class LaneMember(Protocol):
    """A writer of one partition, as seen by the lane.

    A piece is a batch, or control records of transactions. A piece knows its offsets, and recognises itself in the log.
    """

    @property
    def partition(self) -> TopicPartition: ...

    def next_unsent(self) -> Piece | None:
        """Return the next piece for the lane; None also where the writer will not send any more."""

    def take_answer(self, piece: Piece, answer: ProduceAnswer) -> None:
        """Take the answer to the oldest piece in flight. Raises errors that another connection may cure,
        `LostTrackError` included."""

    def end_lane(self, error: OffsiteError | None) -> None:
        """Note the end of the lane, with or without an answer to pieces in flight. `error`: the reason, or None when
        another member caused the end."""


Answers: TypeAlias = Mapping[TopicPartition, ProduceAnswer]


class _InFlightRequest(NamedTuple):
    """One request in flight: the pieces with their writers, and the function that reads the answer."""

    pieces: Sequence[tuple[LaneMember, Piece]]
    size_bytes: int
    receive: Callable[[], Answers]


class Lane:
    """A connection shared by members. `lease` holds the connection, and ends with the lane."""

    def __init__(self, connection: Connection, lease: ExitStack, *, timeout_ms: int, clock: Clock) -> None:
        self._connection, self._lease, self._timeout_ms, self._clock = connection, lease, timeout_ms, clock
        self._members: dict[LaneMember, None] = {}
        self.is_open = True
        self._in_flight: deque[_InFlightRequest] = deque()
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether answers have to be read before the next send: all of them where the session ends soon."""
        count = len(self._in_flight)
        return (
            count > REQUESTS_MAX
            or (count > 1 and self._bytes > BYTES_MAX)
            or (count > 0 and self._connection.login_due)
        )

    def join(self, member: LaneMember) -> None:
        self._members[member] = None

    def leave(self, member: LaneMember) -> None:
        """Remove a member. Answers to the member's pieces in flight are ignored afterwards."""
        self._members.pop(member, None)
        if not self._members:
            self.close()

    def send(self) -> None:
        """Send everything unsent."""
        while self.send_round():
            pass

    def send_round(self) -> bool:
        """Send the next piece of every member, in one request where possible. Returns whether any piece was sent."""
        pieces = [(member, piece) for member in list(self._members) if (piece := member.next_unsent()) is not None]
        try:
            self._send(pieces)
        except (KafkaUnreachable, KafkaTimeout) as error:
            self._end(dict.fromkeys(self._members, error))
        return bool(pieces) and self.is_open

    def receive(self) -> None:
        """Take the answer to the oldest request. Raises `Bug` when no request is in flight: the wait would never
        end."""
        check(bool(self._in_flight), "offsite waits for an answer without a request")
        request = self._in_flight[0]
        try:
            answers = request.receive()
        except (KafkaUnreachable, KafkaTimeout) as error:
            self._end(dict.fromkeys(self._members, error))
            return
        self._in_flight.popleft()
        self._bytes -= request.size_bytes
        if refused := dict(self._refused(request, answers)):
            self._end({member: refused.get(member) for member in self._members})
        for answer in answers.values():
            if answer.throttle_ms:
                self._clock.sleep(answer.throttle_ms / 1000)
                break  # equal for the whole answer

    def _refused(self, request: _InFlightRequest, answers: Answers) -> Iterator[tuple[LaneMember, OffsiteError]]:
        """Yield the members whose piece was refused for a reason that another connection may cure, with the error."""
        for member, piece in request.pieces:
            if member not in self._members:
                continue
            try:
                member.take_answer(piece, _answer_of(member.partition, answers))
            except (LeaderUnavailable, KafkaTimeout, NoSuchTopic) as error:
                yield member, error
            except LostTrackError as lost:
                yield member, lost.error

    def close(self) -> None:
        self.is_open = False
        if self._in_flight:
            self._connection.close()
        self._lease.close()

    def _send(self, pieces: Sequence[tuple[LaneMember, Piece]]) -> None:
        """Send pieces. Batches outside of transactions share a request; a transactional id applies to a whole
        request."""
        together = list[tuple[LaneMember, Batch]]()
        for member, piece in pieces:
            if isinstance(piece, ControlRecords):
                self._send_outcomes(member, piece)
            elif (transactional_id := piece.producer.transactional_id) is not None:
                self._send_batches([(member, piece)], transactional_id)
            else:
                together.append((member, piece))
        while together:
            batches, size_bytes = list[tuple[LaneMember, Batch]](), 0
            while together and (not batches or size_bytes + together[0][1].size_bytes <= REQUEST_BYTES_MAX):
                size_bytes += together[0][1].size_bytes
                batches.append(together.pop(0))
            self._send_batches(batches, None)

    def _send_batches(self, pieces: Sequence[tuple[LaneMember, Batch]], transactional_id: str | None) -> None:
        batches = [(member.partition, piece.data) for member, piece in pieces]
        parts = produce_parts(batches, transactional_id=transactional_id, timeout_ms=self._timeout_ms)
        self._note(pieces, self._receive_batches)
        self._connection.send(Api.PRODUCE, VERSION, parts)

    def _send_outcomes(self, member: LaneMember, piece: ControlRecords) -> None:
        flexible = self._connection.has_version(Api.WRITE_TXN_MARKERS, 1)
        request = write_outcomes_request(member.partition, piece.outcomes, flexible=flexible)
        self._note([(member, piece)], lambda: self._receive_outcomes(member, request))
        self._connection.post(request)

    def _note(self, pieces: Sequence[tuple[LaneMember, Piece]], receive: Callable[[], Answers]) -> None:
        size_bytes = sum(piece.size_bytes for _, piece in pieces)
        self._in_flight.append(_InFlightRequest(pieces, size_bytes, receive))
        self._bytes += size_bytes

    def _receive_batches(self) -> Answers:
        try:
            return parse_produced(self._connection.receive())
        except (*UNREADABLE, KafkaProtocolError) as error:
            raise self._unreadable() from error

    def _receive_outcomes(self, member: LaneMember, request: Request[int]) -> Answers:
        try:
            code = self._connection.collect(request)
        except (*UNREADABLE, KafkaProtocolError) as error:
            raise self._unreadable() from error
        return {member.partition: ProduceAnswer(error_code=code, base_offset=-1, throttle_ms=0, detail="")}

    def _unreadable(self) -> KafkaUnreachable:
        """Return the error for an unreadable answer, which counts as a lost connection."""
        return KafkaUnreachable(f"{self._connection.address} sent an unreadable answer")

    def _end(self, troubles: Mapping[LaneMember, OffsiteError | None]) -> None:
        self._connection.close()
        self.close()
        for member, error in troubles.items():
            member.end_lane(error)


class Lanes:
    """The lanes of one task, by leader. `pay` receives the bytes of every batch before the first send, and returns when
    the bytes may be sent."""

    def __init__(self, router: Router, *, clock: Clock | None = None, pay: Callable[[int], None] | None = None) -> None:
        self._router, self._clock, self._pay = router, clock or SystemClock(), pay
        self._lanes: dict[int, Lane] = {}

    def join(self, member: LaneMember) -> Lane:
        """Return the lane to the leader of the member's partition, with the member on board. Raises the errors of a
        router."""
        node_id = self._router.leader(member.partition).node_id
        lane = self._lanes.get(node_id)
        if lane is None or not lane.is_open:
            lane = self._lanes[node_id] = self._opened(member.partition)
        lane.join(member)
        return lane

    def pay(self, size_bytes: int) -> None:
        """Wait until `size_bytes` may be sent. Raises the errors of the given `pay`."""
        if self._pay is not None:
            self._pay(size_bytes)

    def _opened(self, partition: TopicPartition) -> Lane:
        with ExitStack() as lease:
            connection = lease.enter_context(self._router.lease_leader(partition))
            connection.check_version(Api.PRODUCE, VERSION)
            # The broker gives up before our socket does, so that we see the broker's reason.
            timeout_ms = self._router.config.request_timeout_ms // 2
            return Lane(connection, lease.pop_all(), timeout_ms=timeout_ms, clock=self._clock)


def _answer_of(partition: TopicPartition, answers: Answers) -> ProduceAnswer:
    answer = answers.get(partition)
    if answer is None:
        raise LeaderUnavailable(f"the answer to a batch for {partition} leaves the partition out")
    return answer
