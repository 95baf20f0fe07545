from __future__ import annotations

import pickle

import pytest

from offsite.model.errors import BadName, BadOption, Bug, NoSuchTopic, check
from offsite.model.names import check_backup_name
from offsite.model.units import format_size, parse_rate


@pytest.mark.parametrize("name", ["orders", "Orders_2.1-x", "0"])
def test_a_plain_backup_name_passes(name: str) -> None:
    assert check_backup_name(name) == name


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".hidden", "-x", "ä", "x" * 129, "a\n"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(BadName) as caught:
        check_backup_name(name)
    assert caught.value.exit_code == 2
    assert caught.value.hint


@pytest.mark.parametrize(("size_bytes", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (220 * 1024**2, "220 MiB")])
def test_sizes_are_shown_short(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB", 50_000_000),
        ("20 mb/s", 20_000_000),
        ("1.5MiB", 1536 * 1024),
        ("64kB", 64_000),
        ("1GiB/s", 1024**3),
        ("10000B", 10_000),
    ],
)
def test_a_rate_is_read_as_people_write_it(text: str, rate: int) -> None:
    assert parse_rate(text, "--read-limit") == rate


@pytest.mark.parametrize(
    "text", ["", "50", "50M", "-1MB", "0MB", "9kB", "1e9MB", "fast", "MB", "1MB/min", "5\u0663MB", "999999999999999TB"]
)
def test_what_is_no_rate_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(BadOption, match="--read-limit") as refused:
        parse_rate(text, "--read-limit")
    assert "50MB" in refused.value.hint


def test_an_error_keeps_its_hint_across_processes() -> None:
    error = pickle.loads(pickle.dumps(NoSuchTopic("no topic x", hint="look")))
    assert (type(error), error.message, error.hint) == (NoSuchTopic, "no topic x", "look")


def test_a_broken_invariant_is_a_bug() -> None:
    check(condition=True, message="never")
    with pytest.raises(Bug):
        check(condition=False, message="boom")
