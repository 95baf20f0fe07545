"""What a topic's settings say of how long its records stay: `cleanup.policy` (`delete`, `compact`, or both with a
comma), `retention.ms` and `retention.bytes`, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.untrusted.whole_number import whole_number

POLICY = "cleanup.policy"
UNLIMITED = -1
"""Kafka's word for a retention without limit."""


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether these settings name compaction. Where they leave the policy out, they do not."""
    return "compact" in configs.get(POLICY, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rules by which a topic's records are deleted. Sizes in bytes; `UNLIMITED` for no limit, None where the
    setting is not known."""

    cleanup_policy: str
    retention_ms: int | None
    retention_bytes: int | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Retention:
        """The rules in a topic's settings, as `DescribeConfigs` tells them. Kafka deletes where no policy is told."""
        return cls(
            cleanup_policy=configs.get(POLICY, "delete"),
            retention_ms=_setting(configs, "retention.ms"),
            retention_bytes=_setting(configs, "retention.bytes"),
        )

    @property
    def deletes(self) -> bool:
        """Whether age or size make records go: of a topic that is only compacted they do not."""
        return "delete" in [part.strip() for part in self.cleanup_policy.split(",")]


def _setting(configs: Mapping[str, str], name: str) -> int | None:
    text = configs.get(name, "")
    return UNLIMITED if text.startswith("-") else whole_number(text)
