"""A reused buffer for responses, so that the hot path allocates nothing.

The size announced by a broker is believed up to `_FIRST_BYTES`, so usual answers are received at once. Beyond, room is
made for the bytes received so far, and as much again.
"""

from __future__ import annotations

from offsite.model.size import MIB

# The largest response taken: a record is at most 2 GiB by format, but brokers cap records by message.max.bytes, and a
# larger response would not fit a worker's memory several times over.
MAX_RESPONSE_BYTES = 512 * MIB

_FIRST_BYTES = 32 * MIB


class ReceiveBuffer:
    """Grows as responses arrive, and never shrinks. Use one buffer per reader."""

    __slots__ = ("_view",)

    def __init__(self, size_bytes: int = 0) -> None:
        self._view = memoryview(bytearray(size_bytes))

    def room(self, arrived_bytes: int, size_bytes: int) -> memoryview:
        """Return the view for the next bytes of a response of `size_bytes`, of which `arrived_bytes` have arrived. The
        view is shorter than the rest while the buffer has no room yet. Earlier views are no longer valid."""
        if len(self._view) < size_bytes and len(self._view) <= arrived_bytes:
            larger = memoryview(bytearray(min(size_bytes, max(2 * arrived_bytes, _FIRST_BYTES))))
            larger[:arrived_bytes] = self._view[:arrived_bytes]
            self._view = larger
        return self._view[arrived_bytes:size_bytes]

    def taken(self, size_bytes: int) -> memoryview:
        """A writable view of the response. All `size_bytes` must have arrived."""
        return self._view[:size_bytes]
