"""Followers that are read from, and elections that lose records: what is backed up is named for what it is."""

from __future__ import annotations

import random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from offsite.sandbox import Sandbox
from tests.integration.cluster.faults import all_in_sync, broker_frozen, broker_killed
from tests.integration.cluster.trial import Trial
from tests.integration.e2e.site import new_name
from tests.integration.kafka.cluster import Cluster, wait_until

ANSWER_LIMIT_S = 30
KEPT, LOST = ([f"{word} {number}".encode() for number in range(50)] for word in ("kept", "lost"))
NEW = [b"new %d" % number for number in range(len(LOST) + 1)]


def topic_on(cluster: Cluster, *replicas: int, **configs: str) -> str:
    """One partition; the first of `replicas` leads it."""
    name = new_name("placed")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=settings)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # dropped, it fails its futures
    admin.create_topics([topic])[name].result(ANSWER_LIMIT_S)
    wait_until(lambda: leader(cluster, name) == replicas[0])
    return name


def leader(cluster: Cluster, topic: str) -> int:
    found = cluster.admin.topics([topic])[topic].partitions
    return found[0].leader if found else -1


@pytest.mark.soak
@pytest.mark.parametrize("fault", [broker_killed, broker_frozen])
@pytest.mark.parametrize("seed", range(5))
def test_a_follower_that_dies_or_freezes_loses_nothing(trial: Trial, fault: object, seed: int) -> None:
    rng = random.Random(seed)
    trial.read_near(rng.randint(1, 3))
    made = trial.produced(rng)
    with trial.under(fault, rng):  # type: ignore[arg-type]
        trial.back_up(made.topic)
    trial.healed()
    target = new_name(made.topic)
    trial.restore(made.topic, target, offsets="translate")
    trial.assert_whole(made, trial.read(target))


def outrun(sandbox: Sandbox, cluster: Cluster, topic: str, rows: list[bytes]) -> None:
    """Only broker 1 has `rows`: the other replica is down."""
    sandbox.broker(2).kill()
    wait_until(lambda: cluster.admin.topics([topic])[topic].partitions[0].in_sync == (1,))
    cluster.produce(topic, rows)


def elect_uncleanly(sandbox: Sandbox, cluster: Cluster, topic: str) -> None:
    """Broker 2 leads with what it has, while the only one that has more is down."""
    sandbox.broker(1).kill()
    sandbox.broker(2).start()
    wait_until(lambda: leader(cluster, topic) == 2, limit_s=60)
    sandbox.broker(1).start()
    wait_until(lambda: all_in_sync(cluster), limit_s=60)


def values(trial: Trial, topic: str) -> list[bytes | None]:
    return [row[1] for row in trial.read(topic)[0]]


def outrun_topic(trial: Trial) -> str:
    """All replicas have `KEPT`, only the leader has `LOST`."""
    topic = topic_on(trial.cluster, 1, 2, unclean_leader_election_enable="true", min_insync_replicas="1")
    trial.cluster.produce(topic, KEPT)
    wait_until(lambda: all_in_sync(trial.cluster))
    outrun(trial.sandbox, trial.cluster, topic, LOST)
    return topic


@pytest.mark.soak
def test_what_an_unclean_election_lost_before_the_backup_is_not_in_it(trial: Trial) -> None:
    topic = outrun_topic(trial)
    elect_uncleanly(trial.sandbox, trial.cluster, topic)
    trial.cluster.produce(topic, NEW)
    assert values(trial, topic) == KEPT + NEW
    trial.back_up(topic)
    target = new_name(topic)
    trial.restore(topic, target, offsets="preserve")
    assert values(trial, target) == KEPT + NEW


@pytest.mark.soak
@pytest.mark.parametrize("written_since", [0, 10, len(LOST), len(LOST) + 1])
def test_a_backup_keeps_what_an_unclean_election_lost_and_the_next_run_says_so(
    trial: Trial, written_since: int
) -> None:
    """The new log is shorter than what is backed up, just as long, or longer: never are both mixed."""
    topic = outrun_topic(trial)
    before = trial.back_up(topic)
    elect_uncleanly(trial.sandbox, trial.cluster, topic)
    since = NEW[:written_since]
    trial.cluster.produce(topic, since)
    assert values(trial, topic) == KEPT + since
    result = trial.back_up_once(topic)
    ends = len(KEPT), len(KEPT + LOST)
    assert [(cut.topic, cut.partition, cut.at, cut.end) for cut in result.cut_back] == [(topic, 0, *ends)]
    assert (result.complete, result.failed, result.holes) == (False, (), ())
    for commit, expected in ((before.commit, KEPT + LOST), (result.commit, KEPT + since)):
        target = new_name(topic)
        trial.restore(topic, target, offsets="translate", commit=commit)
        assert values(trial, target) == expected
