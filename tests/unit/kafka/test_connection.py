"""What a connection makes of answers that are late, cut, too long, garbled, or of another request."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.coordinators import GROUP_KEY, find_coordinator_request, find_coordinators_request
from offsite.kafka.net import connection as module
from offsite.kafka.net.broker_socket import MAX_RESPONSE_BYTES, ReceiveBuffer
from offsite.kafka.net.connection import Connection
from offsite.kafka.producer import Producer, _init_producer_id
from offsite.kafka.protocol.cluster_settings import (
    alter_quotas_request,
    describe_acls_request,
    describe_quotas_request,
    describe_scram_users_request,
)
from offsite.kafka.protocol.configs import topic_configs_request
from offsite.kafka.protocol.groups import (
    commit_offsets_request,
    delete_offsets_request,
    fetch_offsets_request,
    list_groups_request,
)
from offsite.kafka.protocol.logs import (
    EARLIEST,
    LATEST,
    delete_records_request,
    epoch_ends_request,
    list_offsets_request,
    log_dirs_request,
)
from offsite.kafka.protocol.metadata import create_topics_request, delete_topics_request, metadata_request
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Encoder
from offsite.kafka.transaction_requests import (
    add_partition_request,
    describe_producers_request,
    describe_transaction_request,
    end_request,
    init_producer_request,
)
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import TopicPartition
from offsite.model.errors import KafkaProtocolError, KafkaTimeout, KafkaUnreachable, OffsiteError
from tests.examples import examples

BROKER = BrokerAddress(host="broker", port=9092)
PARTITION = TopicPartition(topic="orders", partition=3)
TIMEOUT_MS = 300
FRAME = struct.Struct(">ii")
GROUP = GroupOffsets(group="group", topics=())
PRODUCER = Producer(producer_id=1, epoch=2, transactional_id="id")
REQUESTS: list[Request[object]] = [
    list_offsets_request([PARTITION], LATEST),
    epoch_ends_request({PARTITION: 1}),
    metadata_request(None, version=8),
    metadata_request(None, version=10),
    find_coordinators_request(["group"], kind=GROUP_KEY),
    log_dirs_request([PARTITION]),
    topic_configs_request(["orders"], with_defaults=True),
    describe_quotas_request(),
    delete_records_request({PARTITION: 1}, timeout_ms=1),
    describe_transaction_request("id"),
    describe_producers_request(PARTITION),
    find_coordinator_request("group", kind=GROUP_KEY),
    list_groups_request(3),
    list_groups_request(5),
    fetch_offsets_request(["group"], stable=True),
    fetch_offsets_request(["group"], stable=True, version=6),
    commit_offsets_request(GROUP),
    delete_offsets_request(GROUP),
    describe_acls_request(),
    describe_scram_users_request(),
    alter_quotas_request([]),
    init_producer_request("id", timeout_ms=1),
    _init_producer_id(),
    add_partition_request(PRODUCER, PARTITION),
    end_request(PRODUCER, committed=True),
    module._api_versions(),
    create_topics_request([], timeout_ms=1, validate_only=True),
    delete_topics_request(["orders"], timeout_ms=1),
]


class Broker:
    """The other end of a connection, played by the test. The first correlation id is 1."""

    def __init__(self, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self.socket, ours = socket.socketpair()
        config = KafkaConfig(bootstrap=(BROKER,), request_timeout_ms=timeout_ms)
        self.connection = Connection(ours, config, BROKER)

    def answers(self, body: bytes, *, correlation: int = 1, size: int | None = None) -> None:
        claimed = len(body) + 4 if size is None else size
        self.socket.sendall(FRAME.pack(claimed, correlation) + body)

    def close(self) -> None:
        self.connection.close()
        self.socket.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


def number() -> Request[int]:
    return Request(api=Api.WRITE_TXN_MARKERS, version=1, body=b"", read=lambda answer: answer.i32())


def failure(broker: Broker, kind: type[OffsiteError]) -> OffsiteError:
    """What the answer that is there is called; the connection is then of no more use."""
    with pytest.raises(kind) as caught:
        broker.connection.call(number())
    assert not broker.connection.usable
    return caught.value


def test_a_group_that_refuses_as_a_whole_is_an_answer(broker: Broker) -> None:
    """OffsetDelete of a group that has members: NON_EMPTY_GROUP, no throttling, no topics."""
    broker.answers(struct.pack(">hii", 68, 0, 0))
    assert broker.connection.call(delete_offsets_request(GROUP))["group"].error_code == 68
    assert broker.connection.usable


def test_an_answer_is_read(broker: Broker) -> None:
    broker.answers(struct.pack(">i", 7))
    assert broker.connection.call(number()) == 7
    assert broker.connection.usable


@pytest.mark.parametrize("correlation", [0, 2, -1, 2**31 - 1])
def test_an_answer_to_another_request_is_refused(broker: Broker, correlation: int) -> None:
    broker.answers(struct.pack(">i", 7), correlation=correlation)
    assert "matches no request" in failure(broker, KafkaProtocolError).message


def test_answers_in_another_order_are_refused(broker: Broker) -> None:
    for _ in range(2):
        broker.connection.post(number())
    broker.answers(struct.pack(">i", 7), correlation=2)
    broker.answers(struct.pack(">i", 7), correlation=1)
    with pytest.raises(KafkaProtocolError, match="matches no request"):
        broker.connection.collect(number())
    assert not broker.connection.usable


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3, MAX_RESPONSE_BYTES + 5, 2**31 - 1])
def test_an_impossible_length_is_refused_before_anything_is_allocated(broker: Broker, size: int) -> None:
    broker.answers(struct.pack(">i", 7), size=size)
    failure(broker, KafkaProtocolError)


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0", b"\0\0\0\7\0", b"\0\0\0\7" * 2])
def test_an_answer_shorter_or_longer_than_its_schema_is_refused(broker: Broker, body: bytes) -> None:
    broker.answers(body)
    assert "unreadable answer to WRITE_TXN_MARKERS" in failure(broker, KafkaProtocolError).message


def test_a_connection_that_ends_within_an_answer_is_lost(broker: Broker) -> None:
    broker.answers(b"\0\0", size=8)
    broker.socket.shutdown(socket.SHUT_WR)
    failure(broker, KafkaUnreachable)


def test_no_answer_at_all_is_a_timeout(broker: Broker) -> None:
    failure(broker, KafkaTimeout)


def trickling(broker: Broker, data: bytes, *, at_once: int, every_s: float) -> threading.Thread:
    def trickle() -> None:
        for start in range(0, len(data), at_once):
            try:
                broker.socket.sendall(data[start : start + at_once])
            except OSError:
                return
            time.sleep(every_s)

    thread = threading.Thread(target=trickle)
    thread.start()
    return thread


def test_a_byte_now_and_then_runs_into_the_timeout_of_the_whole_answer(broker: Broker) -> None:
    data = FRAME.pack(1000, 1) + bytes(996)
    began_s = time.monotonic()
    thread = trickling(broker, data, at_once=1, every_s=0.05)  # 50 s
    failure(broker, KafkaTimeout)
    assert time.monotonic() - began_s < 25
    thread.join(10)


def test_a_large_answer_over_a_slow_line_may_take_longer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_BYTES", 1000)
    broker.connection.post(number())
    thread = trickling(broker, FRAME.pack(10_004, 1) + bytes(10_000), at_once=500, every_s=0.03)  # 0.6 s
    assert len(broker.connection.receive()) == 10_000
    thread.join(10)


def test_after_a_slow_answer_the_next_one_has_all_of_its_time() -> None:
    """Each takes more than half of what one may take, and far less than all of it: the machine may be busy."""
    broker = Broker(timeout_ms=1000)
    thread = trickling(broker, FRAME.pack(8, 1) + struct.pack(">i", 7), at_once=4, every_s=0.25)
    assert broker.connection.call(number()) == 7
    thread.join()
    late = threading.Timer(0.6, lambda: broker.answers(struct.pack(">i", 8), correlation=2))
    late.start()
    assert broker.connection.call(number()) == 8
    late.join()
    broker.close()


@given(st.sampled_from(range(len(REQUESTS))), st.binary(max_size=200), st.integers(0, 2**32))
@examples(300)
def test_noise_is_an_error_of_ours_whatever_was_asked(which: int, noise: bytes, seed: int) -> None:
    _noise(REQUESTS[which], noise)
    _noise(REQUESTS[which], bytes(6) + random.Random(seed).randbytes(seed % 300))  # past throttle time and error code


def _noise(request: Request[object], noise: bytes) -> None:
    broker = Broker()
    broker.answers(noise)
    with suppress(OffsiteError):  # nothing else may come out
        broker.connection.call(request)
    broker.close()


def test_a_count_that_cannot_be_is_refused_before_any_loop(broker: Broker) -> None:
    broker.answers(Encoder().i32(0).i32(2**31 - 1).done() + bytes(20))
    began_s = time.thread_time()
    with pytest.raises(KafkaProtocolError):
        broker.connection.call(list_offsets_request([PARTITION], LATEST))
    assert time.thread_time() - began_s < 1


def peak_bytes_of(broker: Broker, receive: Callable[[], object], kind: type[OffsiteError]) -> int:
    broker.connection.post(number())
    tracemalloc.start()
    try:
        with pytest.raises(kind):
            receive()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_is_announced_takes_no_memory_before_it_comes(broker: Broker) -> None:
    broker.answers(bytes(100), size=MAX_RESPONSE_BYTES)
    buffer = ReceiveBuffer()
    assert peak_bytes_of(broker, lambda: broker.connection.receive(buffer), KafkaTimeout) < 36 << 20


def test_only_records_may_be_as_large_as_records(broker: Broker) -> None:
    broker.answers(bytes(100), size=module.MAX_ANSWER_BYTES + 5)
    assert peak_bytes_of(broker, broker.connection.receive, KafkaProtocolError) < 1 << 20
    assert not broker.connection.usable


@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_large_answers_come_whole_into_whatever_buffer(broker: Broker, size: int) -> None:
    body = random.Random(size).randbytes(size)
    buffers = [ReceiveBuffer(), ReceiveBuffer(1000), ReceiveBuffer(6_000_000), None]
    for correlation, buffer in enumerate(buffers, 1):
        sender = threading.Thread(target=broker.answers, args=(body,), kwargs={"correlation": correlation})
        sender.start()
        broker.connection.post(number())
        assert broker.connection.receive(buffer) == body
        sender.join(10)


def test_answers_that_come_together_are_taken_one_by_one(broker: Broker) -> None:
    """Small and large ones, cut anywhere: some come with the end of the one before."""
    bodies = [random.Random(size).randbytes(size) for size in (4, 0, 70_000, 30, 65_528, 65_536, 8, 200_000, 1)]
    frames = [FRAME.pack(len(body) + 4, number) + body for number, body in enumerate(bodies, 1)]
    sender = trickling(broker, b"".join(frames), at_once=40_001, every_s=0.0)
    for _ in bodies:
        broker.connection.post(number())
    large = ReceiveBuffer()
    assert [bytes(broker.connection.receive(large if len(body) > 100 else None)) for body in bodies] == bodies
    sender.join(10)
    assert not broker.connection.stale


def test_a_connection_with_an_answer_that_nobody_asked_for_is_stale(broker: Broker) -> None:
    for correlation in (1, 2):
        broker.answers(struct.pack(">i", 7), correlation=correlation)
    assert broker.connection.call(number()) == 7
    assert broker.connection.stale


@pytest.fixture
def announcing() -> Iterator[BrokerAddress]:
    """Somebody who answers the first request with the announcement of a large answer, and waits."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:

        def answer() -> None:
            with suppress(OSError):
                connection = stack.enter_context(server.accept()[0])
                connection.recv(1000)
                connection.sendall(FRAME.pack(module.MAX_GREETING_BYTES + 5, 1))

        thread = threading.Thread(target=answer)
        thread.start()
        yield BrokerAddress(host="127.0.0.1", port=server.getsockname()[1])
        thread.join(10)


