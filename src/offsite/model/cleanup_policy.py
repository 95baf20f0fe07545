"""What a topic's `cleanup.policy` says, as Kafka writes it: `delete`, `compact`, or both with a comma."""

from __future__ import annotations

from collections.abc import Mapping

POLICY = "cleanup.policy"


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether these settings name compaction. Where they leave the policy out, they do not."""
    return "compact" in configs.get(POLICY, "")
