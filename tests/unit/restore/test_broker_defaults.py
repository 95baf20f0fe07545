"""The one place that knows how brokers spell their retention. The cluster here is a list of their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from offsite.kafka.settings import SettingsClient
from offsite.model.errors import KafkaNotAuthorized
from offsite.restore.preflight import BrokerDefaults, read_broker_defaults

HOUR_MS = 3_600_000


class Brokers:
    def __init__(self, *configs: Mapping[str, str]) -> None:
        self._configs = configs

    def broker_configs(self) -> Sequence[Mapping[str, str]]:
        if not self._configs:
            raise KafkaNotAuthorized("CLUSTER_AUTHORIZATION_FAILED")
        return self._configs


def defaults(*configs: Mapping[str, str]) -> BrokerDefaults:
    return read_broker_defaults(cast("SettingsClient", Brokers(*configs)))


@pytest.mark.parametrize(
    ("configs", "retention_ms"),
    [
        ({"log.retention.ms": "5", "log.retention.minutes": "1", "log.retention.hours": "2"}, 5),
        ({"log.retention.minutes": "1", "log.retention.hours": "2"}, 60_000),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.ms": "-1", "log.retention.hours": "168"}, -1),
    ],
)
def test_the_finest_unit_counts(configs: dict[str, str], retention_ms: int) -> None:
    assert defaults(configs).retention_ms == retention_ms


def test_of_several_brokers_the_strictest_counts() -> None:
    lax = {"log.retention.ms": "-1", "log.retention.bytes": "-1", "log.cleanup.policy": "compact"}
    strict = {
        "log.retention.ms": "9",
        "log.retention.bytes": "8",
        "min.insync.replicas": "2",
        "message.max.bytes": "7",
    }
    assert defaults(lax, strict) == BrokerDefaults(
        retention_ms=9, retention_bytes=8, deletes=True, min_in_sync=2, max_batch_bytes=7
    )
    assert defaults(lax) == BrokerDefaults(retention_ms=-1, retention_bytes=-1, deletes=False, min_in_sync=1)


def test_who_may_not_ask_expects_what_kafka_comes_with() -> None:
    assert defaults() == BrokerDefaults(retention_ms=168 * HOUR_MS)


def test_what_is_no_number_counts_as_not_set() -> None:
    odd = defaults({"log.retention.hours": "many", "min.insync.replicas": "9" * 5000, "log.retention.bytes": ""})
    assert odd == defaults({})
