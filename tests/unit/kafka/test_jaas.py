from __future__ import annotations

import pytest

from offsite.kafka.security_settings import parse_jaas
from offsite.model.errors import BadKafkaConfig

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_the_module_is_named_without_its_package() -> None:
    module = parse_jaas(f'{PLAIN} required username="alice" password="secret";')
    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "alice", "password": "secret"}


def test_quotes_may_hold_semicolons_blanks_and_escaped_quotes() -> None:
    module = parse_jaas(f'{PLAIN} required username="a b" password="p;\\"=\\\\q" ;')
    assert module.options == {"username": "a b", "password": 'p;"=\\q'}


def test_values_need_no_quotes_and_may_have_single_ones() -> None:
    assert parse_jaas(f"{PLAIN} required username=alice password='x y';").options == {
        "username": "alice",
        "password": "x y",
    }


@pytest.mark.parametrize("text", ["", "nonsense", f"{PLAIN} required username", f'{PLAIN} required password="hunter2'])
def test_an_unreadable_line_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadKafkaConfig) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)


def test_printing_a_module_does_not_show_its_values() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required username="alice" password="secret";'))
