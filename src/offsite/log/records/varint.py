"""Zigzag varints read out of a buffer, for those who decode column by column or record by record in Python.

Kafka's records and Avro's blocks share them. aiokafka's Cython reads them three times as fast as Python; it takes 0.3 s
to import, so only those who decode pay for it.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["PADDING", "VarintReader", "varint_reader"]

PADDING = bytes(32)
"""What must follow the last byte that is read: the reader stops at its zeros, it does not see where a buffer ends."""

VarintReader = Callable[[bytes, int], tuple[int, int]]
"""The number at a position, and the position behind it. Raises `ValueError` for more than 64 bits."""


def varint_reader() -> VarintReader:
    """Reads without looking at the buffer's end: callers put `PADDING` behind it, and check every position that came
    out of the data itself before they read there."""
    from aiokafka.record.util import decode_varint  # type: ignore[import-untyped]

    return decode_varint  # type: ignore[no-any-return]
