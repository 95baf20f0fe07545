"""A rate of bytes as a token bucket, and what of it one user may hold at a time. Pure: who asks brings the time.

Every byte is paid before it is moved. Who takes bytes is told at once how long to wait until they are paid for, and
waits on its own: nobody stands in a queue, and one that dies while it waits loses what it took and holds nobody up.
"""

from __future__ import annotations

from offsite.model.size import KIB

BURST_S = 0.25
"""What an idle bucket saves up: enough to make good a late wake-up, a fortieth of what ten seconds let through."""

PORTION_S = 0.1
"""One user's share of the rate at a time: ten questions a second cost nothing."""

OUTSTANDING_S = 0.5
"""What all users may hold together: so much may come at once when brokers stood still for all of them."""

LEAST_PORTION_BYTES = 16 * KIB
"""Smaller portions cost more in requests than they save in evenness."""


class TokenBucket:
    """Lets `bytes_per_s` through, from `now_s` on. Empty at first."""

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._paid_until_s = now_s

    def take(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes`; seconds from `now_s` until they are paid for."""
        begins_s = max(self._paid_until_s, now_s - BURST_S)
        self._paid_until_s = begins_s + size_bytes / self._bytes_per_s
        return max(0.0, self._paid_until_s - now_s)

    def portion_bytes(self, users: int) -> int:
        """Bytes that each of so many users should take at once."""
        return max(LEAST_PORTION_BYTES, int(self._bytes_per_s * min(PORTION_S, OUTSTANDING_S / max(1, users))))
