"""The screen of who watches: calm, as large as the terminal, and nothing of it is lost at the end."""

from __future__ import annotations

import sys

import pytest

from offsite.cli.live import Frame, LiveScreen, can_be_live
from offsite.cli.output import Table, note, print_lines
from offsite.cli.progress import progress
from tests.pseudo_terminal import Terminal, at_terminal

ALTERNATE_SCREEN, CLEAR, HIDE_CURSOR = "\x1b[?1049h", "\x1b[2J", "\x1b[?25l"
NEVER_S = 1000.0


def frame(*names: str, lines: tuple[str, ...] = ("backup shop",)) -> Frame:
    table = Table("topic", "behind")
    for number, name in enumerate(names):
        table.add_row(name, str(number))
    return Frame(lines=lines, table=table)


def drawn(terminal: Terminal) -> str:
    sys.stderr.flush()
    return terminal.text


def test_it_draws_what_has_changed_and_only_that(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [frame("orders")]
    with at_terminal(monkeypatch) as terminal:
        with LiveScreen(lambda: frames[0], every_s=NEVER_S) as screen:
            assert "orders" in drawn(terminal)
            before = terminal.shown
            for _ in range(3):
                screen.draw()
            assert drawn(terminal) is not None
            assert terminal.shown == before
            frames[0] = frame("orders", "users")
            screen.draw()
            assert "users" in drawn(terminal)
        assert ALTERNATE_SCREEN not in terminal.shown
        assert CLEAR not in terminal.shown


def test_it_draws_by_itself_while_time_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(1_000_000))
    with at_terminal(monkeypatch) as terminal, LiveScreen(lambda: frame(lines=(f"{next(counted)} s",)), every_s=0.01):
        terminal.wait_for("0 s", "2 s", "4 s")


def test_the_last_state_stays_and_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [frame(lines=("first",))]
    with at_terminal(monkeypatch) as terminal:
        with LiveScreen(lambda: frames[0], every_s=NEVER_S):
            frames[0] = frame("orders", lines=("last",))
        note("stopped")
        sys.stderr.flush()
        shown = terminal.text
    assert [line.strip() for line in shown.splitlines()[-4:]] == ["last", "topic   behind", "orders       0", "stopped"]


def test_what_others_print_stays_above(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_terminal(monkeypatch) as terminal:
        with LiveScreen(lambda: frame(lines=("the screen",)), every_s=NEVER_S):
            note("waiting, and trying again")
            print_lines(["a hole"])
        shown = drawn(terminal)
    assert shown.rindex("waiting, and trying again") < shown.rindex("a hole") < shown.rindex("the screen")


def test_a_process_that_is_stopped_or_killed_leaves_no_hidden_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_terminal(monkeypatch) as terminal:
        with LiveScreen(lambda: frame("orders"), every_s=NEVER_S), progress("backup", total_bytes=1):
            pass
        with progress("backup", total_bytes=1):
            pass
        assert "backup" in drawn(terminal)
        assert HIDE_CURSOR not in terminal.shown


def test_as_many_rows_as_fit_the_first_ones_by_name_and_the_number_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"t{number:02}" for number in reversed(range(100))]
    with at_terminal(monkeypatch) as terminal:  # 30 lines
        with LiveScreen(lambda: frame(*names, lines=("one", "x" * 150)), every_s=NEVER_S):
            pass
        lines = [line.rstrip() for line in drawn(terminal).splitlines()]
    assert [line.split()[0] for line in lines[-25:-1]] == sorted(names[:24])
    assert lines[-1] == "and 76 more topics"


def test_names_of_strangers_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_terminal(monkeypatch) as terminal:
        with LiveScreen(lambda: frame("[red]\x1b[2J", lines=("\x1b[1A[bold]",)), every_s=NEVER_S):
            pass
        shown = drawn(terminal)
    assert r"\x1b[1A[bold]" in shown
    assert r"[red]\x1b[2J" in shown
    assert CLEAR not in terminal.shown


@pytest.mark.parametrize(
    ("environment", "is_live"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_only_a_terminal_that_draws_has_a_screen(
    environment: dict[str, str], is_live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not can_be_live()
    with at_terminal(monkeypatch):
        assert can_be_live() == is_live
