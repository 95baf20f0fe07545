"""Backup, both kinds of restore and export while brokers die, freeze, and leaders move: no record lost, doubled or
unnamed, as a plain consumer sees it.

`make test` runs a short form; `make soak` many rounds of each, as many as `OFFSITE_SOAK_ROUNDS` says.
"""

from __future__ import annotations

import os
import random
from functools import partial

import pytest

from tests.integration.cluster.faults import FAULTS, Fault, coordinators_moving, leaders_moving
from tests.integration.cluster.trial import Trial
from tests.integration.e2e.site import new_name

pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated")  # kafka-python reads its schemas so

ROUNDS = int(os.environ.get("OFFSITE_SOAK_ROUNDS", "100"))
FAULTS_A_ROUND = 3
"""A backup, a restore of each kind: one broker dies in each."""


def round_trip(trial: Trial, fault: Fault, seed: int) -> None:
    rng = random.Random(seed)
    many = {"transactions": 40, "batch": 30} if fault is coordinators_moving else {}
    made = trial.produced(rng, **many)
    with trial.under(fault, rng):
        trial.attempt(lambda: trial.back_up_once(made.topic))
    trial.healed()
    trial.back_up(made.topic)
    for offsets in ("translate", "preserve"):
        target = new_name(made.topic)
        attempt = partial(trial.restore_once, made.topic, target, offsets=offsets)
        with trial.under(fault, rng):
            done = trial.attempt(attempt)
        trial.healed()
        if not done:
            trial.restore(made.topic, target, offsets=offsets)
        trial.assert_whole(made, trial.read_all(made, target))
        if offsets == "preserve":
            assert trial.offsets(target) == trial.offsets(made.topic)


def export(trial: Trial, fault: Fault, seed: int) -> None:
    rng = random.Random(seed)
    made = trial.produced(rng)
    trial.read_all(made, made.topic)  # the end of a transaction is promised before its markers are in the logs
    with trial.under(fault, rng):
        found = trial.exported(made.topic)
    trial.assert_whole(made, found)


def test_nothing_is_lost_or_doubled_while_leaders_move(trial: Trial) -> None:
    export(trial, leaders_moving, seed=1)


def test_a_follower_gives_the_same_as_its_leader(trial: Trial) -> None:
    trial.read_near(2)
    made = trial.produced(random.Random(7))
    trial.back_up(made.topic)
    target = new_name(made.topic)
    trial.restore(made.topic, target, offsets="translate")
    trial.assert_whole(made, trial.read(target))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(-(-ROUNDS // FAULTS_A_ROUND)))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_round_trip_under_a_fault(trial: Trial, fault: str, seed: int) -> None:
    round_trip(trial, FAULTS[fault], seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(-(-ROUNDS // FAULTS_A_ROUND)))
@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault is not coordinators_moving])
def test_an_export_under_a_fault(trial: Trial, fault: str, seed: int) -> None:
    export(trial, FAULTS[fault], seed)
