"""Commands tell how they go, and end as they would without anybody to tell."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OFFSITE = "from offsite.cli.main import main; main()"
BODY = """
import pathlib, sys, time
from dataclasses import dataclass
import typer
from offsite.cli import app, process
from offsite.cli.output import OutputFormat
from offsite.cli.telling import NoticeOptions, telling
from offsite.model.errors import KafkaUnavailable

@dataclass(frozen=True)
class Result:
    records: int = 5

def body(news):
    {body}

def run():
    options = NoticeOptions(hook={hooks!r}, hook_timeout="{timeout}", notify={notify})
    try:
        with telling(options, command="backup run", repo="r", backup="orders") as news:
            body(news)
    except typer.Exit as end:
        sys.exit(end.exit_code)

app.run = run
from offsite.cli.main import main
main()
"""
EMIT = "news.emit(Result(), output=OutputFormat.JSON, render=lambda result: ['five records'])"
WRITES = "cat >> events"
DAMAGE = "from offsite.cli.output import report_damage; report_damage('commit 3 cannot be read')"


def started(script: str, tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", script, *arguments],
        cwd=tmp_path,
        env={**os.environ, "OFFSITE_TOKEN": "s3cret", "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,  # noqa: PLW1509  # no thread holds a lock that it needs
    )


def heed_signals() -> None:
    """A shell has what runs in its background ignore SIGINT, and offsite leaves ignored what was ignored before."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def ended(script: str, tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    process = started(script, tmp_path, *arguments)
    printed, said = process.communicate(timeout=60)
    return process.returncode, printed, said


def script(body: str, hooks: Sequence[str], *, timeout: str = "10s", notify: str = "None") -> str:
    return BODY.format(body=body, hooks=list(hooks), timeout=timeout, notify=notify)


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]


@pytest.mark.parametrize(
    ("body", "exit_code", "kinds"),
    [
        (EMIT, 0, ["began", "succeeded"]),
        (f"news.concern('users'); {EMIT}; raise typer.Exit(3)", 3, ["began", "partial", "partial"]),
        (f"{EMIT}; raise typer.Exit(13)", 13, ["began", "failed", "failed"]),
        (f"{DAMAGE}; {EMIT}", 13, ["began", "failed", "failed"]),
        ("raise RuntimeError('a record with s3cret')", 1, ["began", "failed", "failed"]),
        ("raise KeyboardInterrupt", 1, ["began", "interrupted", "interrupted"]),
    ],
)
def test_hooks_follow_a_command(tmp_path: Path, body: str, exit_code: int, kinds: list[str]) -> None:
    hooks = [f"{moment}={WRITES}" for moment in ("before", "after", "failure", "recovery")]
    code, printed, _ = ended(script(body, hooks), tmp_path)

    assert [event["event"] for event in events(tmp_path)] == kinds
    assert len({event["run"] for event in events(tmp_path)}) == 1
    assert "s3cret" not in (tmp_path / "events").read_text()
    if EMIT in body:
        assert code == exit_code
        last, result = events(tmp_path)[-1], json.loads(printed)
        assert (last["exit_code"], last["numbers"], last["message"]) == (exit_code, {"records": 5}, "five records")
        assert result["records"] == 5
        assert [(event["to"], event["problem"]) for event in result["notices"]] == [
            ("hook before", ""),
            ("hook after", ""),
            *([("hook failure", "")] if exit_code else []),
        ]
    assert events(tmp_path)[-1]["backup"] == ("users" if "users" in body else "orders")
    assert events(tmp_path)[-1]["details"] == (["commit 3 cannot be read"] if DAMAGE in body else [])


def test_hooks_that_fail_and_hang_change_nothing_but_the_notices(tmp_path: Path) -> None:
    hooks = ["before=exit 9", "after=sleep 60 # s3cret", "after=echo said; exit 1"]
    began_s = time.monotonic()
    code, printed, said = ended(script(EMIT, hooks, timeout="1s"), tmp_path)

    problems = [event["problem"] for event in json.loads(printed)["notices"]]
    assert code == 0
    assert problems[0] == "it ended with exit code 9"
    assert problems[1].startswith("it was killed")
    assert problems[2] == "it ended with exit code 1"
    assert time.monotonic() - began_s < 20
    assert "hook after: said" in said
    assert said.count("not_told") == 3
    assert "s3cret" not in said + printed


def wait_for(path: Path) -> None:
    last_s = time.monotonic() + 30
    while not path.exists() and time.monotonic() < last_s:
        time.sleep(0.02)
    assert path.exists()


