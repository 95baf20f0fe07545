"""One schedule of a backup: a run through misbehaving brokers, then a clean one, and what is wrong afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from offsite.backup import copy_plan
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.request import Api
from offsite.model.errors import NoRepository
from offsite.model.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.misbehaving_broker.answer_faults import StaleOffsets
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.misbehaving_broker.rules import Rule
from tests.schedules.draw import draw_for_backup
from tests.schedules.judge import problems_of_backup
from tests.schedules.played import Played, attempt, behave, proxied_config
from tests.schedules.world import World

BACKUP = "nightly"
_TASK_BYTES = 12_000
_PATIENT_MS = 15_000
_TOPICS_MAX = 3
_BEGUN = 0.5
_SLOTS = 2


def play_backup(world: World, brokers: MisbehavingBrokers, seed: int) -> Played:
    """Back some topics up while the brokers misbehave, once more while they behave, and judge both."""
    began_s = time.monotonic()
    chance = random.Random(seed)
    topics = chance.sample(world.topics, chance.randint(1, _TOPICS_MAX))
    rules = draw_for_backup(chance, world.partitions(topics))
    repository = Repository.init(open_store(f"memory:///schedule-{seed}-{time.monotonic_ns()}"))
    config = proxied_config(brokers)
    with small_tasks():
        _begin(chance, repository, brokers, config, topics)
        brokers.misbehave(*rules, seed=seed)
        named, problems = attempt(lambda: back_up(repository, config, topics).failed)
        hits = len(brokers.hits)
        problems += _judged(world, repository, whole=False)
        behave(brokers)
        patient = replace(config, request_timeout_ms=_PATIENT_MS)  # a busy machine is no fault
        still, crashed = attempt(lambda: back_up(repository, patient, topics).failed, times_as_fast=1)
    problems += [f"stuck: {each}" for each in still] + crashed + _judged(world, repository, whole=True)
    return Played(
        seed=seed,
        rules=rules,
        hits=hits,
        named=named,
        problems=list(dict.fromkeys(problems)),
        duration_s=time.monotonic() - began_s,
    )


def back_up(repository: Repository, config: KafkaConfig, topics: Sequence[str]) -> BackupResult:
    admin = ClusterAdmin(shared_router(config))
    request = BackupRequest(backup=BACKUP, selection=parse_selection(list(topics)))
    planned = plan_backup(repository, admin, request, slots=_SLOTS)
    return run_backup(planned, repository=repository, kafka=config, runner=InlineRunner())


@contextmanager
def small_tasks() -> Iterator[None]:
    """Several ranges in each partition, though the topics are small."""
    with mock.patch.object(copy_plan, "TASK_BYTES_MIN", _TASK_BYTES):
        yield


def _begin(
    chance: random.Random,
    repository: Repository,
    brokers: MisbehavingBrokers,
    config: KafkaConfig,
    topics: Sequence[str],
) -> None:
    """In every other schedule a part of each log is backed up already: its end was told as an earlier one."""
    if chance.random() < _BEGUN:
        stale = StaleOffsets(by=chance.randint(10, 300), ends_only=True)
        brokers.misbehave(Rule(fault=stale, api=Api.LIST_OFFSETS, times=None))
        back_up(repository, config, topics)


def _judged(world: World, repository: Repository, *, whole: bool) -> list[str]:
    try:
        backup = repository.backup(BACKUP)
    except NoRepository:
        return []
    return problems_of_backup(world, backup, whole=whole)
