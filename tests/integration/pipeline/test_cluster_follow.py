"""`offsite backup run --follow` on a standalone Spark cluster that loses executors and machines, beside a busy source:
it is one run from its beginning to its end, and holds all that was acknowledged, once (`follow_judge`)."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests.inline_runner import InlineRunner
from tests.integration.cluster.busy_source import BusySource, Pace
from tests.integration.cluster.follow_judge import false_holes, late, read_commits, told_by
from tests.integration.cluster.test_follow_soak import Following, Soak, assert_compared, faults_of
from tests.integration.e2e.site import new_name
from tests.integration.pipeline.cluster_losses import Losses, cluster_trial
from tests.worker_cluster import WorkerCluster, spark_defaults, worker_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("OFFSITE_SOAK_KILLS", "50")) // 5
"""Backups, two kinds of restore and exports take the others."""
PACE = Pace(burst=25, pause_s=0.3)
_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerCluster]:
    with worker_cluster(tmp_path_factory.mktemp("workers")) as cluster:
        yield cluster


@pytest.fixture
def soak(
    broker: SandboxInfo, tmp_path: Path, workers: WorkerCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Soak]:
    seed = int(os.environ.get("OFFSITE_SEED", time.time_ns() % 1_000_000))
    print(f"OFFSITE_SEED={seed}")  # noqa: T201  # shown with a failure, and taken back from the environment
    for name, value in spark_defaults(tmp_path).items():
        monkeypatch.setenv(name, value)
    rng, prefix, trial = random.Random(seed), new_name("soak"), cluster_trial(broker, tmp_path, InlineRunner())
    names: list[object] = ["--repo", tmp_path / "repository", "--backup", "b"]
    ends = ["--bootstrap", broker.bootstrap, "--topics", f"{prefix}-*", "--spark-master", workers.url]
    following = Following(names=names, ends=ends, folder=tmp_path)
    source = BusySource(broker.bootstrap, prefix, rng)
    source.pace = PACE
    try:
        yield Soak(trial=trial, source=source, following=following, rng=rng, restored=())
    finally:
        if following.process is not None and following.process.poll() is None:
            following.kill(with_workers=True)
        source.stop()


def test_a_backup_that_follows_goes_on_whatever_workers_are_lost(soak: Soak, workers: WorkerCluster) -> None:
    source, following = soak.source, soak.following
    for name in ("steady", "beside"):
        source.make(name, partitions=3, configs={"min.insync.replicas": "1"})
        source.life(name).is_losing = False
    following.start()
    losses, never = Losses(workers=workers, rng=soak.rng), threading.Event()
    while losses.kills < KILLS:
        losses.lose_one("follow", never)
        workers.mend()
        soak.let_run(soak.rng.randint(1, 3))
        _log.info("%s, %d commits", dict(losses.tally), len(following.commits()))
    soak.end()
    assert following.runs == 1
    commits, lives = read_commits(soak.backup), source.lives
    told = told_by(commits)
    assert list(late(commits, lives)) == []
    for life in lives:
        assert list(false_holes(life, told, dict.fromkeys(life.acked, 0))) == []
        assert faults_of(soak, life, told) == []
    assert_exact(soak)
    print(f"{dict(losses.tally)} in {len(commits)} commits, {sum(life.records for life in lives)} records")  # noqa: T201


def assert_exact(soak: Soak) -> None:
    """Every record is compared with the cluster, byte by byte."""
    soak.source.make("expiring", partitions=1, configs={"min.insync.replicas": "1"})  # the judge passes it over
    assert_compared(soak)
