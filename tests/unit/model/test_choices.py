"""What people may choose is written twice for type checkers, and once in stored objects: all of it must agree."""

from __future__ import annotations

from enum import StrEnum
from typing import get_args

import pytest

from offsite.model import options
from offsite.model.errors import BadOption
from offsite.model.options import Isolation, parse_choice
from offsite.model.selection import parse_selection
from offsite.repository.json_form import encode_canonical
from offsite.restore.options import parse_restore
from offsite.restore.request import encode_request

TEXTS = {
    options.Isolation: options.IsolationText,
    options.OffsetsMode: options.OffsetsText,
    options.CutChoice: options.CutText,
    options.RetentionMode: options.RetentionText,
    options.Keyless: options.KeylessText,
    options.MissingTopics: options.MissingTopicsText,
    options.CompressionChoice: options.CompressionText,
}


@pytest.mark.parametrize(("choice", "texts"), TEXTS.items())
def test_type_checkers_know_the_same_texts(choice: type[StrEnum], texts: object) -> None:
    assert [*choice] == [*get_args(texts)]
    assert choice["DEFAULT"] in choice


def test_a_text_that_is_no_choice_is_refused_with_those_there_are() -> None:
    assert parse_choice(Isolation, "read_uncommitted") is Isolation.READ_UNCOMMITTED
    with pytest.raises(BadOption, match="'dirty' is not one of read_committed, read_uncommitted"):
        parse_choice(Isolation, "dirty")


def test_restores_are_remembered_by_the_texts_of_earlier_versions() -> None:
    """An unfinished restore is found again by them, whichever version began it."""
    asked = parse_restore({"topics": ["orders"], "repartition": ["2"], "keyless": "in-turn", "retention": "override"})
    assert asked.selection == parse_selection(["orders"])
    assert encode_request(asked) == (
        ("isolation", "read_committed"),
        ("offsets", "auto"),
        ("repartition", "*=2,keyless in turn"),
        ("retention", "override"),
        ("selection", "orders"),
    )
    assert encode_canonical({"offsets": asked.offsets}) == b'{"offsets":"auto"}\n'
