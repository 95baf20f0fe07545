"""Ends that are read again and again, from brokers that move, refuse, hang up or talk nonsense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from offsite.kafka.config import BrokerAddress
from offsite.kafka.net.routing import Leader
from offsite.kafka.protocol.request import Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.kafka.watermarks import GIVEN_UP_AFTER_S, LogEndReader
from offsite.log.range import TopicPartition
from offsite.model.errors import KafkaNotAuthorized, KafkaUnreachable, LeaderUnavailable
from tests.virtual_time import VirtualClock

ORDERS, BILLS = (TopicPartition(topic=name, partition=0) for name in ("orders", "bills"))
NOT_LEADER, DENIED = 6, 29


class FakeRouter:
    """Broker 1 leads orders, and broker 2 leads bills. `codes` is what is said of a partition instead of its end;
    `truth` are leaders as metadata tells them."""

    def __init__(self) -> None:
        self.truth: dict[TopicPartition, int] = {ORDERS: 1, BILLS: 2}
        self.ends = {ORDERS: 7, BILLS: 8}
        self.codes: dict[TopicPartition, int] = {}
        self.down: set[int] = set()
        self.garbled: set[int] = set()
        self.known = dict(self.truth)

    def known_leader(self, key: TopicPartition) -> Leader | None:
        node_id = self.known.get(key)
        return node_id and Leader(node_id=node_id, address=BrokerAddress(host="h", port=1), epoch=0, topic_id=None)

    def metadata(self, topics: Sequence[str]) -> None:
        self.known = dict(self.truth)

    def forget(self, key: TopicPartition) -> None:
        self.known.pop(key, None)

    @contextmanager
    def lease_broker(self, node_id: int) -> Iterator[FakeConnection]:
        yield FakeConnection(self, node_id)


class FakeConnection:
    def __init__(self, router: FakeRouter, node_id: int) -> None:
        self.router, self.node_id = router, node_id

    def post(self, _: Request[object]) -> None:
        if self.node_id in self.router.down:
            raise KafkaUnreachable("nobody there")

    def collect(self, request: Request[bytes]) -> bytes:
        keys = [key for key in self.router.ends if key.topic.encode() in request.body]
        out = Encoder().i32(0).array(keys, self._put)
        return request.parse(Decoder(memoryview(out.done()[: 9 if self.node_id in self.router.garbled else None])))

    def _put(self, out: Encoder, key: TopicPartition) -> None:
        leads = self.router.truth.get(key) == self.node_id
        code = self.router.codes.get(key, 0 if leads else NOT_LEADER)
        out.string(key.topic).i32(1).i32(0).i16(code).i64(-1).i64(-1 if code else self.router.ends[key]).i32(0)


@pytest.fixture
def router() -> FakeRouter:
    return FakeRouter()


def ends_of(router: FakeRouter, clock: VirtualClock | None = None) -> LogEndReader:
    return LogEndReader(router, clock or VirtualClock(), [ORDERS, BILLS])  # type: ignore[arg-type]


def test_answers_are_kept_until_they_are_decoded(router: FakeRouter) -> None:
    ends = ends_of(router)
    before = ends.ask()
    router.ends[ORDERS] = 70
    assert (ends.decode(before), ends.decode(ends.ask())) == ({ORDERS: 7, BILLS: 8}, {ORDERS: 70, BILLS: 8})


def test_a_leader_that_moved_makes_one_answer_incomplete_and_is_found_again(router: FakeRouter) -> None:
    ends = ends_of(router)
    router.truth[ORDERS] = 2
    assert ends.decode(ends.ask()) is None
    assert ends.read() == {ORDERS: 7, BILLS: 8}
    assert ends.decode(ends.ask()) == {ORDERS: 7, BILLS: 8}
    assert ends.failed == {}


def test_a_partition_without_leader_is_given_up_for_good(router: FakeRouter) -> None:
    clock = VirtualClock()
    ends = ends_of(router, clock)
    del router.truth[ORDERS], router.known[ORDERS]
    assert ends.read() == {BILLS: 8}
    assert clock.now_s == pytest.approx(GIVEN_UP_AFTER_S, abs=2)
    assert isinstance(ends.failed[ORDERS], LeaderUnavailable)
    router.metadata([])
    assert ends.decode(ends.ask()) == {BILLS: 8}


def test_what_we_may_not_see_is_given_up_at_once(router: FakeRouter) -> None:
    clock = VirtualClock()
    ends = ends_of(router, clock)
    router.codes[ORDERS] = DENIED
    assert (ends.read(), clock.now_s) == ({BILLS: 8}, 0)
    assert isinstance(ends.failed[ORDERS], KafkaNotAuthorized)


@pytest.mark.parametrize("how", ["down", "garbled"])
def test_a_broker_that_tells_nothing_takes_no_other_with_it(router: FakeRouter, how: str) -> None:
    ends = ends_of(router)
    getattr(router, how).add(1)
    assert ends.decode(ends.ask()) is None
    assert ends.read() == {BILLS: 8}
    assert ends.failed.keys() == {ORDERS}


def test_nothing_to_ask_for_is_an_answer(router: FakeRouter) -> None:
    nothing = LogEndReader(router, VirtualClock(), [])  # type: ignore[arg-type]
    assert nothing.decode(nothing.ask()) == nothing.read() == {}
