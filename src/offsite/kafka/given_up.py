"""Partitions that a process has just waited for in vain: its next ranges of them need not each wait as long."""

from __future__ import annotations

from offsite.log.range import TopicPartition

GIVEN_UP_FOR_S = 60.0
"""How long that is remembered. The ranges of one run follow each other sooner; a later run is to be patient again."""


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
