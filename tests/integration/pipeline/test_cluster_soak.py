"""Backup, both kinds of restore and export on a standalone Spark cluster that loses executors and machines again and
again: no record lost, doubled or unnamed, as a plain consumer sees it.

`make soak` takes as many rounds as it needs for fifty kills; one round alone: `OFFSITE_SEED=n`, which is printed.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.engine.runner import Runner
from offsite.restore.result import RestoreResult
from offsite.sandbox import SandboxInfo
from tests import spark_tasks
from tests.integration.cluster.trial import Produced, Trial
from tests.integration.e2e.site import new_name
from tests.integration.pipeline.cluster_losses import (
    Losses,
    assert_group,
    cluster_runner,
    cluster_trial,
    slow_source,
    slow_target,
    write_group,
)
from tests.worker_cluster import WorkerCluster, worker_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("OFFSITE_SOAK_KILLS", "50"))
SLOW_S = 3.0
"""For who reads the source: what a lost worker had read is read again, as slowly."""
_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerCluster]:
    with worker_cluster(tmp_path_factory.mktemp("workers")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runner(workers: WorkerCluster) -> Iterator[Runner]:
    with cluster_runner(workers.url) as spark:
        spark.run(range(3), spark_tasks.clock_s)  # executors are there
        yield spark


@pytest.fixture
def trial(broker: SandboxInfo, tmp_path: Path, runner: Runner) -> Trial:
    return cluster_trial(broker, tmp_path, runner)


def test_nothing_is_lost_or_doubled_on_a_cluster_that_loses_workers(trial: Trial, workers: WorkerCluster) -> None:
    given = os.environ.get("OFFSITE_SEED")
    seed, tally, through = int(given or time.time_ns() % 1_000_000), Counter[str](), Counter[str]()
    while True:
        print(f"OFFSITE_SEED={seed}")  # noqa: T201  # shown with a failure, and taken back from the environment
        losses = Losses(workers=workers, rng=random.Random(seed), tally=tally)
        round_trip(replace(trial, folder=trial.folder / str(seed)), losses, through)
        seed += 1
        if given or losses.kills >= KILLS:
            break
    print(f"{losses.kills} kills: {dict(tally)}; first runs: {dict(through)}")  # noqa: T201


def round_trip(trial: Trial, losses: Losses, through: Counter[str]) -> None:
    rng = random.Random(losses.rng.random())
    made = trial.produced(rng, transactions=20, batch=150)
    counts = write_group(trial, made, rng)
    with under(slow_source(trial, made, slow_s=SLOW_S), losses, "backup"):
        done = trial.attempt(lambda: trial.back_up_once(made.topic))
    note(through, "backup", done=done)
    trial.back_up(made.topic)
    for offsets in ("translate", "preserve"):
        target = new_name(made.topic)
        result = restore(trial, losses, made, target, offsets=offsets, through=through)
        trial.assert_whole(made, trial.read_all(made, target))
        if offsets == "preserve":
            assert trial.offsets(target) == trial.offsets(made.topic)
        assert_group(trial, made, counts, target, result.restore)
    with under(slow_source(trial, made, slow_s=SLOW_S), losses, "export"):
        found = trial.exported(made.topic)
    trial.assert_whole(made, found)


def restore(
    trial: Trial, losses: Losses, made: Produced, target: str, *, offsets: str, through: Counter[str]
) -> RestoreResult:
    results: list[RestoreResult] = []
    with under(slow_target(trial, made), losses, offsets):
        done = trial.attempt(lambda: results.append(trial.restore_once(made.topic, target, offsets=offsets)))
    note(through, offsets, done=done)
    return results[0] if done else trial.restore(made.topic, target, offsets=offsets)


@contextmanager
def under(slowly: AbstractContextManager[None], losses: Losses, run: str) -> Iterator[None]:
    began_s = time.monotonic()
    with losses.during(run), slowly:
        yield
    _log.info("%s: %.1f s, %s", run, time.monotonic() - began_s, dict(losses.tally))


def note(through: Counter[str], run: str, *, done: bool) -> None:
    through[f"{run} {'went through' if done else 'was run again'}"] += 1
