"""Input and output of a reader: the range, the speed (asked before every fetch, and told the size of every answer), and
the bytes that the next fetch asks for: many in the middle of a range, no more than needed at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from offsite.kafka.net.broker_socket import MAX_RESPONSE_BYTES
from offsite.log.range import Chunk, Gap, Hole, LogRange
from offsite.model.units import KIB, MIB

Item = Chunk | Hole | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A range to read. `topic_id`: the expected incarnation. `planned_epoch`: the leader epoch in which the range's end
    was told, -1 where unknown. `was_compacted`: the topic's settings once named compaction. `owns_start`: the range
    includes the batch in which the log starts, even a batch that begins before the range. `reach_back`: the range
    includes any batch that reaches into the range."""

    range: LogRange
    topic_id: UUID | None = None
    planned_epoch: int = -1
    was_compacted: bool = False
    owns_start: bool = True
    reach_back: bool = False


FIRST_FETCH_BYTES = 1 * MIB  # record sizes are unknown yet: a small range must not fetch the next range
FETCH_BYTES = 8 * MIB  # measured: less costs round trips, more costs cache misses and memory
LEAST_FETCH_BYTES = 16 * KIB  # under a quota: brokers before 2.6 return nothing when an answer would exceed the quota
_SLACK_BYTES = 64 * KIB
_SLACK_FACTOR = 1.05


class FetchSize:
    """Learns the bytes per offset from every answer. Use one instance per range."""

    def __init__(self) -> None:
        self._bytes_per_offset = 0.0
        self._floor_bytes = 0
        self._ceiling_bytes = FETCH_BYTES
        self._batch_bytes = 0

    def ask_bytes(self, remaining_offsets: int, *, most: int = FETCH_BYTES) -> int:
        """Bytes to ask for; more than `most` only where a batch needs more."""
        size_bytes = min(self._wanted_bytes(remaining_offsets), self._ceiling_bytes, self._whole_batches(most))
        return max(size_bytes, self._floor_bytes)

    def _wanted_bytes(self, remaining_offsets: int) -> int:
        if not self._bytes_per_offset:
            return FIRST_FETCH_BYTES
        needed = int(remaining_offsets * self._bytes_per_offset * _SLACK_FACTOR) + _SLACK_BYTES
        return min(FETCH_BYTES, needed)

    def learn(self, offsets: int, size_bytes: int) -> None:
        if offsets:
            self._bytes_per_offset = size_bytes / offsets
            self._floor_bytes = 0

    def learn_batches(self, largest_bytes: int) -> None:
        """Record the size of the largest batch of an answer: small fetches should end with a batch."""
        self._batch_bytes = largest_bytes

    def grow(self) -> bool:
        """Double the size after a batch that did not fit. False when the limit is reached."""
        if self._floor_bytes >= MAX_RESPONSE_BYTES:
            return False
        self._floor_bytes = min(2 * max(self._floor_bytes, FETCH_BYTES), MAX_RESPONSE_BYTES)
        return True

    def shrink(self) -> None:
        """Halve the size for all later fetches, after a quota let nothing through."""
        self._ceiling_bytes = max(LEAST_FETCH_BYTES, self._ceiling_bytes // 2)

    def _whole_batches(self, most: int) -> int:
        """Round `most` down to whole batches: a torn batch at the end of an answer is sent, and paid for, again. For a
        batch that does not fit, the broker sends the whole batch and nothing behind."""
        return most if most >= FETCH_BYTES or most < self._batch_bytes else most - most % max(1, self._batch_bytes)


class FetchPace(Protocol):
    @property
    def portion_bytes(self) -> int:
        """The most bytes that a fetch should ask for. A larger batch needs more."""

    def before_fetch(self, size_bytes: int) -> None:
        """Wait until a fetch of `size_bytes` may be sent."""

    def after_fetch(self, size_bytes: int) -> None:
        """Record the size of the answer, which may exceed the fetch by a batch."""


class Unlimited:
    """No limit: fetch `portion_bytes` at a time."""

    def __init__(self, portion_bytes: int = FETCH_BYTES) -> None:
        self.portion_bytes = portion_bytes

    def before_fetch(self, size_bytes: int) -> None: ...

    def after_fetch(self, size_bytes: int) -> None: ...


UNLIMITED = Unlimited()
