"""A Kafka cluster to work with, from what a person names it by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.client_properties import read_client_properties
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.routing import shared_router
from offsite.model.errors import BadKafkaConfig
from offsite.model.journal import warned


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How workers reach the cluster, and the driver's own line to it. `warnings`: properties that were not used."""

    config: KafkaConfig
    admin: ClusterAdmin
    warnings: tuple[str, ...] = ()


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """`bootstrap` wins over the file's `bootstrap.servers`. Asks nothing of the cluster. Raises `BadKafkaConfig`."""
    if kafka_config is not None:
        properties = read_client_properties(kafka_config, bootstrap=bootstrap or "")
        return _cluster(properties.config, tuple(properties.warnings))
    if not bootstrap:
        raise BadKafkaConfig(
            "no Kafka cluster given",
            hint="name its brokers: --bootstrap host:9092, or OFFSITE_BOOTSTRAP, or --kafka-config",
        )
    return _cluster(KafkaConfig(bootstrap=parse_bootstrap(bootstrap)))


def _cluster(config: KafkaConfig, warnings: tuple[str, ...] = ()) -> Cluster:
    if hosts := config.overheard:
        what = "token" if config.sasl and config.sasl.token else "password"
        why = f"the {what} goes over the network unencrypted: use security.protocol=SASL_SSL, or SCRAM"
        warned("unencrypted", why=why, hosts=",".join(hosts))
    return Cluster(config=config, admin=ClusterAdmin(shared_router(config)), warnings=warnings)
