from __future__ import annotations

import logging

import pytest

from offsite.model import journal
from offsite.model.errors import DamagedBatch
from offsite.model.journal import decided, failed, noted, safe_line, safe_trace, warned


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="offsite")


def test_a_decision_is_one_line_with_where_and_why(caplog: pytest.LogCaptureFixture) -> None:
    decided("hole", topic="orders", partition=3, start=0, end=10, why="the log starts at 10")
    assert caplog.messages == ['hole topic=orders partition=3 start=0 end=10 why="the log starts at 10"']


def test_levels_say_who_should_look(caplog: pytest.LogCaptureFixture) -> None:
    decided("a", why="b")
    warned("a", why="b")
    failed("a", why="b")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR"]


def test_what_is_not_known_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    noted("began", command="x", topic=None)
    assert caplog.messages == ["began command=x"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a b", '"a b"'),
        ("", '""'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two\\nlines"'),
        ("\x1b[31mred", '"\\x1b[31mred"'),
        ("\x9b2J", '"\\x9b2J"'),
        ("left\u202eright", '"left\\u202eright"'),
        ("half \ud800", '"half \\ud800"'),
        ("Grüße", "Grüße"),
        (0.12345, "0.123"),
        (True, "True"),
    ],
)
def test_a_value_from_outside_can_neither_end_its_line_nor_move_a_terminal(
    caplog: pytest.LogCaptureFixture, value: object, told: str
) -> None:
    decided("skip", name=value, why="x")
    assert caplog.messages == [f"skip name={told} why=x"]


def test_a_value_without_end_is_cut_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    decided("skip", why="x" * 5000)
    assert len(caplog.messages[0]) < 1100
    assert "(5000 characters)" in caplog.messages[0]


def test_nothing_is_made_of_what_nobody_hears(caplog: pytest.LogCaptureFixture) -> None:
    class Untold:
        def __str__(self) -> str:
            raise AssertionError("nobody listens")

    caplog.set_level(logging.WARNING, logger="offsite")
    decided("skip", name=Untold(), why="x")
    assert not caplog.messages


def test_a_line_of_another_process_keeps_its_time(caplog: pytest.LogCaptureFixture) -> None:
    journal.write(logging.INFO, "hole topic=%s", at_s=1000.25)
    (record,) = caplog.records
    assert (record.getMessage(), record.created, record.msecs) == ("hole topic=%s", 1000.25, 250)


def test_a_traceback_says_where_and_nothing_that_a_foreign_library_says() -> None:
    def quote_a_record() -> None:
        raise ValueError("value of the record: hunter2")

    def wrap() -> None:
        try:
            quote_a_record()
        except ValueError as error:
            raise DamagedBatch("batch 3 is torn") from error

    with pytest.raises(DamagedBatch) as raised:
        wrap()
    trace = safe_trace(raised.value)
    assert "quote_a_record" in trace
    assert trace.splitlines()[-1] == "DamagedBatch: batch 3 is torn"
    assert "\nValueError\n" in trace
    assert not [line for line in trace.splitlines() if "hunter2" in line and "raise ValueError" not in line]


def test_what_the_operating_system_says_is_told() -> None:
    assert (
        safe_line(FileNotFoundError(2, "No such file or directory")) == "FileNotFoundError: No such file or directory"
    )
    assert safe_line(KeyError("a key of a record")) == "KeyError"


def test_a_recursion_does_not_fill_a_log() -> None:
    def deeper(left: int) -> None:
        if not left:
            raise ValueError
        deeper(left - 1)

    with pytest.raises(ValueError) as raised:  # noqa: PT011
        deeper(500)
    assert len(safe_trace(raised.value)) < 10_000
