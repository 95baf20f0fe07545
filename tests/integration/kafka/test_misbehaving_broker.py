"""What the client makes of a real broker's answers when they are held back, cut, garbled, emptied or late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from offsite.demo.data import read_topic
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.kafka.protocol.fetch import FetchAnswer, FetchFormat, FetchQuery
from offsite.kafka.protocol.request import Api
from offsite.log.batch import scan, verify_crc
from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedBatch, KafkaProtocolError, KafkaTimeout, KafkaUnavailable, LeaderUnavailable
from offsite.sandbox import SandboxInfo
from tests.fast_time import fast_time
from tests.integration.kafka.cluster import Cluster, numbered
from tests.misbehaving_broker.answer_faults import (
    Emptied,
    Failing,
    RecordsCut,
    RecordsFlipped,
    StaleHighWatermark,
    StaleOffsets,
    Throttled,
    WithoutPartitions,
    WithoutTopics,
)
from tests.misbehaving_broker.connection_faults import (
    ClaimedLength,
    CutAfter,
    CutBefore,
    CutWithin,
    Deaf,
    Doubled,
    Garbage,
    Late,
    Lengthened,
    Shortened,
    Swallowed,
    Swapped,
    Trickled,
    WrongCorrelation,
)
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.misbehaving_broker.rules import Fault, Rule

TIMEOUT_MS = 400
RECORDS = 100
NOT_LEADER = 6
GARBLED: list[Fault] = [
    WrongCorrelation(),
    ClaimedLength(length=-1),
    ClaimedLength(length=0),
    ClaimedLength(length=2**31 - 1),
    Shortened(by_bytes=3),
    Lengthened(by_bytes=3),
]
LOST: list[Fault] = [CutBefore(), CutAfter(), CutWithin(), Swallowed(), Deaf(), Late(delay_s=0.6), Trickled()]


class Client:
    """Offsite's client, coming through the proxy to one partition of `RECORDS` records."""

    def __init__(self, brokers: MisbehavingBrokers, pool: ConnectionPool, topic: str) -> None:
        config = KafkaConfig(bootstrap=parse_bootstrap(brokers.bootstrap), request_timeout_ms=TIMEOUT_MS)
        self.brokers = brokers
        self.router = Router(config, pool=pool)
        self.admin = ClusterAdmin(self.router)
        self.partition = TopicPartition(topic=topic, partition=0)

    def suffers(self, fault: Fault, api: Api, *, times: int | None = 1) -> None:
        self.brokers.misbehave(Rule(fault=fault, api=api, times=times), seed=1)

    def end(self) -> int:
        return self.admin.end_offsets([self.partition])[self.partition]

    def fetch(self, offset: int = 0) -> FetchAnswer:
        leader = self.router.leader(self.partition)
        with self.router.lease_leader(self.partition) as connection:
            format_ = FetchFormat(self.partition, topic_id=leader.topic_id, rack_id="")
            query = FetchQuery(offset=offset, max_bytes=1 << 20, max_wait_ms=100, min_bytes=1)
            connection.send(Api.FETCH, format_.version, [format_.encode(query)], flexible=format_.flexible)
            return format_.decode(connection.receive())


@pytest.fixture(scope="module")
def brokers(broker: SandboxInfo) -> Iterator[MisbehavingBrokers]:
    with MisbehavingBrokers(broker.bootstrap) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def topic(broker: SandboxInfo) -> str:
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(RECORDS), batch_num_messages=10)
    return topic


@pytest.fixture
def client(brokers: MisbehavingBrokers, topic: str) -> Iterator[Client]:
    pool = ConnectionPool()
    yield Client(brokers, pool, topic)
    pool.close()
    brokers.behave()


def test_clients_that_come_through_the_proxy_stay_there(client: Client, topic: str) -> None:
    assert len(read_topic(client.brokers.bootstrap, topic)[0]) == RECORDS
    ports = {broker.address.port for broker in client.admin.cluster().brokers.values()}
    assert ports == {int(client.brokers.bootstrap.partition(":")[2])}


@pytest.mark.parametrize("fault", GARBLED, ids=repr)
def test_a_garbled_answer_is_refused_and_the_next_question_has_a_connection_of_its_own(
    client: Client, fault: Fault
) -> None:
    assert client.end() == RECORDS
    client.suffers(fault, Api.LIST_OFFSETS)
    with pytest.raises(KafkaProtocolError):
        client.end()
    assert client.end() == RECORDS


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_an_answer_that_is_lost_or_late_is_asked_for_again(client: Client, fault: Fault) -> None:
    client.suffers(fault, Api.LIST_OFFSETS)
    assert client.end() == RECORDS
    assert len(client.brokers.hits) == 1


