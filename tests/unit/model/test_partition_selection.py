from __future__ import annotations

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.model.topic_choices import parse_partitions


def test_numbers_and_ranges_are_chosen_topic_by_topic() -> None:
    selection = parse_partitions(["orders:0,2-4,payments:7", "orders:9"])
    assert [n for n in range(12) if selection.includes("orders", n)] == [0, 2, 3, 4, 9]
    assert [n for n in range(12) if selection.includes("payments", n)] == [7]
    assert str(selection) == "orders:0,2-4,9,payments:7"


def test_a_topic_that_is_not_named_is_meant_whole() -> None:
    assert parse_partitions(["orders:0"]).includes("payments", 5)
    assert parse_partitions([]).includes("orders", 0)


@pytest.mark.parametrize("text", ["orders", "0", "orders:", "orders:x", "orders:3-2", "orders:-1", "a/b:0", "", "a:0,"])
def test_what_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises((BadOption, BadName)):
        parse_partitions([text])


def test_a_partition_that_the_topic_does_not_have_is_refused() -> None:
    parse_partitions(["orders:0-5"]).check_exists("orders", 6)
    with pytest.raises(BadOption, match="orders:6"):
        parse_partitions(["orders:0-2,6"]).check_exists("orders", 6)
