"""A Kafka cluster to work with, from user input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.client_properties import read_client_properties
from offsite.kafka.config import KafkaConfig, SaslConfig, parse_bootstrap
from offsite.kafka.net.routing import shared_router
from offsite.model.errors import BadKafkaConfig
from offsite.model.journal import warned
from offsite.model.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: the configuration for workers, and the driver's own connection. `warnings`: unused
    properties."""

    config: KafkaConfig
    admin: ClusterAdmin
    warnings: tuple[str, ...] = ()


def connect(bootstrap: str | None, kafka_config: Path | None) -> Cluster:
    """The cluster at `bootstrap`, which overrides the file's `bootstrap.servers`. Asks nothing of the cluster. Raises
    `BadKafkaConfig`."""
    if kafka_config is not None:
        properties = read_client_properties(kafka_config, bootstrap=bootstrap or "")
        return _cluster(properties.config, tuple(properties.warnings))
    if not bootstrap:
        raise BadKafkaConfig(
            "no Kafka cluster given",
            hint="give its brokers with --bootstrap host:9092, OFFSITE_BOOTSTRAP or --kafka-config",
        )
    return _cluster(KafkaConfig(bootstrap=parse_bootstrap(bootstrap, protocol="PLAINTEXT")))


def connect_as(bootstrap: str, username: str, password: str) -> Cluster:
    """A cluster on the local machine with a single user, by PLAIN."""
    sasl = SaslConfig(mechanism="PLAIN", username=username, password=Secret(password))
    return _cluster(KafkaConfig(bootstrap=parse_bootstrap(bootstrap), sasl=sasl))


def _cluster(config: KafkaConfig, warnings: tuple[str, ...] = ()) -> Cluster:
    if hosts := config.cleartext_hosts:
        secret = "token" if config.sasl and config.sasl.token else "password"
        why = f"the {secret} goes over the network unencrypted: use security.protocol=SASL_SSL, or SCRAM"
        warned("unencrypted", why=why, hosts=",".join(hosts))
    return Cluster(config=config, admin=ClusterAdmin(shared_router(config)), warnings=warnings)