@pytest.mark.parametrize("fault", [CutAfter(), CutWithin(), WrongCorrelation(), Shortened(by_bytes=3)], ids=repr)
@pytest.mark.parametrize("api", [Api.METADATA, Api.DESCRIBE_CONFIGS])
def test_what_any_broker_can_answer_is_asked_once_more(client: Client, fault: Fault, api: Api) -> None:
    """A plan asks a dozen such questions: a connection that dies under one of them is no reason to give up."""
    client.suffers(fault, api)
    topic = client.partition.topic
    assert list(client.admin.topics([topic])) == list(client.admin.topic_configs([topic])) == [topic]
    assert len(client.brokers.hits) == 1


def test_an_answer_of_noise_is_an_error_or_no_offset_of_ours(client: Client) -> None:
    for seed in range(20):
        client.brokers.misbehave(Rule(fault=Garbage(), api=Api.LIST_OFFSETS), seed=seed)
        with fast_time(50), suppress(KafkaUnavailable):
            assert client.end() == RECORDS


def test_answers_in_another_order_are_refused(client: Client) -> None:
    client.suffers(Swapped(), Api.FETCH)
    leader = client.router.leader(client.partition)
    format_ = FetchFormat(client.partition, topic_id=leader.topic_id, rack_id="")
    query = format_.encode(FetchQuery(offset=0, max_bytes=1000, max_wait_ms=0, min_bytes=0))
    with client.router.lease_leader(client.partition) as connection:
        for _ in range(2):
            connection.send(Api.FETCH, format_.version, [query], flexible=format_.flexible)
        with pytest.raises(KafkaProtocolError, match="matches no request"):
            connection.receive()
        assert not connection.usable


def test_an_answer_that_comes_twice_is_noticed_before_the_next_question(client: Client) -> None:
    client.suffers(Doubled(), Api.LIST_OFFSETS)
    assert client.end() == RECORDS
    time.sleep(0.05)  # the second one is on its way
    assert client.end() == RECORDS


def test_a_partition_left_out_of_an_answer_is_asked_for_again_and_then_named(client: Client) -> None:
    for fault in (WithoutPartitions(), WithoutTopics()):
        client.suffers(fault, Api.LIST_OFFSETS, times=3)
        assert client.end() == RECORDS
    client.suffers(WithoutPartitions(), Api.LIST_OFFSETS, times=None)
    with fast_time(200), pytest.raises(LeaderUnavailable, match="does not contain the offset"):
        client.end()


def test_an_error_of_the_leader_is_waited_out(client: Client) -> None:
    client.suffers(Failing(NOT_LEADER), Api.LIST_OFFSETS, times=2)
    assert client.end() == RECORDS


def test_a_trickle_is_a_timeout_of_the_whole_answer(client: Client) -> None:
    client.suffers(Trickled(every_s=0.2), Api.METADATA)
    began_s = time.monotonic()
    with pytest.raises(KafkaTimeout):
        client.admin.cluster()
    assert time.monotonic() - began_s < 8, "some hundred bytes would take longer"


def test_the_proxy_throttles_as_a_quota_does(client: Client) -> None:
    client.suffers(Throttled(throttle_ms=20), Api.FETCH)
    assert (throttled := client.fetch()).throttle_ms == 20
    assert (throttled.high_watermark, len(throttled.records)) == (-1, 0), "no partition came"
    assert client.fetch().throttle_ms == 0


def test_the_proxy_empties_answers_as_slow_remote_storage_does(client: Client) -> None:
    client.suffers(Emptied(), Api.FETCH)
    emptied = client.fetch()
    assert (emptied.error_code, emptied.high_watermark, len(emptied.records)) == (0, RECORDS, 0)


def test_the_proxy_lags_as_a_follower_does(client: Client) -> None:
    client.suffers(StaleHighWatermark(behind=7), Api.FETCH)
    stale = client.fetch(50)
    assert (stale.error_code, stale.high_watermark, len(stale.records)) == (0, 43, 0)


def test_the_proxy_tells_of_an_older_end(client: Client) -> None:
    client.suffers(StaleOffsets(by=30), Api.LIST_OFFSETS)
    assert client.end() == RECORDS - 30


def test_a_flipped_bit_is_found_by_its_crc(client: Client) -> None:
    client.suffers(RecordsFlipped(), Api.FETCH)
    records = client.fetch().records
    with pytest.raises(DamagedBatch):
        verify_crc(records, scan(records))


def test_cut_records_are_fewer_whole_ones(client: Client) -> None:
    client.suffers(RecordsCut(within_first=True), Api.FETCH)
    assert scan(client.fetch().records) == []


def test_rules_count_what_they_match(client: Client) -> None:
    rule = Rule(fault=Emptied(), api=Api.FETCH, topic=client.partition.topic, partition=0, skip=1, times=2)
    elsewhere = Rule(fault=Emptied(), api=Api.FETCH, topic=client.partition.topic, partition=1, times=None)
    client.brokers.misbehave(elsewhere, rule)
    assert [len(client.fetch().records) > 0 for _ in range(5)] == [True, False, False, True, True]
    assert [hit.rule for hit in client.brokers.hits] == [rule, rule]
