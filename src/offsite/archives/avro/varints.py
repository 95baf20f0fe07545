"""Avro's numbers by column. Pure.

A column costs two look-ups per number: the low 13 bits come from a table, the rest repeats from number to number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from offsite.log.varint import varint, zigzag

_LOW_BITS = 13  # two bytes of a zigzag varint
_LOW_MASK = (1 << _LOW_BITS) - 1
_MAX_CACHED = 1 << 16


def long_columns(numbers: Sequence[int]) -> tuple[Iterable[bytes], ...]:
    """Return columns whose joined rows are the encoded numbers; at least a number is needed."""
    least, greatest = min(numbers), max(numbers)
    if least <= _LOW_MASK:  # shorter ones, and negative ones
        return (map(zigzag, numbers),)
    low, high = _LOW_BYTES, _HIGH_BYTES
    if least >> _LOW_BITS == greatest >> _LOW_BITS:
        return [low[number & _LOW_MASK] for number in numbers], repeat(high[least >> _LOW_BITS])
    return ([low[number & _LOW_MASK] + high[number >> _LOW_BITS] for number in numbers],)


class NumberTable(dict[int, bytes]):
    """Encoded frequent numbers behind `prefix`; bounded."""

    def __init__(self, prefix: bytes = b"") -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, number: int) -> bytes:
        if len(self) >= _MAX_CACHED:
            self.clear()
        encoded = self[number] = self._prefix + self._encode(number)
        return encoded

    def _encode(self, number: int) -> bytes:
        return zigzag(number)


class _HighBytes(NumberTable):
    """The bits above the low bits, as the end of a zigzag varint."""

    def _encode(self, number: int) -> bytes:
        return varint(number)


LENGTHS = NumberTable()
_LOW_BYTES = [bytes((low * 2 & 0x7F | 0x80, low >> 6 | 0x80)) for low in range(_LOW_MASK + 1)]
_HIGH_BYTES = _HighBytes()
