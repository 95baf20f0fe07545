"""Makes the parts needed by services out of options: the repository, the cluster, Spark. Heavy imports happen
inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from offsite.cli.output import note, report_damage

if TYPE_CHECKING:
    from offsite.engine.rate_limits import RateLimits
    from offsite.engine.settings import SparkChoice
    from offsite.engine.spark_runner import SparkRunner
    from offsite.kafka.cluster import Cluster
    from offsite.repository.repository import Repository


def open_repository(url: str, *, looks: bool = False, records: str | None = None) -> Repository:
    """Open the repository at `url`. `looks`: for a command without changes, which works on a read-only store.
    `records`: another place of restore records. Raises `RepositoryNotFound`, `BadRepositoryUrl`, `FormatTooNew`."""
    from offsite.repository.repository import Repository
    from offsite.stores.open_store import open_store
    from offsite.stores.wrapped_store import ClockFallbackStore

    store = open_store(url)
    return Repository.open(
        ClockFallbackStore(store) if looks else store,
        on_damage=report_damage,
        records_at=None if records is None else open_store(records),
    )


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """Connect to the cluster at `bootstrap`, which wins over the file's `bootstrap.servers`. Sends nothing to the
    cluster. Raises `BadKafkaConfig`."""
    from offsite.kafka import cluster

    connected = cluster.connect(bootstrap, kafka_config)
    for warning in connected.warnings:
        note(f"warning: {warning}")
    return connected


@contextmanager
def spark(choice: SparkChoice, *, preload: str, limits: RateLimits | None = None) -> Iterator[SparkRunner]:
    """Start Spark in the background; Spark ends with the context. Workers import `preload` at start, and obey
    `limits`."""
    from offsite.engine.spark_runner import SparkRunner

    runner = SparkRunner(choice, preload=[preload], limits=limits)
    try:
        runner.begin()
        yield runner
    finally:
        runner.close()
