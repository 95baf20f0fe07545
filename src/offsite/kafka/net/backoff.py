"""Waiting between attempts: jittered, growing, and bounded in time since the first failure in a row; and less for every
further partition of a leader that a task has waited for in vain.

A failed or timed-out connection concerns a broker, and so all partitions that the broker leads. A broker's answer may
concern one partition, one topic or one disk, and counts only for partitions of the same topic.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from offsite.kafka.net.routing import Router
from offsite.log.range import TopicPartition
from offsite.model.clock import Clock, Wait
from offsite.model.errors import (
    KafkaTimeout,
    KafkaUnavailable,
    KafkaUnreachable,
    LeaderUnavailable,
    OffsiteError,
    StoreFull,
    StoreUnavailable,
)
from offsite.model.journal import decided

T = TypeVar("T")

# A rolling restart of a large cluster leaves a partition without leader for well under 120 s; beyond, a person must
# look.
LEADERLESS_MAX_S = 120.0
# A cluster lists a dead broker until it has given the broker up: 9 s with KRaft, 18 s with ZooKeeper.
DEAD_BROKER_MAX_S = 30.0
# A broker that has just started may not know its topics yet: absence counts only after 5 s.
MISSING_TOPIC_MAX_S = 5.0
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0
_MAX_DOUBLINGS = 6


class Backoff:
    """Allows attempts for `limit_s` after the first failure since construction or the last `reset()`."""

    def __init__(self, clock: Clock, *, limit_s: float = LEADERLESS_MAX_S) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self.reset()

    def reset(self) -> None:
        """Note progress: the next failure is a first failure."""
        self._attempts = 0
        self._deadline_s: float | None = None

    def wait(self, error: OffsiteError) -> None:
        """Sleep before another attempt, or raise `error` when the time is used up. Both write a line into the
        journal."""
        now_s = self._clock.monotonic_s()
        if self._deadline_s is None:
            self._deadline_s = now_s + self._limit_s
        failing_s = now_s - self._deadline_s + self._limit_s
        if now_s >= self._deadline_s:
            decided("gave_up", attempts=self._attempts, failing_s=failing_s, error=error.id, why=error.message)
            raise error
        longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._attempts, _MAX_DOUBLINGS))
        wait_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311  (jitter, not cryptography)
        self._attempts += 1
        decided("retry", attempt=self._attempts, wait_s=wait_s, failing_s=failing_s, error=error.id, why=error.message)
        with Wait(lambda: f"[{error.id}] {error.message}", since_s=now_s - failing_s):
            self._clock.sleep(wait_s)


PASSING = (KafkaUnreachable, KafkaTimeout, LeaderUnavailable)
"""Errors that pass when brokers come back, or partitions have leaders again."""


def through_outage(ask: Callable[[], T], clock: Clock, *, limit_s: float = LEADERLESS_MAX_S) -> T:
    """Repeat `ask` while brokers are down or a leader is missing, for `limit_s` at most. `ask` must be repeatable."""
    backoff = Backoff(clock, limit_s=limit_s)
    while True:
        try:
            return ask()
        except PASSING as error:
            backoff.wait(error)


SILENT_MAX = 2
"""Partitions of one task that may end in minutes of waiting for the same leader."""
_UNANSWERED = (KafkaTimeout, KafkaUnreachable)
_NO_LEADER = -1
_ANY_TOPIC = ""
_SILENT_HINT = "run the same command again"


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
            topic = _ANY_TOPIC if isinstance(error, _UNANSWERED) else partition.topic
            self._waits[self._leader(partition), topic] += 1
            self._last = error.message

    def refusal(self, partition: TopicPartition) -> OffsiteError | None:
        """Return the error for a partition not worth a try; None where nothing predicts another wait in vain."""
        if self._store_waits >= SILENT_MAX:
            why = f"the store did not answer for {SILENT_MAX} partitions before this one"
            return StoreUnavailable(f"{partition} was not tried: {why}", hint=_SILENT_HINT)
        if self._waits:
            leader = self._leader(partition)
            if max(self._waits[leader, _ANY_TOPIC], self._waits[leader, partition.topic]) >= SILENT_MAX:
                why = f"{SILENT_MAX} partitions before this one, with the same leader, failed: {self._last}"
                return LeaderUnavailable(f"{partition} was not tried: {why}", hint=_SILENT_HINT)
        return None

    def _leader(self, partition: TopicPartition) -> int:
        if self._is_cluster_away:
            return _NO_LEADER
        try:
            return self._router.leader(partition).node_id
        except _UNANSWERED:
            self._is_cluster_away = True  # asking costs a wait, too
        except KafkaUnavailable:
            pass
        except OffsiteError:
            return _NO_LEADER - 1  # the partition's own attempt tells the error
        return _NO_LEADER
