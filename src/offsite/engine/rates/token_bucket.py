"""A rate of bytes as a token bucket, and the portion of one user. Pure: the caller brings the time.

Every byte is paid before it is moved. A user that takes bytes learns at once how long to wait, and waits on its own: no
user queues behind another, and a user that dies while waiting loses the bytes and delays nobody.
"""

from __future__ import annotations

from offsite.model.size import KIB

BURST_S = 0.25
"""Savings of an idle bucket: enough for a late wake-up, a fortieth of the bytes of ten seconds."""

PORTION_S = 0.1
"""A user's share of the rate at a time: ten questions a second cost nothing."""

OUTSTANDING_S = 0.5
"""Bytes that all users may hold together: as many may come at once after brokers stood still for all of them."""

LEAST_PORTION_BYTES = 16 * KIB
"""Smaller portions cost more in requests than they save in evenness."""


class TokenBucket:
    """Lets `bytes_per_s` through, from `now_s` on. Empty at first."""

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._paid_until_s = now_s

    def take(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes`. Returns the seconds from `now_s` until the bytes are paid for."""
        begins_s = max(self._paid_until_s, now_s - BURST_S)
        self._paid_until_s = begins_s + size_bytes / self._bytes_per_s
        return max(0.0, self._paid_until_s - now_s)

    def portion_bytes(self, users: int) -> int:
        """Return the bytes that every one of `users` should take at once."""
        return max(LEAST_PORTION_BYTES, int(self._bytes_per_s * min(PORTION_S, OUTSTANDING_S / max(1, users))))
