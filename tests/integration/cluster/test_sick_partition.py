"""One partition without leader keeps nothing back but itself: the others are backed up, and it is named."""

from __future__ import annotations

import random

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.kafka import log_bounds
from offsite.kafka.evidence import GIVEN_UP_MAX_S
from offsite.model.errors import LeaderUnavailable
from offsite.model.selection import parse_selection
from tests.integration.cluster.trial import Trial
from tests.integration.e2e.site import new_name
from tests.integration.kafka.cluster import wait_until

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # kafka-python reads its schemas so


@pytest.mark.soak
def test_a_partition_without_leader_is_named_and_all_others_are_backed_up(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_bounds, "SICK_AFTER_S", GIVEN_UP_MAX_S)
    made, alone = trial.produced(random.Random(3)), alone_on_a_broker(trial)
    broker = leader_of(trial, alone)
    trial.sandbox.broker(broker).kill()
    wait_until(lambda: leader_of(trial, alone) < 0)
    result = back_up(trial, made.topic, alone)
    assert [(each.topic, each.partition, each.error) for each in result.failed] == [(alone, 0, LeaderUnavailable.id)]
    assert not result.complete
    target = new_name(made.topic)
    trial.healed()
    trial.restore(made.topic, target, offsets="translate")
    trial.assert_whole(made, trial.read(target))
    assert back_up(trial, made.topic, alone).complete


def back_up(trial: Trial, *topics: str) -> BackupResult:
    request = BackupRequest(backup=f"of-{topics[0]}", selection=parse_selection(list(topics)))
    plan = plan_backup(trial.repository, trial.cluster.admin, request, slots=2)
    return run_backup(plan, repository=trial.repository, kafka=trial.cluster.config, runner=trial.runner)


def alone_on_a_broker(trial: Trial) -> str:
    """A topic of one replica."""
    topic = new_name("alone")
    client = AdminClient({"bootstrap.servers": trial.cluster.bootstrap})
    for made in client.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result()
    wait_until(lambda: topic in trial.cluster.admin.topics() and leader_of(trial, topic) >= 0)
    trial.cluster.produce(topic, [b"only one"])
    return topic


def leader_of(trial: Trial, topic: str) -> int:
    (partition,) = trial.cluster.admin.topics([topic])[topic].partitions
    return partition.leader
