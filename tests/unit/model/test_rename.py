from __future__ import annotations

import pytest

from offsite.model.errors import BadName, BadOption
from offsite.model.topic_choices import parse_renames


@pytest.mark.parametrize(
    ("rules", "topic", "name"),
    [
        ("", "orders", "orders"),
        ("orders=back", "orders", "back"),
        ("orders=back", "orders-2", "orders-2"),
        ("orders-*=restored-*", "orders-eu", "restored-eu"),
        ("orders-*=restored-*", "orders", "orders"),
        ("*=*-restored", "orders", "orders-restored"),
        ("*=old.*", "a.b", "old.a.b"),
        ("*-v1=*", "orders-v1", "orders"),
        ("*-in-*=*-out-*", "a-in-b", "a-out-b"),
        ("a.b*=c*", "axb1", "axb1"),
        ("*=*-all,orders=mine", "orders", "mine"),
        ("orders-*=first-*,*=second-*", "orders-eu", "first-eu"),
        ("orders-*=first-*,*=second-*", "payments", "second-payments"),
        (r"regex:^(.+)-v[0-9]+$=\1-old", "orders-v12", "orders-old"),
        (r"regex:^(.+)-v[0-9]+$=\1-old", "orders", "orders"),
        (r"regex:^(?P<a>.)(.)=\2\g<a>", "xyz", "yx"),
        ("v*=v2*", "v1", "v21"),
    ],
)
def test_a_topic_goes_by_its_own_rule_or_the_first_pattern(rules: str, topic: str, name: str) -> None:
    assert parse_renames(rules.split(",")).target_name(topic) == name


@pytest.mark.parametrize(
    "rule", ["orders", "a=b,a=c", "*=x", "a*=*b*", "regex:(=x", r"regex:a=\1", "regex:=x", "=x", "a=", "a=b/c", "a?=b"]
)
def test_a_rule_that_cannot_be_meant_is_refused(rule: str) -> None:
    with pytest.raises((BadOption, BadName)):
        parse_renames([rule])


def test_a_name_that_kafka_refuses_is_refused_when_a_pattern_makes_it() -> None:
    with pytest.raises(BadName):
        parse_renames(["*=" + "x" * 240 + "*"]).target_name("long-topic-name")


def test_a_backslash_of_a_glob_rule_is_no_reference() -> None:
    with pytest.raises(BadName, match="is not a Kafka topic name"):
        parse_renames([r"orders-*=\1*"]).target_name("orders-eu")


def test_rules_about_no_topic_are_told() -> None:
    renames = parse_renames(["a=b", "x-*=y-*", "*=*-2"])
    assert renames.unused(["a", "b"]) == ("x-*",)
    assert renames.unused([]) == ("a", "x-*", "*")


def test_rules_read_as_they_were_typed() -> None:
    assert str(parse_renames([" a=b", "x-*=y-* ", r"regex:(.)=\1"])) == r"a=b,x-*=y-*,regex:(.)=\1"
