"""Offsets that leaders leave out of their answers, or tell of partitions nobody asked about."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from offsite.kafka.config import BrokerAddress
from offsite.kafka.net.routing import Leader
from offsite.kafka.offsets import end_offset, find_offsets, high_watermark
from offsite.kafka.protocol.logs import LATEST, ListedOffset
from offsite.kafka.protocol.request import Request
from offsite.log.range import TopicPartition
from offsite.model.errors import LeaderUnavailable
from tests.virtual_time import VirtualClock

ORDERS, BILLS, OTHER = (TopicPartition(topic=name, partition=0) for name in ("orders", "bills", "other"))
Answer = Mapping[TopicPartition, ListedOffset]


def told(offset: int, *, error_code: int = 0) -> ListedOffset:
    return ListedOffset(offset=offset, timestamp_ms=-1, leader_epoch=0, error_code=error_code)


class FakeRouter:
    """One broker that gives these answers, the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.asked = 0

    def by_leader(self, partitions: Iterable[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        return {1: list(partitions)}

    def leader(self, _: TopicPartition) -> Leader:
        return Leader(node_id=1, address=BrokerAddress(host="h", port=1), epoch=0, topic_id=None)

    def call_each(self, requests: Mapping[int, Request[Answer]]) -> Mapping[int, Answer]:
        return dict.fromkeys(requests, self._next())

    @contextmanager
    def lease_leader(self, partition: TopicPartition) -> Iterator[FakeRouter]:
        yield self

    def call(self, request: Request[Answer]) -> Answer:
        return self._next()

    def forget(self, partition: TopicPartition) -> None:
        pass

    def _next(self) -> Answer:
        self.asked += 1
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]


def test_a_partition_left_out_is_asked_for_again() -> None:
    router, clock = FakeRouter({ORDERS: told(7)}, {}, {BILLS: told(8)}), VirtualClock()
    assert find_offsets(router, clock, [ORDERS, BILLS], LATEST) == {ORDERS: 7, BILLS: 8}
    assert router.asked == 3
    assert clock.now_s > 0, "it waited in between"


@pytest.mark.timeout(10)
def test_a_partition_left_out_for_ever_is_named() -> None:
    with pytest.raises(LeaderUnavailable, match="does not contain the offset of bills/0"):
        find_offsets(FakeRouter({ORDERS: told(7)}), VirtualClock(), [ORDERS, BILLS], LATEST)


def test_many_partitions_left_out_are_named_in_one_line() -> None:
    partitions = [TopicPartition(topic="many", partition=number) for number in range(2000)]
    with pytest.raises(LeaderUnavailable) as caught:
        find_offsets(FakeRouter({}), VirtualClock(), partitions, LATEST)
    assert "and 1995 more" in caught.value.message
    assert len(caught.value.message) < 200


def test_what_nobody_asked_about_is_not_taken() -> None:
    router = FakeRouter({ORDERS: told(7), OTHER: told(-1, error_code=-1)})
    assert find_offsets(router, VirtualClock(), [ORDERS], LATEST) == {ORDERS: 7}


def test_an_end_left_out_is_asked_for_again_and_then_named() -> None:
    assert end_offset(FakeRouter({}, {ORDERS: told(-1)}, {ORDERS: told(7)}), ORDERS, clock=VirtualClock()) == 7
    with pytest.raises(LeaderUnavailable, match="does not contain the offset of orders/0"):
        end_offset(FakeRouter({}), ORDERS, clock=VirtualClock())
    with pytest.raises(LeaderUnavailable):
        high_watermark(FakeRouter({BILLS: told(7)}), ORDERS)
