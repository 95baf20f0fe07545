"""Failed waits of a task: the task need not wait as long for every further partition of the same leader.

A failed or timed-out connection concerns a broker, and so all partitions that the broker leads. A broker's answer may
concern one partition, one topic or one disk, and counts only for partitions of the same topic.
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
"""Partitions of one task that may end in minutes of waiting for the same leader."""
_NO_ANSWER = (KafkaTimeout, KafkaUnreachable)
_NO_LEADER = -1
_ANY_TOPIC = ""
_HINT = "run the same command again"


class SilentLeaders:
    """Counts failed waits per leader. Partitions without a leader count as partitions of one leader. A success starts
    the count again."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._waits: Counter[tuple[int, str]] = Counter()
        self._store_waits = 0
        self._is_cluster_away = False
        self._last = ""

    def note_result(self, partition: TopicPartition, error: OffsiteError | None) -> None:
        """Record the end of a partition, with `error` or well."""
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
        """Return the error for a partition not worth a try; None where nothing predicts another wait in vain."""
        if self._store_waits >= SILENT_MAX:
            why = f"the store did not answer for {SILENT_MAX} partitions before this one"
            return StoreUnavailable(f"{partition} was not tried: {why}", hint=_HINT)
        if self._waits:
            leader = self._leader(partition)
            if max(self._waits[leader, _ANY_TOPIC], self._waits[leader, partition.topic]) >= SILENT_MAX:
                why = f"{SILENT_MAX} partitions before this one, with the same leader, failed: {self._last}"
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
            return _NO_LEADER - 1  # the partition's own attempt tells the error
        return _NO_LEADER
