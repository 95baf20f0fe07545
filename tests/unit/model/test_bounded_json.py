from __future__ import annotations

import pytest

from offsite.model.untrusted.bounded_json import ANY_NUMBER, STRICT, BadJson, check_json_size, decode_json, parse_json


@pytest.mark.parametrize(
    ("data", "problem", "position"),
    [
        (b"", "not JSON: Expecting value", 0),
        ('{"ä": 1,}'.encode(), "not JSON", 9),
        (b'{"a": \xff}', "not UTF-8", 6),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON", 0),
        (b"[" * 100_000, "nests too deep", 0),
        (b"1" * 10_000, "not JSON: Exceeds the limit", 0),
    ],
)
@pytest.mark.parametrize("decoder", [STRICT, ANY_NUMBER])
def test_whatever_is_wrong_is_one_error(data: bytes, problem: str, position: int, decoder: object) -> None:
    with pytest.raises(BadJson, match=problem) as raised:
        decode_json(data, decoder=decoder)  # type: ignore[arg-type]
    assert raised.value.position == position


def test_a_text_has_positions_in_bytes_too() -> None:
    with pytest.raises(BadJson) as raised:
        decode_json('["ä\udc80",]')
    assert raised.value.position == len('["ä'.encode()) + 3 + len('",')


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_are_none_are_read_where_others_write_them(number: bytes) -> None:
    assert isinstance(parse_json(number), float)
    with pytest.raises(BadJson, match="is not a number"):
        parse_json(number, decoder=STRICT)


def test_halves_of_characters_are_left_to_the_caller() -> None:
    assert parse_json(rb'"\ud800"', decoder=STRICT) == "\ud800"


def test_what_is_too_long_is_not_parsed() -> None:
    assert parse_json(b"[1]", max_bytes=3) == [1]
    with pytest.raises(BadJson, match="JSON of 4 bytes, at most 3 are read"):
        parse_json(b"[1] ", max_bytes=3)


def test_what_stands_outside_of_text_counts() -> None:
    text = b'["%s","\\"%s"]' % (b"[]," * 100, b"[]," * 100)
    check_json_size(text, small_bytes=0, max_outside=10)
    for bad in (b"[" + b"[]," * 4 + b"[]]", text + b" " * 20):
        with pytest.raises(BadJson, match="more than 10 bytes outside of text"):
            check_json_size(bad, small_bytes=0, max_outside=10)