def is_gone(pid: int) -> bool:
    last_s = time.monotonic() + 3
    while time.monotonic() < last_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_second_ctrl_c_kills_a_hook_and_the_outcome_stays(tmp_path: Path, exit_code: int) -> None:
    body, hook = f"{EMIT}; raise typer.Exit({exit_code})", "after=echo $$ > pid; mv pid running; sleep 60"
    process = started(script(body, [hook], timeout="50s"), tmp_path)
    wait_for(tmp_path / "running")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    printed = interrupted_until_it_ends(process)

    assert process.returncode == exit_code
    assert json.loads(printed)["notices"][0]["problem"].startswith("it was killed")
    assert is_gone(int((tmp_path / "running").read_text()))


def interrupted_until_it_ends(process: subprocess.Popen[str]) -> str:
    """What it prints. Two signals that come before a busy machine lets it handle the first are one."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=8)[0]
    raise AssertionError("it does not end")


def test_a_terminating_run_gives_its_hooks_what_is_left_of_its_seconds(tmp_path: Path) -> None:
    body = f"from offsite.cli import telling; telling.LEAVE_S = 2; {EMIT}; open('in', 'w'); time.sleep(60)"
    hooks = ["after=echo $$ > pid; mv pid running; sleep 60", f"failure={WRITES}"]
    process = started(script(body, hooks, timeout="50s"), tmp_path)
    wait_for(tmp_path / "in")
    began_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    printed, said = process.communicate(timeout=30)

    assert process.returncode == 143
    assert "interrupted by SIGTERM" in said
    assert time.monotonic() - began_s < 10
    problems = [event["problem"] for event in json.loads(printed)["notices"]]
    assert problems[0].startswith("it was killed")
    assert problems[1] == "it was not started: the run has to end at once"
    assert is_gone(int((tmp_path / "running").read_text()))


def test_an_interrupt_during_a_hook_before_the_run_ends_the_command(tmp_path: Path) -> None:
    hooks = ["before=touch running; sleep 1", f"failure={WRITES}"]
    process = started(script("open('done', 'w')", hooks), tmp_path)
    wait_for(tmp_path / "running")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == 143
    assert not (tmp_path / "done").exists()
    assert [(event["event"], event["exit_code"]) for event in events(tmp_path)] == [("interrupted", 143)]


def test_a_real_command_tells_its_error(tmp_path: Path) -> None:
    code, _, said = ended(
        OFFSITE, tmp_path, "verify", "--repo", "nowhere", "--backup", "orders", "--hook", f"failure={WRITES}"
    )

    (event,) = events(tmp_path)
    assert (code, event["exit_code"], event["error"], event["command"]) == (10, 10, "OFF-1001", "verify")
    assert event["message"] in said


def test_a_verdict_is_told_with_its_problems(tmp_path: Path) -> None:
    ended(OFFSITE, tmp_path, "init", "--repo", "repo")
    code, printed, _ = ended(OFFSITE, tmp_path, "status", "--repo", "repo", "-o", "json", "--hook", f"after={WRITES}")

    (event,) = events(tmp_path)
    assert (code, event["event"], event["exit_code"], event["numbers"]["backups"]) == (3, "partial", 3, 0)
    assert event["message"].startswith("ATTENTION")
    assert json.loads(printed)["safe"] is False


@pytest.mark.parametrize("words", [["--hook", "later=true"], ["--hook", "after=true", "--hook-timeout", "2h"]])
def test_a_wrong_hook_is_refused_before_anything_is_done(tmp_path: Path, words: list[str]) -> None:
    code, _, said = ended(OFFSITE, tmp_path, "verify", "--repo", "nowhere", "--backup", "orders", *words)

    assert code == 2
    assert "error[OFF-0202]" in said


@pytest.mark.soak
def test_messages_and_pings_that_fail_change_nothing_but_the_notices(tmp_path: Path) -> None:
    file = tmp_path / "notify.properties"
    file.write_text("ping = http://127.0.0.1:9/s3cret\nsend = json://user:s3cret@127.0.0.1:9/\n")
    file.chmod(0o600)
    body = f"{EMIT}; raise typer.Exit(3)"
    code, printed, said = ended(script(body, [], notify=f"pathlib.Path({str(file)!r})"), tmp_path)

    notices = json.loads(printed)["notices"]
    assert code == 3
    assert [(notice["to"], notice["event"]) for notice in notices] == [
        ("ping of line 1", "began"),
        ("ping of line 1", "partial"),
        ("message of line 2 (json)", "partial"),
    ]
    assert all(notice["problem"] for notice in notices)
    assert said.count("not_told") == 3
    assert "s3cret" not in said + printed
