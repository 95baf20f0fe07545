"""What brokers before Kafka 3.0 are asked instead, and how one that lacks something is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import BrokerAddress
from offsite.kafka.coordinators import CoordinatorNode, find_coordinators
from offsite.kafka.net.connection import Connection
from offsite.kafka.producer import MARKERS_API
from offsite.kafka.protocol.groups import fetch_offsets_request, list_groups_request
from offsite.kafka.protocol.request import Api, Request, api_name
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.errors import KafkaProtocolError, KafkaTooOld


class OldBroker:
    """Knows FindCoordinator up to version 3: one key in a request, answers in order."""

    def __init__(self) -> None:
        self.posted: list[Request[CoordinatorNode]] = []

    @contextmanager
    def lease_any(self) -> Iterator[OldBroker]:
        yield self

    def highest_version(self, _api: Api, lowest: int, _highest: int) -> int:
        return lowest

    def post(self, request: Request[CoordinatorNode]) -> None:
        self.posted.append(request)

    def collect(self, request: Request[CoordinatorNode]) -> CoordinatorNode:
        node_id = self.posted.index(request) + 1
        out = Encoder(flexible=True).i32(0).i16(0).string(None).i32(node_id).string("host").i32(9092).end()
        answer = Decoder(memoryview(out.done()), flexible=True)
        found = request.parse(answer)
        answer.end()
        answer.done()  # all of it was read
        return found


def connection_with(versions: dict[int, tuple[int, int]]) -> Connection:
    connection = Connection.__new__(Connection)
    connection.address = BrokerAddress(host="old", port=9092)
    connection._versions = versions
    return connection


class RouterTo:
    """A cluster of one broker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def lease_any(self) -> Iterator[Connection]:
        yield self._connection


def test_coordinators_are_found_one_by_one_but_asked_for_together() -> None:
    broker = OldBroker()
    found = find_coordinators(broker, ["a", "b"])  # type: ignore[arg-type]
    assert found == {"a": CoordinatorNode(node_id=1, error_code=0), "b": CoordinatorNode(node_id=2, error_code=0)}
    assert [request.version for request in broker.posted] == [3, 3]


@pytest.mark.parametrize("version", [6, 7])
def test_offsets_of_one_group_are_read_from_an_old_answer(version: int) -> None:
    request = fetch_offsets_request(["g"], stable=True, version=version)
    assert (len(request.body), request.version) == (5 if version == 7 else 4, version)
    out = Encoder(flexible=True).i32(0)
    out.array(["t"], lambda o, name: o.string(name).array([1], _put_committed).end())
    answer = out.i16(0).end().done()
    answered = request.parse(Decoder(memoryview(answer), flexible=True))["g"]
    assert answered.error_code == 0
    assert [(each.topic, each.by_partition()) for each in answered.offsets] == [("t", {1: 42})]


def test_groups_of_brokers_that_tell_no_states_are_listed_without() -> None:
    out = Encoder(flexible=True).i32(0).i16(0).array(["g"], lambda o, name: o.string(name).string("consumer").end())
    request = list_groups_request(3)
    code, (listed,) = request.parse(Decoder(memoryview(out.end().done()), flexible=True))
    assert (code, listed.group, listed.state, listed.kind) == (0, "g", "", "")


def test_a_broker_that_lacks_a_request_is_named_with_the_release_that_brought_it() -> None:
    with pytest.raises(KafkaTooOld, match=r"old:9092 has no DescribeTransactions .*Kafka 3\.0 introduced") as lacking:
        connection_with({}).highest_version(Api.DESCRIBE_TRANSACTIONS, 0, 0)
    assert "Kafka 3.0 or newer" in lacking.value.hint


def test_a_broker_that_dropped_what_offsite_speaks_is_not_called_old() -> None:
    with pytest.raises(KafkaProtocolError, match="no longer has Fetch in version 13") as dropped:
        connection_with({Api.FETCH: (14, 20)}).highest_version(Api.FETCH, 11, 13)
    assert not isinstance(dropped.value, KafkaTooOld)


def test_a_broker_that_tells_no_ends_of_epochs_is_refused_by_the_first_run_not_the_second() -> None:
    versions: dict[int, tuple[int, int]] = {Api.FETCH: (0, 11), Api.OFFSET_FOR_LEADER_EPOCH: (0, 2)}
    router = RouterTo(connection_with(versions))
    with pytest.raises(KafkaTooOld, match="no OffsetForLeaderEpoch"):
        ClusterAdmin(router).check_readable()  # type: ignore[arg-type]
    versions[Api.OFFSET_FOR_LEADER_EPOCH] = (0, 3)
    ClusterAdmin(router).check_readable()  # type: ignore[arg-type]


def test_a_broker_without_markers_of_transactions_is_no_error() -> None:
    router = RouterTo(connection_with({Api.FETCH: (0, 11)}))
    assert ClusterAdmin(router).missing_for_outcomes() == MARKERS_API  # type: ignore[arg-type]


def test_requests_are_named_as_the_protocol_guide_does() -> None:
    assert api_name(Api.ADD_PARTITIONS_TO_TXN) == "AddPartitionsToTxn"
    assert api_name(999) == "API 999"


def _put_committed(out: Encoder, partition: int) -> None:
    out.i32(partition).i64(42).i32(-1).string("").i16(0).end()
