"""Random schedules of faults against backup and restore: nothing is lost, doubled or changed without a word.

Each schedule has a number, its seed; `OFFSITE_SOAK_SEED=17 OFFSITE_SOAK_ROUNDS=1` plays one of them again in the soak.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

import pytest

from offsite.log.range import TopicPartition
from tests.misbehaving_broker.proxy import MisbehavingBrokers
from tests.schedules.draw import draw_for_backup, draw_for_restore
from tests.schedules.play_backup import play_backup
from tests.schedules.play_restore import BackedUp, back_world_up, play_restore
from tests.schedules.played import Played, summary
from tests.schedules.world import World

QUICK_BACKUPS, QUICK_RESTORES = 16, 8
SOAK_ROUNDS = int(os.environ.get("OFFSITE_SOAK_ROUNDS", "1000"))
SOAK_SEED = int(os.environ.get("OFFSITE_SOAK_SEED", "0"))
SOAK_TIMEOUT_S = 4 * 3600


@pytest.fixture(scope="module")
def backed_up(world: World) -> BackedUp:
    return back_world_up(world)


def played(play: Callable[[int], Played], seeds: Sequence[int]) -> None:
    results = []
    for seed in seeds:
        results.append(play(seed))
        if results[-1].problems:
            print(results[-1], flush=True)  # noqa: T201  (a soak of an hour is watched)
        if len(results) % 50 == 0:
            print(f"seed {seed}: {summary(results)}", flush=True)  # noqa: T201
    told = summary(results)
    print(f"seeds {seeds[0]} to {seeds[-1]}: {told}")  # noqa: T201  (the seed is printed)
    assert not any(each.problems for each in results), told


def test_what_a_backup_does_not_hold_it_names(world: World, brokers: MisbehavingBrokers) -> None:
    played(lambda seed: play_backup(world, brokers, seed), range(QUICK_BACKUPS))


def test_what_a_restore_did_not_write_it_names(world: World, brokers: MisbehavingBrokers, backed_up: BackedUp) -> None:
    played(lambda seed: play_restore(world, backed_up, brokers, seed), range(QUICK_RESTORES))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_many_backups_name_what_they_do_not_hold(world: World, brokers: MisbehavingBrokers) -> None:
    played(lambda seed: play_backup(world, brokers, seed), range(SOAK_SEED, SOAK_SEED + SOAK_ROUNDS))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_TIMEOUT_S)
def test_many_restores_name_what_they_did_not_write(
    world: World, brokers: MisbehavingBrokers, backed_up: BackedUp
) -> None:
    played(lambda seed: play_restore(world, backed_up, brokers, seed), range(SOAK_SEED, SOAK_SEED + SOAK_ROUNDS))


def test_a_seed_draws_the_same_schedule_again() -> None:
    partitions = [TopicPartition(topic=f"topic-{number}", partition=0) for number in range(3)]
    for draw in (draw_for_backup, draw_for_restore):
        schedules = [draw(random.Random(seed), partitions) for seed in (7, 7, 8)]
        assert schedules[0] == schedules[1] != schedules[2]
