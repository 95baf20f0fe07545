"""From options to the parts a service works with: the repository, the cluster, Spark. Heavy imports happen inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from offsite.cli.output import note
from offsite.model.errors import BadKafkaConfig

if TYPE_CHECKING:
    from offsite.kafka.admin import ClusterAdmin
    from offsite.kafka.config import KafkaConfig
    from offsite.pipeline.session import SparkRunner
    from offsite.repository.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How workers reach the cluster, and the driver's own line to it."""

    config: KafkaConfig
    admin: ClusterAdmin


def open_repository(url: str) -> Repository:
    """Raises `RepositoryNotFound`, `BadRepositoryUrl`, `FormatTooNew`."""
    from offsite.repository.open_store import open_store
    from offsite.repository.repository import Repository

    return Repository.open(open_store(url))


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """`bootstrap` wins over the file's `bootstrap.servers`. Asks nothing of the cluster. Raises `BadKafkaConfig`."""
    from offsite.kafka.admin import ClusterAdmin
    from offsite.kafka.routing import shared_router

    config = _kafka_config(bootstrap, kafka_config)
    return Cluster(config=config, admin=ClusterAdmin(shared_router(config)))


@contextmanager
def spark(master: str | None, *, preload: str) -> Iterator[SparkRunner]:
    """Spark, starting in the background from here on; ended with the block. Workers import `preload` as they start."""
    from offsite.pipeline.session import SparkRunner

    runner = SparkRunner(master=master, preload=[preload])
    runner.begin()
    try:
        yield runner
    finally:
        runner.close()


def _kafka_config(bootstrap: str | None, kafka_config: Path | None) -> KafkaConfig:
    from offsite.kafka.client_properties import read_client_properties
    from offsite.kafka.config import KafkaConfig, parse_bootstrap

    if kafka_config is not None:
        properties = read_client_properties(kafka_config, bootstrap=bootstrap or "")
        for warning in properties.warnings:
            note(f"warning: {warning}")
        return properties.config
    if not bootstrap:
        raise BadKafkaConfig(
            "no Kafka cluster given",
            hint="name its brokers: --bootstrap host:9092, or OFFSITE_BOOTSTRAP, or --kafka-config",
        )
    return KafkaConfig(bootstrap=parse_bootstrap(bootstrap))
