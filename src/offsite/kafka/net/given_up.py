"""Partitions that a process has just waited for in vain: its next ranges of them need not each wait as long."""

from __future__ import annotations

from offsite.kafka.evidence import THROTTLED_MAX_S
from offsite.log.range import TopicPartition

GIVEN_UP_FOR_S = 2 * THROTTLED_MAX_S
"""How long that is remembered: longer than any other partition of the same run may be waited for, not for ever."""


class GivenUp:
    """Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._since_s: dict[TopicPartition, float] = {}

    def add(self, key: TopicPartition, now_s: float) -> None:
        self._since_s[key] = now_s

    def discard(self, key: TopicPartition) -> None:
        """It was heard of again."""
        self._since_s.pop(key, None)

    def holds(self, key: TopicPartition, now_s: float) -> bool:
        return now_s - self._since_s.get(key, -GIVEN_UP_FOR_S) < GIVEN_UP_FOR_S
