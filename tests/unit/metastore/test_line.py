from __future__ import annotations

import json

import pytest
from hypothesis import given

from offsite.metastore.stored_command import cut_at_first_colon, line_of, parse_line
from tests.unit.metastore.commands import parts

KEY, VALUE = b'"stream/`TEST1`/create"', b'{"statement":"CREATE STREAM TEST1;"}'


def test_a_command_is_a_line_of_its_very_bytes() -> None:
    line = line_of(KEY, VALUE)
    assert line == (KEY + b":" + VALUE, True)
    assert cut_at_first_colon(line.text) == parse_line(line.text) == (KEY, VALUE)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b'"stream/`a:b`/create"', b"{}", rb'"stream/`a\u003ab`/create":{}'),
        (KEY, b'{\n "a": 1\r\n}', KEY + b':{  "a": 1  }'),
        (b'\n"a"', b"{}", b' "a":{}'),
    ],
)
def test_what_would_be_cut_or_broken_is_the_same_json_in_other_bytes(key: bytes, value: bytes, text: bytes) -> None:
    line = line_of(key, value)
    assert line == (text, False)
    read = cut_at_first_colon(text)
    assert read is not None
    assert [json.loads(each) for each in read] == [json.loads(each) for each in (key, value)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, None), (None, VALUE), (KEY, b""), (b"", VALUE), (b"\xff", VALUE), (KEY, b"\xc3"), (KEY, b"a\nb"),
        (KEY, b'"a\nb"'), (b"a:b", VALUE), (b'{"a":1}', VALUE), (KEY, b"[" * 100_000 + b"\n"),
    ],
)  # fmt: skip
def test_what_has_no_such_json_has_no_line(key: bytes | None, value: bytes | None) -> None:
    assert line_of(key, value) is None


def test_a_line_of_ksqldb_with_a_colon_in_its_key_is_read_as_it_was_meant() -> None:
    text = b'"stream/`a:b`/create":{"x":1}'
    assert parse_line(text) == (b'"stream/`a:b`/create"', b'{"x":1}')
    assert cut_at_first_colon(text) == (b'"stream/`a', b'b`/create":{"x":1}'), "as ksqlDB reads it"


@pytest.mark.parametrize("text", [b"", b"no colon", b'"open'])
def test_a_line_without_a_colon_is_none(text: bytes) -> None:
    assert parse_line(text) is None


def test_a_key_that_is_no_json_is_cut_at_the_first_colon() -> None:
    assert parse_line(b'"a:b') == (b'"a', b"b")


@given(parts, parts)
def test_a_line_is_one_line_that_both_readers_cut_alike(key: bytes | None, value: bytes | None) -> None:
    line = line_of(key, value)
    if line is None:
        return
    assert line.text.decode().splitlines(keepends=True) != []
    assert b"\n" not in line.text
    assert b"\r" not in line.text
    read = cut_at_first_colon(line.text)
    assert read is not None
    if line.is_exact:
        assert read == parse_line(line.text) == (key, value)
    for shown, meant in zip(read, (key, value), strict=True):
        assert shown == meant or json.loads(shown) == json.loads(meant or b"")