def test_somebody_who_may_be_anybody_gets_little_memory(announcing: BrokerAddress) -> None:
    config = KafkaConfig(bootstrap=(announcing,), request_timeout_ms=5000)
    with pytest.raises(KafkaProtocolError, match="above the limit of 1048576"):
        Connection.open(config, announcing)


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", -1), ("127.0.0.1", 1 << 20), ("a" * 70 + ".b", 1), ("a\0b", 1)]
)
def test_an_address_that_nobody_can_have_is_out_of_reach(host: str, port: int) -> None:
    with pytest.raises(KafkaUnreachable):
        Connection.open(KafkaConfig(bootstrap=(BROKER,)), BrokerAddress(host=host, port=port))


@pytest.mark.parametrize(("partition", "leader", "epoch"), [(-1, 1, 1), (1 << 30, 1, 1), (0, -2, 1), (0, 1, -2)])
def test_partitions_that_cannot_be_are_unreadable(broker: Broker, partition: int, leader: int, epoch: int) -> None:
    out = Encoder().i32(0).array([], Encoder.i32).string("cluster").i32(1).i32(1)
    out.i16(0).string("orders").boolean(False).i32(1)
    out.i16(0).i32(partition).i32(leader).i32(epoch).i32(0).i32(0).i32(0)
    broker.answers(out.i32(0).i32(0).done())
    with pytest.raises(KafkaProtocolError, match="unreadable answer to METADATA"):
        broker.connection.call(metadata_request(None, version=8))


