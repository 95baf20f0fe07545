"""Brokers of several releases serve a cluster while it is upgraded: what one of them does says nothing of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from offsite.groups.streams_groups import streams_warnings
from offsite.kafka.coordinators import CoordinatorNode
from offsite.kafka.groups import GroupClient, StreamsSupport
from offsite.kafka.protocol.groups import GroupAnswer, ListedGroup
from offsite.kafka.protocol.request import Api, Request
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.model.errors import KafkaUnreachable
from tests.virtual_time import VirtualClock

KAFKA_4_1: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 1, Api.DESCRIBE_LOG_DIRS: 4}
KAFKA_4_2: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 2, Api.DESCRIBE_LOG_DIRS: 4}
KAFKA_4_3: dict[int, int] = {Api.STREAMS_GROUP_HEARTBEAT: 0, Api.WRITE_TXN_MARKERS: 2, Api.DESCRIBE_LOG_DIRS: 5}
SHARE: dict[int, int] = {
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    Api.ALTER_SHARE_GROUP_OFFSETS: 0,
    Api.DELETE_SHARE_GROUP_OFFSETS: 0,
}
STREAMS_GROUP = GroupOffsets(group="app", kind="streams")
SHARE_GROUP = GroupOffsets(group="workers", kind="share", topics=(TopicOffsets.of("jobs", [CommittedOffset(0, 40)]),))


class Brokers:
    """A cluster by broker: its versions of APIs. `lease_any` leases the newest. `positions` are the answers about the
    positions of share groups, one after the other, and then the last one."""

    def __init__(self, releases: Sequence[Mapping[int, int]], *positions: GroupAnswer) -> None:
        self.releases = dict(enumerate(releases, 1))
        self.positions = list(positions)

    def metadata(self, _topics: object) -> SimpleNamespace:
        return SimpleNamespace(brokers=dict.fromkeys(self.releases))

    def call(self, _request: object) -> Mapping[str, Mapping[str, str]]:
        raise KafkaUnreachable("no settings of groups here")

    @contextmanager
    def lease_broker(self, node_id: int) -> Iterator[Connection]:
        yield Connection(self, node_id)

    @contextmanager
    def lease_any(self) -> Iterator[Connection]:
        yield Connection(self, max(self.releases))


class Connection:
    def __init__(self, brokers: Brokers, node_id: int) -> None:
        self.brokers, self.versions = brokers, brokers.releases[node_id]

    def has_version(self, api: int, version: int) -> bool:
        return version <= self.versions.get(api, -1)

    def highest_version(self, api: int, _lowest: int, highest: int) -> int:
        return min(highest, self.versions.get(api, highest))

    def call(self, request: Request[Any]) -> Any:
        if request.api is Api.LIST_GROUPS:
            return 0, [ListedGroup(group="other", kind="consumer", state="Empty")]
        return {"workers": CoordinatorNode(node_id=1, error_code=0)}

    def post(self, _request: Request[Any]) -> None:
        return

    def collect(self, request: Request[Any]) -> Mapping[str, GroupAnswer]:
        if request.api is Api.OFFSET_FETCH and request.version > self.versions.get(Api.OFFSET_FETCH, request.version):
            raise KafkaUnreachable("the broker hangs up on a version that it does not have")
        if request.api is not Api.DESCRIBE_SHARE_GROUP_OFFSETS:
            return {"workers": GroupAnswer(error_code=0)}
        positions = self.brokers.positions
        return {"workers": positions.pop(0) if len(positions) > 1 else positions[0]}


def client_of(brokers: Brokers) -> GroupClient:
    return GroupClient(brokers, clock=VirtualClock())  # type: ignore[arg-type]


def told(position: int) -> GroupAnswer:
    return GroupAnswer(error_code=0, offsets=(TopicOffsets.of("jobs", [CommittedOffset(0, position)]),))


def test_every_broker_is_asked_what_it_makes_of_a_streams_application() -> None:
    """One of them was asked: a plan warned of nothing, and the application died at the coordinator of 4.1."""
    client = client_of(Brokers([KAFKA_4_1, KAFKA_4_3]))
    assert client.streams_support() == {1: StreamsSupport.REFUSES, 2: StreamsSupport.CONVERTS}
    (warning,) = streams_warnings([STREAMS_GROUP], client)
    assert "brokers of several releases may coordinate them (Kafka 4.1: 1; Kafka 4.3 or later: 2)" in warning
    assert "and the oldest counts: the offsets make classic groups, and brokers of Kafka 4.1 then refuse" in warning


@pytest.mark.parametrize("releases", [[KAFKA_4_2, {}, KAFKA_4_1], [{}, {}]])
def test_the_oldest_broker_counts(releases: Sequence[Mapping[int, int]]) -> None:
    (warning,) = streams_warnings([STREAMS_GROUP], client_of(Brokers(releases)))
    assert "brokers of the target have no such groups" in warning
    assert ("several releases" in warning) == (len(releases) > 2)


def test_nothing_is_said_where_all_brokers_convert_the_group() -> None:
    assert streams_warnings([STREAMS_GROUP], client_of(Brokers([KAFKA_4_3, KAFKA_4_3]))) == ()


def test_offsets_are_requested_in_a_version_that_each_coordinator_has() -> None:
    """Brokers before 3.0 hung up for a minute, and the run failed, where a newer one had told its versions."""
    client = client_of(Brokers([{Api.OFFSET_FETCH: 7}, {Api.OFFSET_FETCH: 8}]))
    fetched = client.offsets([ListedGroup(group="workers", kind="classic", state="Empty")])
    assert (list(fetched.groups), fetched.failed) == (["workers"], ())


def test_brokers_that_set_no_positions_are_named() -> None:
    brokers = Brokers([SHARE | {Api.DESCRIBE_SHARE_GROUP_OFFSETS: 0}, SHARE], told(-1))
    (failure,) = client_of(brokers).unsettable(["workers"])
    assert failure.error == "NOT_SET"
    assert failure.message.startswith("some brokers (1) set no positions of share groups, as Kafka 4.1 does not")
    (failure,) = client_of(brokers).commit({"workers": SHARE_GROUP})
    assert failure.message.startswith("some brokers (1)")
    assert client_of(Brokers([SHARE, SHARE], told(40))).unsettable(["workers"]) == ()


def test_positions_count_as_removed_when_they_are_read_and_are_gone() -> None:
    """The answer of the request alone was believed."""
    groups = {"workers": SHARE_GROUP}
    (failure,) = client_of(Brokers([SHARE], told(40))).delete(groups)
    assert (failure.error, failure.kind) == ("OTHER_POSITION", "share")
    for gone in (told(-1), GroupAnswer(error_code=0), GroupAnswer(error_code=69)):
        assert client_of(Brokers([SHARE], gone)).delete(groups) == ()
