"""The unit for systemd is one that it takes, and starts a command that there is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import typer

from offsite.cli.app import app

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "offsite-backup@.service"
COMMAND = "/opt/offsite/.venv/bin/offsite"


class Unit(ConfigParser):
    """A unit file; of a setting that is there more than once, the last one."""

    def __init__(self, text: str) -> None:
        super().__init__(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read_string(text)


def unit() -> Unit:
    return Unit(UNIT.read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_it(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    assert text.count(COMMAND) == 1
    for name, content, good in (("good", text, True), ("bad", text.replace("KillSignal", "KilSignal"), False)):
        there = tmp_path / f"{name}@shop.service"
        there.write_text(content.replace(COMMAND, shutil.which("true") or ""))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", there], capture_output=True, text=True, timeout=60, check=False
        )
        said = [line for line in (done.stdout + done.stderr).splitlines() if name in line]
        assert (not said) is good, said


def test_it_ends_the_backup_as_the_backup_wants_to_be_ended() -> None:
    service = unit()["Service"]
    assert (service["Type"], service["Restart"], service["KillSignal"]) == ("simple", "on-failure", "SIGTERM")
    assert re.fullmatch(r"\d+s", service["TimeoutStopSec"])
    assert "MemoryDenyWriteExecute" not in service  # a JVM could not start


def test_it_starts_a_command_that_there_is() -> None:
    program, group, command, *words = shlex.split(unit()["Service"]["ExecStart"])
    assert program == COMMAND
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {name for option in commands[group].commands[command].params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known
