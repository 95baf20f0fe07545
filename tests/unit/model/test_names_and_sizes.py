from __future__ import annotations

import pickle

import pytest
from offsite.model.check import check
from offsite.model.errors import BadName, BadOption, Bug, NoSuchTopic
from offsite.model.names import check_backup_name
from offsite.model.size import format_size, parse_size


@pytest.mark.parametrize("name", ["orders", "Orders_2.1-x", "0"])
def test_a_plain_backup_name_passes(name: str) -> None:
    assert check_backup_name(name) == name


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".hidden", "-x", "ä", "x" * 129, "a\n"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(BadName) as caught:
        check_backup_name(name)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize(("text", "size_bytes"), [("64MiB", 67_108_864), ("1.5 GiB", 1_610_612_736), ("7", 7)])
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "many", "5 apples", "-1"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_size(text)


@pytest.mark.parametrize(("size_bytes", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (220 * 1024**2, "220 MiB")])
def test_sizes_are_shown_short(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def test_an_error_keeps_its_hint_across_processes() -> None:
    error = pickle.loads(pickle.dumps(NoSuchTopic("no topic x", hint="look")))  # noqa: S301
    assert (type(error), error.message, error.hint) == (NoSuchTopic, "no topic x", "look")


def test_a_broken_invariant_is_a_bug() -> None:
    check(condition=True, message="never")
    with pytest.raises(Bug):
        check(condition=False, message="boom")
