"""Logs of several partitions written over one connection, into a fake cluster that refuses some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from offsite.kafka.lane import Lanes
from offsite.kafka.log_writer import LogWriter
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import shared_router
from offsite.kafka.producer import Producer
from offsite.kafka.protocol.broker_errors import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaNotAuthorized, NoSuchTopic, OffsiteError, TargetDisturbed
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.server import serving
from tests.unit.kafka.test_log_writer import Mending

KEYS = [TopicPartition(topic=topic, partition=number) for topic in ("t", "u") for number in range(2)]
ROUNDS = 10
TOPIC_AUTHORIZATION_FAILED = 29


class Partition:
    """One partition and who writes it; `number` is its producer's."""

    def __init__(self, cluster: FakeCluster, key: TopicPartition, lanes: Lanes, number: int) -> None:
        self.cluster, self.key = cluster, key
        self.producer = Producer(producer_id=number, epoch=0)
        self.writer = LogWriter(
            shared_router(cluster.config),
            key,
            at=0,
            unexpected=lambda start, end: TargetDisturbed(f"{start} to {end}"),
            guard=lambda: None,
            lanes=lanes,
            clock=Mending(cluster),
        )
        self.sent = 0

    def send(self) -> None:
        self.sent += 1
        self.writer.send_batch(encode([Record(0, 0, 0, b"k", b"%s %d" % (self.name, self.sent))]), 1, self.producer)

    @property
    def name(self) -> bytes:
        return str(self.key).encode()

    def is_whole(self) -> bool:
        expected = [b"%s %d" % (self.name, number) for number in range(1, self.sent + 1)]
        return self.cluster.values(self.key.topic, self.key.partition) == expected


@pytest.fixture
def partitions() -> Iterator[list[Partition]]:
    with serving() as cluster:
        for topic in ("t", "u"):
            cluster.make_topic(topic, partitions=2)
        lanes = Lanes(shared_router(cluster.config))
        yield [Partition(cluster, key, lanes, number) for number, key in enumerate(KEYS, start=1)]


def finished(partitions: list[Partition]) -> None:
    for each in partitions:
        each.writer.flush()
        each.writer.close()


@pytest.fixture
def produced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An item for each Produce request: how many parts it was sent in."""
    requests, send = list[int](), Connection.send

    def counted(self: Connection, api: int, version: int, parts: Any, **options: Any) -> None:
        if api == Api.PRODUCE:
            requests.append(len(parts))
        send(self, api, version, parts, **options)

    monkeypatch.setattr(Connection, "send", counted)
    return requests


def test_partitions_that_are_written_in_turns_share_requests(partitions: list[Partition], produced: list[int]) -> None:
    for _ in range(ROUNDS):
        for each in partitions:
            each.send()
    finished(partitions)
    assert all(each.is_whole() for each in partitions)
    alone = len(KEYS)  # the first batch of each producer
    assert len(produced) == alone + ROUNDS - 1


def test_each_batch_is_paid_for_before_it_goes_out_and_once_however_often_it_is_sent() -> None:
    with serving() as cluster:
        cluster.make_topic("t", partitions=2)
        paid = list[int]()

        def pay(size_bytes: int) -> None:
            there = sum(len(cluster.values("t", number)) for number in range(2))
            assert there <= len(paid), "nothing is there that was not paid for"
            paid.append(size_bytes)

        lanes = Lanes(shared_router(cluster.config), pay=pay)
        written = [Partition(cluster, key, lanes, number) for number, key in enumerate(KEYS[:2], start=1)]
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                cluster.failing[Api.PRODUCE, KEYS[0]] = NOT_LEADER_OR_FOLLOWER
            for each in written:
                each.send()
        finished(written)
        assert all(each.is_whole() for each in written)
        one = len(encode([Record(0, 0, 0, b"k", b"t/0 1")]))
        assert len(paid) == 2 * ROUNDS
        assert set(paid) <= {one, one + 1}


def test_one_that_is_refused_for_good_spares_the_others(partitions: list[Partition]) -> None:
    refused, *others = partitions
    for each in partitions:
        each.send()
    refused.cluster.failing[Api.PRODUCE, refused.key] = TOPIC_AUTHORIZATION_FAILED
    failure: OffsiteError | None = None
    for _ in range(ROUNDS):
        for each in others if failure else partitions:
            try:
                each.send()
            except KafkaNotAuthorized as error:
                failure = error
    if failure is None:
        with pytest.raises(KafkaNotAuthorized):
            refused.writer.flush()
    finished(others)
    assert all(each.is_whole() for each in others)
    assert len(refused.cluster.values("t", 0)) == 1


def test_a_leader_that_refuses_one_for_a_while_delays_all_and_loses_nothing(partitions: list[Partition]) -> None:
    for number in range(ROUNDS):
        if number == ROUNDS // 2:
            partitions[1].cluster.failing[Api.PRODUCE, partitions[1].key] = NOT_LEADER_OR_FOLLOWER
        for each in partitions:
            each.send()
    finished(partitions)
    assert all(each.is_whole() for each in partitions)


def test_one_that_has_ended_holds_up_nobody(partitions: list[Partition]) -> None:
    for number in range(ROUNDS):
        for each in partitions:
            if number < ROUNDS // 2 or each is not partitions[0]:
                each.send()
        if number == ROUNDS // 2:
            finished(partitions[:1])
    finished(partitions[1:])
    assert all(each.is_whole() for each in partitions)


def test_others_do_not_wait_for_one_that_is_refused_again_and_again(
    partitions: list[Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is its trouble taken for theirs."""
    refused, *others = partitions
    for each in partitions:
        each.send()
    refused.cluster.failing[Api.PRODUCE, refused.key] = UNKNOWN_TOPIC_OR_PARTITION
    monkeypatch.setattr(Mending, "sleep", lambda *_: None)
    refused.writer._absence = Backoff(SystemClock(), limit_s=0.2)
    failed = list[Partition]()
    for _ in range(ROUNDS):
        for each in partitions:
            if each not in failed:
                try:
                    each.send()
                except NoSuchTopic:
                    failed.append(each)
    if not failed:
        with pytest.raises(NoSuchTopic):
            refused.writer.flush()
    finished(others)
    assert failed in ([], [refused])
    assert all(each.is_whole() for each in others)


def test_a_lane_whose_login_is_due_reads_its_answers_before_it_sends_more(
    partitions: list[Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a connection with requests in flight all the time comes to log in again."""
    in_flight, send = list[int](), Connection.send

    def noted(self: Connection, api: int, version: int, parts: Any, **options: Any) -> None:
        if api == Api.PRODUCE:
            in_flight.append(self.in_flight)
        send(self, api, version, parts, **options)

    monkeypatch.setattr(Connection, "send", noted)
    for is_due in (False, True):
        monkeypatch.setattr(Connection, "login_due", property(lambda _, is_due=is_due: is_due))
        in_flight.clear()
        for _ in range(ROUNDS):
            for partition in partitions:
                partition.send()
        assert (max(in_flight) <= 2) is is_due
        for partition in partitions:
            partition.writer.flush()
    finished(partitions)
    assert all(partition.is_whole() for partition in partitions)
