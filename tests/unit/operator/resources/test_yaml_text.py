from __future__ import annotations

import time

import pytest

from offsite.model.errors import BadResource
from offsite.model.untrusted.strict_yaml import TEXT_MAX_BYTES, dump_yaml
from offsite.operator.resources.model import Resource
from offsite.operator.resources.parse import load_documents, parse_resource
from tests.unit.operator.resources.bombs import BOMBS

CPU_MAX_S = 5.0
MESSAGE_MAX = 2_000


def parsed(text: str) -> list[Resource]:
    return [parse_resource(each, source="a.yaml") for each in load_documents(text, source="a.yaml")]


@pytest.mark.parametrize("name", BOMBS)
def test_no_text_costs_much_and_what_is_told_is_short(name: str) -> None:
    began_s = time.process_time()
    with pytest.raises(BadResource) as raised:
        parsed(BOMBS[name])

    assert time.process_time() - began_s < CPU_MAX_S
    assert len(raised.value.message) + len(raised.value.hint) < MESSAGE_MAX
    assert raised.value.message.isprintable()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x\n", "anchors and aliases are not supported: write the value out in line 1"),
        ("b: *x\n", "anchors and aliases are not supported"),
        ("{<<: {a: 1}}", r"merge keys \(<<\) are not supported"),
        ("a: 1\nb: !!int 2\n", "tags are not supported: write the value without a tag in line 2"),
        ("[" * 40 + "]" * 40, "nests deeper than 32"),
        ("- 1\n" * 10_001, "more than 10000 values"),
        ("x" * (TEXT_MAX_BYTES + 1), "larger than 256 KiB"),
    ],
)
def test_what_makes_little_text_large_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(BadResource, match=said):
        load_documents(text, source="a.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1:30", "1:30"), ("12", 12), ("0x1f", 31), ("1.5", 1.5), ("true", True), ("~", None), ("!!str 12", "12")],
)
def test_values_are_what_kubernetes_takes_them_for(text: str, value: object) -> None:
    assert load_documents(f"a: {text}", source="a.yaml") == [{"a": value}]


def test_what_comes_twice_is_written_so_that_it_is_read_again() -> None:
    twice = {"a": ["x"]}

    assert load_documents(dump_yaml([twice, twice]), source="a.yaml") == [[twice, twice]]


@pytest.mark.parametrize(
    "given", [{"a": 1}, [1], 5, None, 10**5_000], ids=["object", "list", "number", "nothing", "large"]
)
def test_of_a_kind_that_is_no_text_only_that_is_told(given: object) -> None:
    for document in ({"kind": given}, {"kind": "Backup", "apiVersion": given}):
        with pytest.raises(BadResource, match=r"(is not a kind|is not known)"):
            parse_resource(document, source="a.yaml")
