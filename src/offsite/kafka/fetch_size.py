"""How many bytes the next fetch should ask for: large in the middle of a range, no more than needed at its end."""

from __future__ import annotations

from offsite.kafka.receive_buffer import MAX_RESPONSE_BYTES
from offsite.model.size import KIB, MIB

FIRST_FETCH_BYTES = 1 * MIB  # nothing is known of the records yet: a small range must not drag in its successor
FETCH_BYTES = 8 * MIB  # measured: less costs round trips, more costs cache misses and memory
_SLACK_BYTES = 64 * KIB
_SLACK_FACTOR = 1.05


class FetchSize:
    """Learns the bytes per offset from each answer. One for each range."""

    def __init__(self) -> None:
        self._bytes_per_offset = 0.0
        self._floor_bytes = 0

    def ask_bytes(self, remaining_offsets: int) -> int:
        if not self._bytes_per_offset:
            return max(FIRST_FETCH_BYTES, self._floor_bytes)
        needed = int(remaining_offsets * self._bytes_per_offset * _SLACK_FACTOR) + _SLACK_BYTES
        return max(min(FETCH_BYTES, needed), self._floor_bytes)

    def learn(self, offsets: int, size_bytes: int) -> None:
        if offsets:
            self._bytes_per_offset = size_bytes / offsets

    def grow(self) -> bool:
        """A batch did not fit: ask for twice as much from now on. False when the limit is reached."""
        self._floor_bytes = 2 * max(self._floor_bytes, FETCH_BYTES)
        return self._floor_bytes <= MAX_RESPONSE_BYTES
