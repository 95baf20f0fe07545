"""One schedule of a restore: a run into misbehaving brokers, then the same command again if it named a failure."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from offsite.demo.data import TopicRecords, compare_readings, read_topic
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchTopic
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.schedules.draw import draw_for_restore
from tests.schedules.play_backup import BACKUP, back_up
from tests.schedules.played import Played, attempt, behave, proxied_config
from tests.schedules.world import World

_MODES = ("translate", "preserve")
_CREATE_TIME = 1
_SEEN = {"damaged"}
"""What brokers that damage what they send, again and again, show to any reader: then it is no false alarm."""


@dataclass(frozen=True, kw_only=True)
class BackedUp:
    """A whole backup of the world, and what a consumer sees in each of its topics."""

    backup: Backup
    readings: Mapping[str, TopicRecords]


def back_world_up(world: World) -> BackedUp:
    repository = Repository.init(open_store(f"memory:///restores-{time.monotonic_ns()}"))
    assert back_up(repository, world.cluster.config, world.topics).complete
    readings = {topic: _with_create_times(read_topic(world.cluster.bootstrap, topic)) for topic in world.topics}
    return BackedUp(backup=repository.backup(BACKUP), readings=readings)


def play_restore(world: World, backed_up: BackedUp, brokers: MisbehavingBrokers, seed: int) -> Played:
    """Restore one topic while the brokers misbehave; what they made of it must be right, or be said."""
    began_s = time.monotonic()
    chance = random.Random(seed)
    topic, mode = chance.choice(world.topics), chance.choice(_MODES)
    target = f"{topic}.seed-{seed}-{time.monotonic_ns()}"
    targets = [TopicPartition(topic=target, partition=each.partition) for each in world.partitions([topic])]
    rules = draw_for_restore(chance, targets)
    restore = _Restore(backed_up, topic, target, mode, proxied_config(brokers))
    brokers.misbehave(*rules, seed=seed)
    named, problems = attempt(restore.run)
    hits = len(brokers.hits)
    behave(brokers)
    problems += restore.judge(world, named)
    unhealed: list[str] = []
    if named and not problems and restore.result is None:
        unhealed, crashed = attempt(restore.run, times_as_fast=1)
        problems += crashed + restore.judge(world, unhealed)
    with suppress(NoSuchTopic):
        world.cluster.admin.delete_topics([target])
    return Played(
        seed=seed,
        rules=rules,
        hits=hits,
        named=[f"{mode} {topic}: {each}" for each in named],
        unhealed=unhealed,
        problems=[f"{mode} {topic}: {each}" for each in problems],
        duration_s=time.monotonic() - began_s,
    )


class _Restore:
    def __init__(self, backed_up: BackedUp, topic: str, target: str, mode: str, config: KafkaConfig) -> None:
        self.result: RestoreResult | None = None
        self._backed_up = backed_up
        self._topic = topic
        self._target = target
        self._mode = mode
        self._config = config

    def run(self) -> list[object]:
        """The findings of its proof."""
        request = RestoreRequest(
            selection=parse_selection([self._topic]),
            renames=parse_renames([f"{self._topic}={self._target}"]),
            offsets=self._mode,
        )
        admin = ClusterAdmin(shared_router(self._config))
        prepared = prepare_restore(self._backed_up.backup, admin, request)
        self.result = run_restore(prepared, cluster=Cluster(config=self._config, admin=admin), runner=InlineRunner())
        return list(self.result.findings)

    def judge(self, world: World, named: list[str]) -> list[str]:
        """A restore that ended must be right, and know it; a wrong one must have said so."""
        if self.result is None:
            return [] if named else ["WRONG: it neither ended nor failed"]
        restored = _with_create_times(read_topic(world.cluster.bootstrap, self._target))
        same_offsets = self.result.topics[self._target].same_offsets
        before = self._backed_up.readings[self._topic]
        difference = compare_readings(self._topic, before, restored, offsets=same_offsets).difference
        if difference and self.result.verified:
            return [f"WRONG, and called verified: {difference[:300]}"]
        if not difference and any(each.kind not in _SEEN for each in self.result.findings):
            return [f"false alarm: {named}"]
        return []


def _with_create_times(reading: TopicRecords) -> TopicRecords:
    """Times of LogAppendTime topics are kept, and shown as CreateTime."""
    return {key: [replace(each, timestamp_type=_CREATE_TIME) for each in records] for key, records in reading.items()}
