"""What a topic of the target has from its brokers when it has no setting of its own: that can delete, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from offsite.copy.restore.target_settings import KAFKA_BATCH_LIMIT_BYTES, BrokerDefaults
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.untrusted.whole_number import setting_number

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_KAFKA_RETENTION_HOURS = 168


class BrokerConfigs(Protocol):
    """The settings of each broker."""

    def broker_configs(self) -> Sequence[Mapping[str, str]]: ...


def read_broker_defaults(admin: BrokerConfigs) -> BrokerDefaults:
    """The strictest that any broker has; Kafka's own where we may not ask. Reads only."""
    try:
        found = [_defaults(configs) for configs in admin.broker_configs()]
    except KafkaNotAuthorized:
        found = [_defaults({})]
    return BrokerDefaults(
        retention_ms=_strictest([each.retention_ms for each in found]),
        retention_bytes=_strictest([each.retention_bytes for each in found]),
        deletes=any(each.deletes for each in found),
        min_in_sync=max(each.min_in_sync for each in found),
        max_batch_bytes=min(each.max_batch_bytes for each in found),
        replication_factor=max(each.replication_factor for each in found),
    )


def _defaults(configs: Mapping[str, str]) -> BrokerDefaults:
    return BrokerDefaults(
        retention_ms=_retention_ms(configs),
        retention_bytes=setting_number(configs, "log.retention.bytes", -1),
        deletes="delete" in configs.get("log.cleanup.policy", "delete"),
        min_in_sync=setting_number(configs, "min.insync.replicas", 1),
        max_batch_bytes=setting_number(configs, "message.max.bytes", KAFKA_BATCH_LIMIT_BYTES),
        replication_factor=setting_number(configs, "default.replication.factor", 1),
    )


def _retention_ms(configs: Mapping[str, str]) -> int:
    """The finest unit that is set counts, as for brokers themselves."""
    if "log.retention.ms" in configs:
        return setting_number(configs, "log.retention.ms", -1)
    if "log.retention.minutes" in configs:
        return setting_number(configs, "log.retention.minutes", -1) * _MINUTE_MS
    return setting_number(configs, "log.retention.hours", _KAFKA_RETENTION_HOURS) * _HOUR_MS


def _strictest(limits: list[int]) -> int:
    """The smallest; negative means that there is none."""
    return min((each for each in limits if each >= 0), default=-1)
