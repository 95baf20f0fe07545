"""Zigzag varints read from a buffer, for decoding column by column or record by record in Python.

Kafka's records and Avro's blocks share the format. aiokafka's Cython function is three times as fast as Python, and
takes 0.3 s to import: only decoding pays.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["PADDING", "VarintReader", "varint_reader"]

PADDING = bytes(32)
"""Must follow the last byte to read: the reader stops at the zeros, and does not see the end of a buffer."""

VarintReader = Callable[[bytes, int], tuple[int, int]]
"""The number at a position, and the position behind the number. Raises `ValueError` for more than 64 bits."""


def varint_reader() -> VarintReader:
    """A reader without a check of the buffer's end. Callers append `PADDING`, and check every position from the data
    before a read."""
    from aiokafka.record.util import decode_varint  # type: ignore[import-untyped]

    return decode_varint  # type: ignore[no-any-return]
