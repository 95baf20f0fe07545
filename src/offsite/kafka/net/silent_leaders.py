"""What a task has waited for in vain: it need not wait as long for each partition of the same.

Connections that fail or time out are about a broker, and so about all that it leads. What a broker answers may be about
one partition, one topic or one disk of it: that counts for the partitions of the same topic only.
"""

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
    StoreFull,
    StoreUnavailable,
)

SILENT_MAX = 2
"""Partitions that may each end in minutes of waiting for the same, in one task."""
_NO_ANSWER = (KafkaTimeout, KafkaUnreachable)
_NO_LEADER = -1
_ANY_TOPIC = ""
_HINT = "run the same command again"


class SilentLeaders:
    """Partitions that have no leader count as those of one. Where one ends well, counting begins anew."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._waits: Counter[tuple[int, str]] = Counter()
        self._store_waits = 0
        self._is_cluster_away = False
        self._last = ""

    def note(self, partition: TopicPartition, error: OffsiteError | None) -> None:
        """A partition has ended, with that error or well."""
        if error is None:
            self._store_waits, self._is_cluster_away = 0, False
            if self._waits:
                leader = self._leader(partition)
                for key in ((leader, _ANY_TOPIC), (leader, partition.topic)):
                    self._waits.pop(key, None)
        elif isinstance(error, StoreUnavailable) and not isinstance(error, StoreFull):
            self._store_waits += 1
        elif isinstance(error, KafkaUnavailable):
            topic = _ANY_TOPIC if isinstance(error, _NO_ANSWER) else partition.topic
            self._waits[self._leader(partition), topic] += 1
            self._last = error.message

    def refusal(self, partition: TopicPartition) -> OffsiteError | None:
        """Why that partition is not tried; None where nothing says that it would be waiting in vain once more."""
        if self._store_waits >= SILENT_MAX:
            why = f"the store did not answer for {SILENT_MAX} partitions before it"
            return StoreUnavailable(f"{partition} was not tried: {why}", hint=_HINT)
        if self._waits:
            leader = self._leader(partition)
            if max(self._waits[leader, _ANY_TOPIC], self._waits[leader, partition.topic]) >= SILENT_MAX:
                why = f"{SILENT_MAX} partitions before it, with the same leader, failed: {self._last}"
                return LeaderUnavailable(f"{partition} was not tried: {why}", hint=_HINT)
        return None

    def _leader(self, partition: TopicPartition) -> int:
        if self._is_cluster_away:
            return _NO_LEADER
        try:
            return self._router.leader(partition).node_id
        except _NO_ANSWER:
            self._is_cluster_away = True  # asking costs a wait, too
        except KafkaUnavailable:
            pass
        except OffsiteError:
            return _NO_LEADER - 1  # what it is, the partition's own turn tells
        return _NO_LEADER