def listed(offset: int, *, code: int = 0) -> bytes:
    out = Encoder().i32(0).i32(1).string("orders").i32(1).i32(3).i16(code).i64(-1).i64(offset).i32(5)
    return out.done()


@pytest.mark.parametrize("which", [LATEST, EARLIEST, 1000])
def test_an_offset_below_all_offsets_is_unreadable(broker: Broker, which: int) -> None:
    broker.answers(listed(-2))
    with pytest.raises(KafkaProtocolError, match="unreadable answer to LIST_OFFSETS"):
        broker.connection.call(list_offsets_request([PARTITION], which))


@pytest.mark.parametrize(("which", "is_told"), [(LATEST, False), (EARLIEST, False), (1000, True)])
def test_a_log_without_a_beginning_or_an_end_was_not_answered_about(broker: Broker, which: int, is_told: bool) -> None:
    broker.answers(listed(-1))
    assert (PARTITION in broker.connection.call(list_offsets_request([PARTITION], which))) == is_told


def test_the_end_of_an_epoch_below_all_offsets_is_unreadable(broker: Broker) -> None:
    broker.answers(Encoder().i32(0).i32(1).string("orders").i32(1).i16(0).i32(3).i32(5).i64(-2).done())
    with pytest.raises(KafkaProtocolError, match="unreadable"):
        broker.connection.call(epoch_ends_request({PARTITION: 1}))


def test_a_producer_that_nobody_can_be_is_unreadable(broker: Broker) -> None:
    broker.answers(b"\0" + Encoder(flexible=True).i32(0).i16(0).i64(-1).i16(0).end().done())
    with pytest.raises(KafkaProtocolError, match="unreadable"):
        broker.connection.call(init_producer_request("id", timeout_ms=1))
