"""Ids: their length and alphabet are part of the format on disk, and all of their digits are drawn."""

from __future__ import annotations

import re

import pytest

from offsite.model.ids import dated_id, random_id

DRAWS = 64


@pytest.mark.parametrize("digits", [8, 16])
def test_an_id_has_as_many_hexadecimal_digits_as_asked_for(digits: int) -> None:
    assert re.fullmatch(f"[0-9a-f]{{{digits}}}", random_id(digits))


def test_every_digit_of_a_long_id_is_random() -> None:
    drawn = [random_id(16) for _ in range(DRAWS)]
    assert len(set(drawn)) == DRAWS
    assert all(each[:8] != each[8:] for each in drawn)


def test_a_dated_id_sorts_by_its_time() -> None:
    assert dated_id(1_795_183_200_000, "0123abcd") == "20261120-140000-0123abcd"
    assert re.fullmatch(r"20261120-140000-[0-9a-f]{8}", dated_id(1_795_183_200_999))
