"""How long records stay by a topic's settings: `cleanup.policy` (`delete`, `compact`, or both with a comma),
`retention.ms`, `retention.bytes` and `delete.retention.ms`, as Kafka writes them; and the resulting limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from offsite.model.bounds import whole_number

POLICY = "cleanup.policy"
RETENTION_SETTINGS = frozenset({POLICY, "retention.ms", "retention.bytes"})
UNLIMITED = -1
"""Kafka's value for a retention without limit."""


KAFKA_RETENTION_MS = 7 * 24 * 3_600_000
"""Kafka's own default of `log.retention.hours`."""


DELETE_RETENTION = "delete.retention.ms"
"""How long the tombstone of a key stays after the cleaner first passed it."""
KAFKA_DELETE_RETENTION_MS = 24 * 3_600_000
"""Kafka's own default of `log.cleaner.delete.retention.ms`."""


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether the settings name compaction. False for a missing policy."""
    return "compact" in configs.get(POLICY, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rules by which a topic's records are deleted. Sizes in bytes; `UNLIMITED` for no limit, None for an unknown
    setting."""

    cleanup_policy: str
    retention_ms: int | None
    retention_bytes: int | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Retention:
        """Return the rules in a topic's settings, as told by `DescribeConfigs`. Kafka deletes where no policy is
        given."""
        return cls(
            cleanup_policy=configs.get(POLICY, "delete"),
            retention_ms=_setting(configs, "retention.ms"),
            retention_bytes=_setting(configs, "retention.bytes"),
        )

    @property
    def deletes(self) -> bool:
        """Whether age or size delete records: not in a topic with compaction alone."""
        return "delete" in [part.strip() for part in self.cleanup_policy.split(",")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLimits:
    """How long the records of a topic stay, and how many bytes of every partition; `UNLIMITED`: without limit."""

    keep_ms: int = UNLIMITED
    keep_bytes: int = UNLIMITED

    @classmethod
    def of(cls, retention: Retention, *, default_ms: int = UNLIMITED) -> Self:
        """Return the limits of a topic's rules; `default_ms` applies where the rules lack a time."""
        if not retention.deletes:
            return cls()
        return cls(
            keep_ms=default_ms if retention.retention_ms is None else retention.retention_ms,
            keep_bytes=UNLIMITED if retention.retention_bytes is None else retention.retention_bytes,
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is ever deleted by the limits."""
        return self.keep_ms == UNLIMITED and self.keep_bytes == UNLIMITED

    def longer_of_both(self, other: KeepLimits) -> KeepLimits:
        """Return the longer time and the larger size of both."""
        return KeepLimits(
            keep_ms=_longer(self.keep_ms, other.keep_ms), keep_bytes=_longer(self.keep_bytes, other.keep_bytes)
        )


NO_LIMITS = KeepLimits()


def _longer(first: int, second: int) -> int:
    return UNLIMITED if UNLIMITED in {first, second} else max(first, second)


def _setting(configs: Mapping[str, str], name: str) -> int | None:
    text = configs.get(name, "")
    return UNLIMITED if text.startswith("-") else whole_number(text)
