"""A log written at known offsets, into a fake cluster that refuses some requests: what is there is what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from offsite.kafka.log_writer import OUTCOMES_MAX, LogWriter
from offsite.kafka.net.routing import shared_router
from offsite.kafka.producer import Producer, TransactionOutcome
from offsite.kafka.protocol.broker_errors import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION
from offsite.kafka.protocol.request import Api
from offsite.log.batch import scan
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaNotAuthorized, OffsiteError, TargetDisturbed, TransactionLost, WriterFenced
from tests.fake_cluster.cluster import THE_CLUSTER, FakeCluster
from tests.fake_cluster.log_answers import CLUSTER_ACTION
from tests.fake_cluster.server import serving

TOPIC = "t"
KEY = TopicPartition(topic=TOPIC, partition=0)
NOT_ENOUGH_REPLICAS = 19


class Mending(SystemClock):
    """Where somebody waits, what failed is mended, as soon as nothing is under way any more."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def sleep(self, duration_s: float) -> None:
        super().sleep(max(duration_s, 0.3))
        self._cluster.failing.clear()


class Log:
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.refusal: OffsiteError | None = None
        self.writer = LogWriter(
            shared_router(cluster.config),
            KEY,
            at=cluster.log(KEY).end,
            unexpected=_unexpected,
            guard=self.guard,
            clock=Mending(cluster),
        )

    def guard(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def send(self, producer: Producer, count: int = 2) -> None:
        records = [Record(n, 0, 0, b"k", b"%d" % (self.writer.at + n)) for n in range(count)]
        self.writer.send_batch(encode(records), count, producer)

    def end(self, producer: Producer, *, committed: bool = True, count: int = 1) -> None:
        self.writer.send_outcomes([TransactionOutcome(producer.producer_id, producer.epoch, committed)] * count)

    def kinds(self) -> list[tuple[int, int, bool]]:
        """Base offset and producer of each batch, and whether it is an outcome."""
        data = self.cluster.log(KEY).read(0, 1 << 30)
        return [(header.base_offset, header.producer_id, header.is_control) for header in scan(memoryview(data))]

    def fail(self, code: int, *apis: Api) -> None:
        """From the next request on."""
        self.writer.flush()
        self.cluster.failing |= {(api, KEY): code for api in apis}


@pytest.fixture
def log() -> Iterator[Log]:
    with serving() as cluster:
        cluster.make_topic(TOPIC)
        yield Log(cluster)


def producer(number: int, epoch: int = 0, *, transactional: bool = True) -> Producer:
    return Producer(producer_id=number, epoch=epoch, transactional_id=f"id-{number}" if transactional else None)


def _unexpected(start: int, end: int) -> OffsiteError:
    return TargetDisturbed(f"{start} to {end}")


def whole(log: Log, fail: Callable[[int], None] = lambda _: None) -> list[tuple[int, int, bool]]:
    """Transactions of two producers that overlap, and a gap between plain records. `fail` is called before each
    round."""
    plain, one, two = producer(1, transactional=False), producer(2), producer(3)
    log.send(plain)
    for number in range(3):
        fail(number)
        log.send(one)
        log.send(two)
        log.end(two, committed=False)
        log.end(one)
    fail(3)
    log.end(plain, committed=False, count=5)
    log.send(plain)
    log.writer.flush()
    of_round = [(0, 2, False), (2, 3, False), (4, 3, True), (5, 2, True)]
    rounds = [(2 + 6 * n + at, who, control) for n in range(3) for at, who, control in of_round]
    gap = [(20 + n, 1, True) for n in range(5)]
    return [(0, 1, False), *rounds, *gap, (25, 1, False)]


def test_everything_is_where_it_was_sent(log: Log) -> None:
    assert whole(log) == log.kinds()
    assert (log.writer.at, log.cluster.log(KEY).end) == (27, 27)


@pytest.mark.parametrize("at", range(4))
def test_what_a_leader_did_not_take_is_sent_again_in_its_place(log: Log, at: int) -> None:
    def fail(number: int) -> None:
        if number == at:
            log.fail(NOT_LEADER_OR_FOLLOWER, Api.PRODUCE, Api.WRITE_TXN_MARKERS)

    assert whole(log, fail) == log.kinds()


def test_a_request_that_was_taken_in_the_place_of_a_refused_one_is_found_out(log: Log) -> None:
    one = producer(2)
    log.send(one)
    log.fail(NOT_ENOUGH_REPLICAS, Api.PRODUCE)
    log.send(one, count=1)
    log.end(one)
    with pytest.raises(TargetDisturbed, match="2 to "):
        log.writer.flush()
    assert log.kinds() == [(0, 2, False), (2, 2, True)]


def test_what_a_stranger_wrote_meanwhile_is_found_out(log: Log) -> None:
    one = producer(2)
    log.send(one)
    log.cluster.write(TOPIC, [b"of a stranger"])
    log.send(one)
    with pytest.raises(TargetDisturbed, match="2 to 3"):
        log.writer.flush()


def test_what_lies_there_before_the_first_thing_is_found_out(log: Log) -> None:
    log.cluster.write(TOPIC, [b"of a stranger"])
    with pytest.raises(TargetDisturbed, match="0 to 1"):
        log.send(producer(2))


def test_a_newer_epoch_shuts_out_the_older_one(log: Log) -> None:
    old, new = producer(1, 0, transactional=False), producer(1, 1, transactional=False)
    log.send(old)
    log.writer.flush()
    newer = Log(log.cluster)
    newer.send(new)
    newer.writer.flush()
    log.send(old)
    with pytest.raises(WriterFenced):
        log.writer.flush()
    lower = Log(log.cluster)
    lower.end(old, committed=False)
    with pytest.raises(TransactionLost):
        lower.writer.flush()


def test_without_the_right_nothing_is_written(log: Log) -> None:
    log.cluster.forbidden[THE_CLUSTER] = {CLUSTER_ACTION}
    log.end(producer(1))
    with pytest.raises(KafkaNotAuthorized, match="CLUSTER_AUTHORIZATION_FAILED"):
        log.writer.flush()
    assert log.kinds() == []


def test_a_topic_that_leaders_do_not_know_yet_is_waited_for(log: Log) -> None:
    log.fail(UNKNOWN_TOPIC_OR_PARTITION, Api.PRODUCE)
    log.send(producer(2))
    assert log.kinds() == [(0, 2, False)]


def test_many_offsets_are_filled_by_few_requests(log: Log) -> None:
    gap = producer(1, transactional=False)
    for _ in range(3):
        log.end(gap, committed=False, count=OUTCOMES_MAX)
    log.writer.flush()
    assert log.cluster.log(KEY).end == 3 * OUTCOMES_MAX


@pytest.mark.parametrize("under_way", [0, 1, 5])
def test_who_may_not_send_any_more_is_told_so_however_much_is_under_way(log: Log, under_way: int) -> None:
    one = producer(1, transactional=False)
    if under_way:
        log.send(one)
    for _ in range(under_way):
        log.send(one)
    log.refusal = WriterFenced("a newer attempt writes")
    with pytest.raises(WriterFenced, match="newer attempt"):
        fenced(log, one)
    assert log.cluster.log(KEY).end <= 2 * (under_way + 1)


def fenced(log: Log, one: Producer) -> None:
    log.send(one)
    log.writer.flush()
