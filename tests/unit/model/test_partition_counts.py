from __future__ import annotations

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.model.topic_choices import parse_partition_counts


def test_a_topic_has_its_own_count_or_that_of_all() -> None:
    counts = parse_partition_counts(["orders=12", "payments=3", "6"])
    assert [counts.of(topic, 1) for topic in ("orders", "payments", "other")] == [12, 3, 6]
    assert str(counts) == "*=6,orders=12,payments=3"


def test_a_topic_that_has_that_many_already_stays_as_it_is() -> None:
    counts = parse_partition_counts(["orders=12"])
    assert counts.of("orders", 12) is None
    assert counts.of("payments", 5) is None


@pytest.mark.parametrize(
    "text", ["", "orders", "orders=", "orders=0", "orders=-1", "a=1,a=2", "1,2", "a/b=1", "=3000000"]
)
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises((BadOption, BadName)):
        parse_partition_counts([text])


def test_a_topic_that_is_not_restored_is_refused() -> None:
    parse_partition_counts(["orders=12", "6"]).check_all_used(["orders"])
    with pytest.raises(BadOption, match="orders"):
        parse_partition_counts(["orders=12"]).check_all_used(["payments"])


def test_how_keyless_records_are_treated_is_part_of_what_was_asked() -> None:
    assert str(parse_partition_counts([])) == str(parse_partition_counts([], keyless_in_turn=True)) == ""
    assert str(parse_partition_counts(["6"])) != str(parse_partition_counts(["6"], keyless_in_turn=True))


@pytest.mark.parametrize("text", ["orders=" + "9" * 5000, "\u00b2"])
def test_numbers_that_python_does_not_read_are_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_partition_counts([text])
