"""Until when a participant of form B may produce: a fraction of what it promised, counted from what it knows.

Whoever takes a checkpoint waits for a silent participant for the whole lease, from when it *read* the last beat. The
participant counts from when it *sent* that beat, which was earlier, and stops at the half; a record that it handed to
its client just then has a quarter to arrive. The last quarter is for clocks that run at different speeds. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

DEFAULT_LEASE_MS = 10_000


def delivery_timeout_ms(lease_ms: int) -> int:
    """After this the producer's client gives a record up."""
    return lease_ms // 4


def beat_every_ms(lease_ms: int) -> int:
    return lease_ms // 3


def read_every_ms(lease_ms: int) -> int:
    """How often to look whether a checkpoint was opened."""
    return lease_ms // 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`confirmed_ms`: when the newest sign of life that was acknowledged was sent, by a clock that never goes back."""

    lease_ms: int
    confirmed_ms: int

    def holds(self, now_ms: int) -> bool:
        """Whether a record may be produced at `now_ms`."""
        return now_ms - self.confirmed_ms <= self.lease_ms // 2

    def is_due(self, now_ms: int) -> bool:
        """Whether to beat at `now_ms`."""
        return now_ms - self.confirmed_ms >= beat_every_ms(self.lease_ms)

    def confirmed(self, sent_ms: int) -> Lease:
        """After a sign that was sent at `sent_ms` was acknowledged."""
        return replace(self, confirmed_ms=max(self.confirmed_ms, sent_ms))
