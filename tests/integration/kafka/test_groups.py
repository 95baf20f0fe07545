"""The groups of a real broker: listed, read, set and removed, in the numbers and moments that matter."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from offsite.kafka.groups import GroupClient
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, GroupTable, TopicOffsets, offset_count
from tests.conftest import StartSandbox
from tests.integration.kafka.cluster import Cluster, numbered, wait_until

_numbers = itertools.count()


def new_group() -> str:
    return f"group {next(_numbers)}: ünlike, a topic"


def consumer(cluster: Cluster, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def commit(cluster: Cluster, group: str, *positions: Position) -> None:
    """Commit as an independent client does."""
    client = consumer(cluster, group)
    client.commit(offsets=list(positions), asynchronous=False)
    client.close()


def read(cluster: Cluster, *groups: str) -> GroupTable:
    client = cluster.admin.groups
    return client.offsets(each for each in client.list() if each.group in groups).groups


def table(*groups: GroupOffsets) -> dict[str, GroupOffsets]:
    return {group.group: group for group in groups}


def one(group: str, topic: str, *rows: CommittedOffset) -> GroupOffsets:
    return GroupOffsets(group=group, topics=(TopicOffsets.of(topic, rows),))


def test_what_a_client_committed_is_read_with_its_metadata(cluster: Cluster) -> None:
    """To the last byte: this client ends metadata with a NUL."""
    first, second, group = cluster.make_topic(partitions=3), cluster.make_topic(), new_group()
    told = Position(first, 2, 7, "where I was ✓")
    commit(cluster, group, Position(first, 0, 5), told, Position(second, 0, 1))
    found = read(cluster, group)[group]
    assert (found.kind, found.state) == ("classic", "Empty")
    assert {topic.topic: list(topic) for topic in found.topics} == {
        first: [CommittedOffset(0, 5, -1, ""), CommittedOffset(2, 7, -1, "where I was ✓\0")],
        second: [CommittedOffset(0, 1, -1, "")],
    }


def test_what_is_committed_is_what_a_client_reads(cluster: Cluster) -> None:
    topic, group = cluster.make_topic(partitions=2), new_group()
    wanted = one(group, topic, CommittedOffset(0, 4, 9, "kept"), CommittedOffset(1, 0, 9, ""))
    assert cluster.admin.groups.commit(table(wanted)) == ()
    client = consumer(cluster, group)
    found = client.committed([Position(topic, 0), Position(topic, 1)], timeout=60)
    client.close()
    assert [each.offset for each in found] == [4, 0]
    assert list(read(cluster, group)[group].topics[0]) == [CommittedOffset(0, 4, -1, "kept"), CommittedOffset(1, 0)]


def test_a_removed_commit_is_gone_and_the_others_stay(cluster: Cluster) -> None:
    topic, group = cluster.make_topic(partitions=2), new_group()
    cluster.admin.groups.commit(table(one(group, topic, CommittedOffset(0, 1), CommittedOffset(1, 2))))
    assert cluster.admin.groups.delete(table(one(group, topic, CommittedOffset(1, -1)))) == ()
    assert [list(each) for each in read(cluster, group)[group].topics] == [[CommittedOffset(0, 1)]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_refused_by_name_and_the_others_are_set(cluster: Cluster, protocol: str) -> None:
    topic, active, idle = cluster.make_topic(), new_group(), new_group()
    member = consumer(cluster, active, group_protocol=protocol)
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()))
    groups = table(one(active, topic, CommittedOffset(0, 3)), one(idle, topic, CommittedOffset(0, 3)))
    (failure,) = cluster.admin.groups.commit(groups)
    (listed,) = [each for each in cluster.admin.groups.list() if each.group == active]
    member.close()
    assert failure.group == active
    assert "active members" in failure.message
    assert (listed.kind, listed.state) == (protocol, "Stable")
    assert read(cluster, idle)[idle].topics[0].by_partition() == {0: 3}


def test_a_topic_that_is_not_there_is_refused_and_the_others_are_set(cluster: Cluster) -> None:
    topic, group = cluster.make_topic(), new_group()
    topics = (TopicOffsets.of("nowhere", [CommittedOffset(0, 1)]), TopicOffsets.of(topic, [CommittedOffset(0, 3)]))
    (failure,) = cluster.admin.groups.commit(table(GroupOffsets(group=group, topics=topics)))
    assert failure.error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [each.topic for each in read(cluster, group)[group].topics] == [topic]


def transactional_commit(cluster: Cluster, topic: str, group: str) -> Producer:
    """A transaction, still open, that commits offset 9."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"tx-{group}", "log_level": 3})
    producer.init_transactions()
    producer.begin_transaction()
    client = consumer(cluster, group)
    producer.send_offsets_to_transaction([Position(topic, 0, 9)], client.consumer_group_metadata())
    client.close()
    return producer


