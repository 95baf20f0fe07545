"""Until when a participant of form B may produce: a fraction of the promised lease, counted from the participant's own
knowledge.

A taker of a checkpoint waits for a silent participant for the whole lease, from when the taker *read* the last beat.
The participant counts from when the beat was *sent*, which was earlier, and stops after half of the lease. A record
handed to the client at the last moment has a quarter to arrive. The last quarter covers clocks of different speeds.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

DEFAULT_LEASE_MS = 10_000


def delivery_timeout_ms(lease_ms: int) -> int:
    """After this time the producer's client gives a record up."""
    return lease_ms // 4


def beat_every_ms(lease_ms: int) -> int:
    return lease_ms // 3


def read_every_ms(lease_ms: int) -> int:
    """How often to look for an opened checkpoint."""
    return lease_ms // 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`confirmed_ms`: when the newest acknowledged sign of life was sent, by a clock that never goes back."""

    lease_ms: int
    confirmed_ms: int

    def holds(self, now_ms: int) -> bool:
        """Whether a record may be produced at `now_ms`."""
        return now_ms - self.confirmed_ms <= self.lease_ms // 2

    def is_due(self, now_ms: int) -> bool:
        """Whether to beat at `now_ms`."""
        return now_ms - self.confirmed_ms >= beat_every_ms(self.lease_ms)

    def confirmed(self, sent_ms: int) -> Lease:
        """The lease after a sign of life sent at `sent_ms` was acknowledged."""
        return replace(self, confirmed_ms=max(self.confirmed_ms, sent_ms))
