"""A buffer that responses are received into, again and again, so that the hot path allocates nothing."""

from __future__ import annotations

from offsite.model.errors import KafkaProtocolError
from offsite.model.size import MIB

# The largest response taken: a record is at most 2 GiB by format, but brokers cap it by message.max.bytes, and one
# beyond this would not fit a worker's memory several times over.
MAX_RESPONSE_BYTES = 512 * MIB


class ReceiveBuffer:
    """Grows when a response needs it, up to `MAX_RESPONSE_BYTES`, and never shrinks: give one to each reader."""

    __slots__ = ("_view",)

    def __init__(self, size_bytes: int = 0) -> None:
        self._view = memoryview(bytearray(size_bytes))

    def reserve(self, size_bytes: int) -> memoryview:
        """A writable view of exactly that size; the one given before is no longer valid."""
        if size_bytes > MAX_RESPONSE_BYTES:
            raise KafkaProtocolError(f"a response of {size_bytes} bytes is above the limit of {MAX_RESPONSE_BYTES}")
        if size_bytes > len(self._view):
            self._view = memoryview(bytearray(size_bytes))
        return self._view[:size_bytes]
