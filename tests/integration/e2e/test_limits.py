"""Under a limit a backup takes as long as the limit wants, and little longer: over all workers, both ways."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsite.backup.options import BackupRequest, parse_limits
from offsite.backup.plan import plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.rate_server import BURST_S
from offsite.engine.runner import RunProgress
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.options import CompressionChoice
from offsite.model.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.restore.options import RestoreWords, parse_restore
from offsite.restore.plan import prepare_restore
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from offsite.upkeep.verification.run import verify_deep
from tests.integration.e2e.site import SLOTS, Site, new_name
from tests.integration.kafka.cluster import Cluster
from tests.shared_spark import end_shared_spark

READ_BYTES_PER_S = 4_000_000
WRITE_BYTES_PER_S = 2_000_000
VALUE_BYTES = 20_000
PARTITIONS = 2
OVERHEAD_S = 3.0
"""Time for a job and the first connections, on a busy machine."""


@pytest.fixture
def limited(broker: SandboxInfo, tmp_path: Path) -> Iterator[Site]:
    """A site whose Spark has both limits."""
    end_shared_spark()
    limits = parse_limits({"read_limit": f"{READ_BYTES_PER_S}B", "write_limit": f"{WRITE_BYTES_PER_S}B/s"})
    spark = SparkRunner(SparkChoice(master="local[2]"), limits=limits)
    try:
        spark.run([1, 2], abs)  # its start is none of what is measured
        repository = Repository.init(open_store(str(tmp_path / "repository")))
        yield Site(Cluster(broker.bootstrap), repository, spark)
    finally:
        spark.close()


def backed_up(site: Site, topic: str, compression: str) -> tuple[BackupResult, RunProgress]:
    request = BackupRequest(
        backup=topic, selection=parse_selection([topic]), compression=CompressionChoice(compression)
    )
    plan = plan_backup(site.repository, site.cluster.admin, request, slots=SLOTS)
    seen: list[RunProgress] = []
    kafka = site.cluster.config
    result = run_backup(plan, repository=site.repository, kafka=kafka, runner=site.spark, on_progress=seen.append)
    assert result.complete
    return result, seen[-1]


def filled(site: Site, *, size_bytes: int, value: bytes) -> str:
    topic = site.make_topic(partitions=PARTITIONS)
    count = size_bytes // VALUE_BYTES
    messages = (
        DemoMessage(key=b"", value=value or os.urandom(VALUE_BYTES), timestamp_ms=BASE_MS, partition=n % PARTITIONS)
        for n in range(count)
    )
    site.produce(topic, messages)
    return topic


def assert_held_and_used(bytes_per_s: int, moved_bytes: int, last: RunProgress) -> None:
    print(f"{moved_bytes / last.elapsed_s / bytes_per_s:.1%} of the limit, {last}")  # noqa: T201  # where it fails
    least_s = moved_bytes / bytes_per_s
    assert last.elapsed_s >= (least_s - BURST_S) / 1.05, "a limit holds within a tenth"
    assert last.elapsed_s < 1.1 * least_s + OVERHEAD_S
    assert last.limited_s > least_s / 2, "it is not the machine that was slow"


def test_a_backup_keeps_both_limits_and_uses_the_one_that_is_in_its_way(limited: Site) -> None:
    """Zeros become small: reading them is what takes its time. Noise does not: writing it is slower than reading it."""
    zeros = filled(limited, size_bytes=14_000_000, value=b"\0" * VALUE_BYTES)
    result, last = backed_up(limited, zeros, "zstd")
    assert result.bytes > 14_000_000
    assert result.stored_bytes < 1_000_000
    assert_held_and_used(READ_BYTES_PER_S, result.bytes, last)

    noise = filled(limited, size_bytes=7_000_000, value=b"")
    result, last = backed_up(limited, noise, "none")
    assert_held_and_used(WRITE_BYTES_PER_S, result.stored_bytes, last)
    assert verify_deep(limited.repository.backup(noise), limited.spark).ok


@pytest.mark.soak
def test_a_restore_keeps_its_limit_and_uses_it(limited: Site) -> None:
    noise = filled(limited, size_bytes=7_000_000, value=b"")
    backed_up(limited, noise, "none")
    for options in ({}, {"repartition": ["3"], "keyless": "in-turn", "batch_bytes": "64kB"}):
        moved_bytes, last = restored(limited, noise, **options)
        assert moved_bytes > 6_900_000
        assert_held_and_used(WRITE_BYTES_PER_S, moved_bytes, last)


def restored(site: Site, topic: str, **options: Any) -> tuple[int, RunProgress]:
    words = RestoreWords(rename=[f"{topic}={new_name(topic)}"], offsets="translate", **options)
    prepared = prepare_restore(site.repository.backup(topic), site.cluster.admin, parse_restore(words))
    seen: list[RunProgress] = []
    run_restore(prepared, cluster=site.cluster, runner=site.spark, verify=False, on_progress=seen.append)
    return prepared.plan.raw_bytes, seen[-1]
