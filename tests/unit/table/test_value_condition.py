"""Conditions on decoded values: JSON pointers of RFC 6901, with operators."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.errors import BadOption
from offsite.table.value_condition import parse_condition
from tests.examples import examples

DOCUMENT: dict[str, Any] = {  # the document of RFC 6901, section 5, and numbers
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
    "x=y": 9,
    "total": 10.5,
    "day": "2026-11-20",
    "is": True,
    "nothing": None,
    "digits": "42",
}


@pytest.mark.parametrize(
    "pointer",
    ["/foo/0=bar", "/=0", "/a~1b=1", "/c%d=2", "/e^f=3", "/g|h=4", "/i\\j=5", '/k"l=6', "/ =7", "/m~0n=8", "#/x%3Dy=9"],
)
def test_a_pointer_leads_where_the_standard_says(pointer: str) -> None:
    assert parse_condition(pointer).matches(DOCUMENT)
    assert not parse_condition(f"{pointer}00").matches(DOCUMENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("/foo", True),
        ("/foo/2", False),
        ("/foo/-", False),
        ("/foo/00", False),
        ("/foo/bar", False),
        ("/none", False),
        ("/none!=1", False),
        ('/foo=["bar","baz"]', True),
        ("/total>10", True),
        ("/total>=10.5", True),
        ("/total<10.5", False),
        ("/total!=10.5", False),
        ("/total>x", False),
        ("/day>=2026-11-19", True),
        ("/day<2026-11-19", False),
        ("/digits=42", True),
        ('/digits="42"', True),
        ("/a~1b=true", False),
        ("/is=true", True),
        ("/is=1", False),
        ("/is>0", False),
        ("/nothing=null", True),
        ("/nothing=", False),
        ("/nothing!=1", True),
        ('/total="10.5"', False),
    ],
)
def test_values_compare_as_json_says(text: str, expected: bool) -> None:
    condition = pickle.loads(pickle.dumps(parse_condition(text)))  # as it reaches a worker
    assert condition.matches(DOCUMENT) is expected


@pytest.mark.parametrize("text", ["foo=1", "=1", "#foo", "/a~2=1", "/a~", "#/%ff=1"])
def test_what_is_no_pointer_is_refused_and_not_quoted(text: str) -> None:
    if text == "=1":
        assert not parse_condition(text).matches(DOCUMENT)  # the whole document
        return
    with pytest.raises(BadOption) as refused:
        parse_condition(text)
    assert text not in refused.value.message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_a_value_that_nests_deep_reaches_a_worker() -> None:
    condition = parse_condition(f"/a={'[' * 900}{']' * 900}")
    assert not pickle.loads(pickle.dumps(condition)).matches({"a": []})  # as it reaches a worker


@examples(100)
@given(st.text(), _JSON)
def test_no_text_and_no_value_end_in_an_error_of_python(text: str, value: Any) -> None:
    try:
        condition = parse_condition(text)
    except BadOption:
        return
    assert condition.matches(value) in {True, False}
