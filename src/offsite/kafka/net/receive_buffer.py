"""A buffer that responses are received into, again and again, so that the hot path allocates nothing.

What a broker says of the size of its answer is believed up to `_FIRST_BYTES`, so that usual answers are received at
once; beyond that room is made for what has arrived, and as much again.
"""

from __future__ import annotations

from offsite.model.size import MIB

# The largest response taken: a record is at most 2 GiB by format, but brokers cap it by message.max.bytes, and one
# beyond this would not fit a worker's memory several times over.
MAX_RESPONSE_BYTES = 512 * MIB

_FIRST_BYTES = 32 * MIB


class ReceiveBuffer:
    """Grows as responses arrive, and never shrinks: give one to each reader."""

    __slots__ = ("_view",)

    def __init__(self, size_bytes: int = 0) -> None:
        self._view = memoryview(bytearray(size_bytes))

    def room(self, arrived_bytes: int, size_bytes: int) -> memoryview:
        """Where the next bytes go of a response of `size_bytes`, of which some have arrived: not all of them at once,
        where there is no room yet. Views given before are no longer valid."""
        if len(self._view) < size_bytes and len(self._view) <= arrived_bytes:
            larger = memoryview(bytearray(min(size_bytes, max(2 * arrived_bytes, _FIRST_BYTES))))
            larger[:arrived_bytes] = self._view[:arrived_bytes]
            self._view = larger
        return self._view[arrived_bytes:size_bytes]

    def taken(self, size_bytes: int) -> memoryview:
        """A writable view of the response, all of which has arrived."""
        return self._view[:size_bytes]
