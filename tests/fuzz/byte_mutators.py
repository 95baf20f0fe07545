"""Changes of bytes that know nothing of their meaning: what disks, networks and wrong programs do to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from struct import pack

Mutate = Callable[[bytes, Random], bytes]

_WIDTHS = {1: "b", 2: "h", 4: "i", 8: "q"}
_LONG_VARINTS = (b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\xff" * 5, b"\x80" * 12 + b"\x01", b"\x01", b"\x00")


def _numbers() -> list[bytes]:
    found = list(_LONG_VARINTS)
    for width, code in _WIDTHS.items():
        highest = (1 << (8 * width - 1)) - 1
        for value in (0, 1, -1, highest, -highest - 1, highest // 2, highest - 1):
            found += (pack(f">{code}", value), pack(f"<{code}", value))
    return found


NUMBERS = _numbers()
"""Integers at the borders of their types, in every width and order of bytes."""


def flip_bit(data: bytes, rng: Random) -> bytes:
    at, changed = rng.randrange(len(data)), bytearray(data)
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_byte(data: bytes, rng: Random) -> bytes:
    at, changed = rng.randrange(len(data)), bytearray(data)
    changed[at] = rng.randrange(256)
    return bytes(changed)


def cut_end(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def remove_slice(data: bytes, rng: Random) -> bytes:
    start, end = _slice(data, rng)
    return data[:start] + data[end:]


def repeat_slice(data: bytes, rng: Random) -> bytes:
    start, end = _slice(data, rng)
    times = rng.choice((1, 1, 2, 300))
    return data[:end] + data[start:end] * min(times, 200_000 // max(1, end - start) + 1) + data[end:]


def swap_slices(data: bytes, rng: Random) -> bytes:
    first, second, third, fourth = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:first] + data[third:fourth] + data[second:third] + data[first:second] + data[fourth:]


def put_number(data: bytes, rng: Random) -> bytes:
    """Over what is there, as a field of fixed width."""
    number = rng.choice(NUMBERS)
    at = rng.randrange(max(1, len(data) - len(number) + 1))
    return data[:at] + number + data[at + len(number) :]


def insert_number(data: bytes, rng: Random) -> bytes:
    """In place of one byte, as a varint."""
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(NUMBERS) + data[at + 1 :]


def run_of_bytes(data: bytes, rng: Random) -> bytes:
    start, end = _slice(data, rng)
    return data[:start] + rng.choice((b"\0", b"\xff", b"\x80", b"[")) * (end - start) + data[end:]


def splice_with(donors: Sequence[bytes]) -> Mutate:
    """The beginning of one and the end of another, or a piece of it in the middle."""

    def splice(data: bytes, rng: Random) -> bytes:
        donor = rng.choice(donors) if donors else data
        if rng.random() < 0.5 or not donor:
            return data[: rng.randrange(len(data) + 1)] + donor[rng.randrange(len(donor) + 1) :]
        start, end = _slice(donor, rng)
        at = rng.randrange(len(data) + 1)
        return data[:at] + donor[start:end] + data[min(len(data), at + rng.choice((0, end - start))) :]

    return splice


BYTE_MUTATORS: tuple[Mutate, ...] = (
    flip_bit,
    flip_bit,
    set_byte,
    cut_end,
    remove_slice,
    repeat_slice,
    swap_slices,
    put_number,
    put_number,
    insert_number,
    run_of_bytes,
)


def _slice(data: bytes, rng: Random) -> tuple[int, int]:
    """Short ones are more likely: they leave more for parsers to believe in."""
    start = rng.randrange(len(data) + 1)
    longest = rng.choice((1, 2, 4, 8, 16, 64, len(data)))
    return start, min(len(data), start + rng.randint(0, longest))
