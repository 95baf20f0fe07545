"""Whatever a hook does, the run goes on: in time, with its own outcome, and with nothing left behind."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.notify.event import FIELD_MEANINGS, Event, EventKind, numbers_of
from offsite.notify.hook import Hook, HookMoment, parse_hook
from offsite.notify.teller import Delivery, Teller

HOSTILE = "a$(touch owned)`touch owned`;touch owned\n\x1b[2J\ud800\0'\""


def event(kind: EventKind = EventKind.FAILED, **fields: Any) -> Event:
    values: dict[str, Any] = {
        "command": "backup run",
        "backup": "orders",
        "run": "0123456789abcdef",
        "at_ms": 1_000,
        "began_ms": 0,
        "took_s": 1.0,
        "exit_code": 15,
        "error": "OFF-1501",
        "message": "no broker answers",
        "hint": "is the network up?",
    }
    return Event(kind=kind, **(values | fields))


def told(
    command: str, *, timeout_s: float = 5.0, of: Event | None = None, environment: dict[str, str] | None = None
) -> tuple[Delivery, list[str]]:
    """What became of one hook that runs `command`, and the lines that it printed."""
    lines: list[str] = []
    hook = Hook(
        moment=HookMoment.FAILURE,
        command=command,
        say=lines.append,
        timeout_s=timeout_s,
        environment=os.environ if environment is None else environment,
    )
    teller = Teller([hook], clock=SystemClock(), name="hooks")
    teller.tell(of or event())
    assert teller.settle(within_s=timeout_s + 10)
    (delivery,) = teller.tally.deliveries
    return delivery, lines


def within(seconds: float, is_so: Callable[[], bool]) -> bool:
    last_s = time.monotonic() + seconds
    while time.monotonic() < last_s:
        if is_so():
            return True
        time.sleep(0.02)
    return is_so()


def lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_hook_gets_the_event_as_json_and_in_its_environment(tmp_path: Path) -> None:
    delivery, lines = told(f"cat > {tmp_path}/event; echo $OFFSITE_EVENT $OFFSITE_EXIT_CODE $OFFSITE_ERROR_ID")

    document = json.loads((tmp_path / "event").read_text())
    assert delivery.worked
    assert lines == ["hook failure: failed 15 OFF-1501"]
    assert document == {
        "version": 1,
        "event": "failed",
        "command": "backup run",
        "repository": "",
        "backup": "orders",
        "run": "0123456789abcdef",
        "at": "1970-01-01T00:00:01.000Z",
        "began": "1970-01-01T00:00:00.000Z",
        "took_s": 1.0,
        "exit_code": 15,
        "error": "OFF-1501",
        "message": "no broker answers",
        "hint": "is the network up?",
        "details": [],
        "numbers": {},
    }


def test_a_hook_that_hangs_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    ignore = "trap '' TERM; "
    began_s = time.monotonic()
    delivery, _ = told(
        f'{ignore} sh -c "{ignore} echo \\$\\$ > {tmp_path}/child; while :; do sleep 60; done" & '
        f"echo $$ > {tmp_path}/shell; while :; do sleep 60; done",
        timeout_s=1,
    )

    pids = [int((tmp_path / name).read_text()) for name in ("shell", "child")]
    assert "killed" in delivery.problem
    assert time.monotonic() - began_s < 6
    assert within(2, lambda: not any(map(lives, pids)))


def test_a_hook_that_prints_without_end_is_killed_and_its_output_bounded() -> None:
    began_s = time.monotonic()
    delivery, lines = told("while :; do echo $OFFSITE_BACKUP; done; yes", timeout_s=30)
    endless, _ = told("yes", timeout_s=30)

    assert "prints without end" in endless.problem
    assert "killed" in delivery.problem
    assert len(lines) <= 101
    assert lines[-1] == "hook failure: (it printed more, which is left out)"
    assert time.monotonic() - began_s < 60


def test_what_a_hook_forks_does_not_hold_the_run_up_and_ends_with_the_hook(tmp_path: Path) -> None:
    began_s = time.monotonic()
    delivery, lines = told(f"(echo $$; exec sleep 60) & echo $! > {tmp_path}/pid; echo done", timeout_s=30)

    assert delivery.worked
    assert "hook failure: done" in lines
    assert time.monotonic() - began_s < 5
    assert within(2, lambda: not lives(int((tmp_path / "pid").read_text())))


def test_a_daemon_with_a_session_of_its_own_does_not_hold_the_run_up(tmp_path: Path) -> None:
    began_s = time.monotonic()
    delivery, _ = told(f"setsid sleep 3 & echo $! > {tmp_path}/pid", timeout_s=30)

    assert delivery.worked
    assert time.monotonic() - began_s < 3


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("exit 7", "it ended with exit code 7"),
        ("kill -9 $$", "signal 9 ended it"),
        ("no-such-program", "it ended with exit code 127"),
        ("echo \0", "it cannot be started: ValueError"),
    ],
)
def test_a_hook_that_fails_is_told(command: str, problem: str) -> None:
    assert told(command)[0].problem == problem


def test_a_hook_that_reads_nothing_or_closes_its_streams_is_no_trouble() -> None:
    large = event(numbers={f"number {count} {'x' * 900}": count for count in range(200)})

    assert told("exec <&- >&- 2>&-; sleep 0.1", of=large)[0].worked
    assert told("sleep 0.2", of=large)[0].worked


def test_names_of_strangers_are_never_part_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = event(message=HOSTILE, hint=HOSTILE, backup=HOSTILE, numbers={HOSTILE: 1})
    delivery, lines = told('printf "%s\\n" "$OFFSITE_MESSAGE"; cat', of=hostile)

    assert delivery.worked
    assert not (tmp_path / "owned").exists()
    assert all(line.isprintable() for line in lines)
    assert lines[0] == "hook failure: a$(touch owned)`touch owned`;touch owned\\n\\x1b[2J\\ud800\\x00'\""


def test_secrets_of_offsite_stay_out_of_the_environment(tmp_path: Path) -> None:
    secrets = {
        "OFFSITE_TOKEN": "s1",
        "OFFSITE_SPARK_CONF": "s2",
        "AWS_SECRET_ACCESS_KEY": "s3",
        "AWS_SESSION_TOKEN": "s4",
        "AZURE_STORAGE_ACCOUNT_KEY": "s5",
        "KAFKA_PASSWORD": "s6",
        "client_secret": "s7",
        "AZURE_STORAGE_KEY": "s8",
        "AWS_SERVER_SIDE_ENCRYPTION_CUSTOMER_KEY_BASE64": "s9",
        "DATABASE_PASS": "s10",
        "db_pwd": "s11",
    }
    _, lines = told(f"env > {tmp_path}/env", environment={"PATH": os.environ["PATH"], "HOME": "/home/me", **secrets})

    variables = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert not set(secrets) & set(variables)
    assert not set(secrets.values()) & set(variables.values())
    assert variables["HOME"] == "/home/me"
    assert variables["OFFSITE_BACKUP"] == "orders"
    assert lines == []


def test_a_command_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "offsite")
    delivery, _ = told("exit 1 # s3cret")

    hook = parse_hook("after=curl -H s3cret", say=print, timeout_s=1)
    assert "s3cret" not in f"{caplog.text}{delivery}{hook}"
    for text in ("s3cret", "s3cret=x", "s3cret_that_is_longer_than_that=x", "after= "):
        with pytest.raises(BadOption) as refused:
            parse_hook(text, say=print, timeout_s=1)
        assert "that_is_longer" not in f"{refused.value}{refused.value.hint}"


def test_each_event_has_its_hooks() -> None:
    fitting = {
        kind: [moment.value for moment in HookMoment if moment.fits(kind)] for kind in EventKind if kind != "round"
    }
    bad, good = ["failure"], ["recovery"]
    assert fitting == {
        "began": ["before"],
        "succeeded": ["after"],
        "partial": ["after", *bad],
        "failed": ["after", *bad],
        "interrupted": ["after", *bad],
        "outage": bad,
        "outage_over": good,
        "left_behind": bad,
        "caught_up": good,
        "loss": bad,
        "not_safe": bad,
        "safe_again": good,
        "source_loss": bad,
        "unread": bad,
        "read_again": good,
    }
    assert not any(moment.fits(EventKind.ROUND) for moment in HookMoment)


def test_telling_never_waits_and_counts_what_is_left_out() -> None:
    hook = Hook(moment=HookMoment.FAILURE, command="sleep 60", say=print, timeout_s=60)
    teller = Teller([hook], clock=SystemClock(), name="hooks")
    began_s = time.monotonic()
    for _ in range(150):
        teller.tell(event(EventKind.OUTAGE))

    assert time.monotonic() - began_s < 1
    assert teller.tally.left_out >= 49
    teller.leave_within(0)
    assert teller.settle(within_s=10)
    assert {delivery.worked for delivery in teller.tally.deliveries} == {False}


def test_what_a_hook_set_up_is_undone_however_many_events_wait() -> None:
    lines = list[str]()
    hooks = [
        Hook(moment=moment, command=command, say=lines.append, timeout_s=1)
        for moment, command in ((HookMoment.FAILURE, "sleep 60"), (HookMoment.AFTER, "echo undone"))
    ]
    teller = Teller(hooks, clock=SystemClock(), name="hooks", ends_first=True)
    for _ in range(150):
        teller.tell(event(EventKind.LOSS))
    teller.tell(event(EventKind.SUCCEEDED))
    assert within(20, lambda: lines == ["hook after: undone"])
    teller.leave_within(0)
    assert teller.settle(within_s=20)


def test_the_reference_page_has_each_field_and_each_event() -> None:
    assert list(FIELD_MEANINGS) == list(event().document())
    assert all(kind.meaning.endswith(".") for kind in EventKind)


def test_a_result_gives_its_numbers_and_none_of_its_texts() -> None:
    result = {"records": 5, "holes": [1, 2], "complete": True, "topic": "s3cret", "share": 0.5, "deep": {"n": 1}}

    assert numbers_of(result) == {"records": 5, "holes": 2}