def test_a_commit_under_way_in_a_transaction_is_waited_for(cluster: Cluster) -> None:
    topic, group = cluster.make_topic(), f"in-transaction-{next(_numbers)}"
    commit(cluster, group, Position(topic, 0, 4))
    producer = transactional_commit(cluster, topic, group)
    end = threading.Timer(0.5, producer.commit_transaction)
    end.start()
    assert read(cluster, group)[group].topics[0].by_partition() == {0: 9}
    end.join()


def test_a_transaction_that_hangs_leaves_what_was_committed_before_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsite.kafka.groups.STABLE_ATTEMPTS", 2)
    topic, group = cluster.make_topic(), f"in-transaction-{next(_numbers)}"
    commit(cluster, group, Position(topic, 0, 4))
    producer = transactional_commit(cluster, topic, group)
    assert read(cluster, group)[group].topics[0].by_partition() == {0: 4}
    producer.abort_transaction()


def test_many_groups_cost_few_requests(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = cluster.make_topic(partitions=10)
    names = [f"many-{number:04d}" for number in range(300)]
    rows = [CommittedOffset(number, number * 7) for number in range(10)]
    client = GroupClient(Router(cluster.config))
    assert client.commit(table(*(one(name, topic, *rows) for name in names))) == ()
    listed = [each for each in client.list() if each.group in set(names)]
    asked: list[int] = []
    monkeypatch.setattr("offsite.kafka.groups.FETCH_GROUPS_MAX", 100)
    post = client._coordinators.ask
    monkeypatch.setattr(
        client._coordinators,
        "ask",
        lambda groups, request, *, per_request: post(
            groups, lambda some: (asked.append(len(some)), request(some))[1], per_request=per_request
        ),
    )
    fetched = client.offsets(listed)
    assert asked == [100, 100, 100]
    assert offset_count(fetched.groups) == 3000
    assert list(fetched.groups[names[7]].topics[0]) == rows


def test_share_groups_that_are_not_enabled_are_named(cluster: Cluster) -> None:
    """The preview in Kafka 4.1 has the requests, and answers none before share.version is 1."""
    shared = ListedGroup(group="shared", kind="share", state="Empty")
    (failure,) = cluster.admin.groups.offsets([shared]).failed
    assert (failure.group, failure.kind, failure.error) == ("shared", "share", "UNSUPPORTED_VERSION")
    assert "share.version=1" in failure.message
    positions = table(replace(one("shared", cluster.make_topic(), CommittedOffset(0, 1)), kind="share"))
    client = cluster.admin.groups
    for change in (client.commit, client.delete, client.unsettable):
        (failure,) = change(positions)
        assert failure.error == "UNSUPPORTED_VERSION"


def test_a_broker_that_just_started_is_waited_for(start_sandbox: StartSandbox) -> None:
    """Its first group makes `__consumer_offsets`: until that has leaders there is no coordinator."""
    cluster = Cluster(start_sandbox()[1].bootstrap)
    topic = cluster.make_topic()
    cluster.produce(topic, numbered(1))
    assert cluster.admin.groups.list() == []
    assert cluster.admin.groups.commit(table(one("first", topic, CommittedOffset(0, 1)))) == ()
    assert read(cluster, "first")["first"].topics[0].by_partition() == {0: 1}
