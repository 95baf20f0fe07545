"""The leaders that a task has waited for in vain: it need not wait as long for each of their partitions."""

from __future__ import annotations

from collections import Counter

from offsite.kafka.net.routing import Router
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    KafkaTimeout,
    KafkaUnavailable,
    KafkaUnreachable,
    LeaderUnavailable,
    OffsiteError,
    StoreUnavailable,
)

SILENT_MAX = 2
"""Partitions of one leader that may each end in minutes of waiting, in one task."""
_SILENCE = (KafkaTimeout, KafkaUnreachable, LeaderUnavailable)
_NO_LEADER = -1
_HINT = "run the same command again"


class SilentLeaders:
    """Partitions that have no leader count as those of one. A leader that has answered for one is no silent one: what
    it does not answer for may be about single partitions."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._waits: Counter[int] = Counter()
        self._store_waits = 0
        self._is_cluster_away = False

    def note(self, partition: TopicPartition, error: OffsiteError | None) -> None:
        """A partition has ended, with that error or well."""
        if error is None:
            self._store_waits, self._is_cluster_away = 0, False
            if self._waits:
                self._waits.pop(self._leader(partition), None)
        elif isinstance(error, StoreUnavailable):
            self._store_waits += 1
        elif isinstance(error, _SILENCE):
            self._waits[self._leader(partition)] += 1

    def refusal(self, partition: TopicPartition) -> OffsiteError | None:
        """Why that partition is not tried; None where nothing says that it would be waiting in vain once more."""
        beside = f"for {SILENT_MAX} partitions before it"
        if self._store_waits >= SILENT_MAX:
            return StoreUnavailable(f"{partition} was not tried: the store did not answer {beside}", hint=_HINT)
        if self._waits and self._waits[self._leader(partition)] >= SILENT_MAX:
            return LeaderUnavailable(f"{partition} was not tried: its leader did not answer {beside}", hint=_HINT)
        return None

    def _leader(self, partition: TopicPartition) -> int:
        if self._is_cluster_away:
            return _NO_LEADER
        try:
            return self._router.leader(partition).node_id
        except (KafkaTimeout, KafkaUnreachable):
            self._is_cluster_away = True  # asking costs a wait, too
        except KafkaUnavailable:
            pass
        except OffsiteError:
            return _NO_LEADER - 1  # what it is, the partition's own turn tells
        return _NO_LEADER
