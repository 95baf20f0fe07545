"""Numbers of Kafka's records and of Avro: what is written is read back, and small numbers are short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.varint import PADDING, varint, varint_reader, zigzag


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_is_written_is_read_back(number: int) -> None:
    data = zigzag(number)
    assert varint_reader()(b"." + data + PADDING, 1) == (number, 1 + len(data))


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, b"\x00"), (-1, b"\x01"), (1, b"\x02"), (63, b"\x7e"), (64, b"\x80\x01"), (-65, b"\x81\x01")],
)
def test_small_numbers_are_short_also_below_zero(number: int, data: bytes) -> None:
    assert zigzag(number) == data


def test_a_number_that_is_never_below_zero_needs_no_bit_for_its_sign() -> None:
    assert [varint(number) for number in (0, 127, 128, 300)] == [b"\x00", b"\x7f", b"\x80\x01", b"\xac\x02"]
