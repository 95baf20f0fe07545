from __future__ import annotations

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.model.topic_choices import parse_incarnations


def test_each_topic_has_a_choice_of_its_own() -> None:
    assert parse_incarnations(["orders=1", "payments=oldest", "users=4f1a-22"]) == {
        "orders": "1",
        "payments": "oldest",
        "users": "4f1a-22",
    }
    assert parse_incarnations([]) == {}
    assert parse_incarnations([""]) == {}


@pytest.mark.parametrize("text", ["orders", "orders=", "orders=4f1", "orders=1,orders=2"])
def test_what_names_none_or_two_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_incarnations([text])


def test_a_name_that_no_topic_has_is_refused() -> None:
    with pytest.raises(BadName):
        parse_incarnations(["or ders=1"])
