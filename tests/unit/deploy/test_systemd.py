"""The units for systemd are such as it takes, and start commands that there are."""

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

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
BACKUP, METASTORE = UNITS / "offsite-backup@.service", UNITS / "offsite-metastore@.service"
OPERATOR = UNITS / "offsite-operator.service"
COMMAND = "/opt/offsite/.venv/bin/offsite"


class Unit(ConfigParser):
    """A unit file; of a setting that is there more than once, the last one."""

    def __init__(self, text: str) -> None:
        super().__init__(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read_string(text)


def unit(path: Path) -> Unit:
    return Unit(path.read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("path", [BACKUP, METASTORE, OPERATOR], ids=lambda path: path.stem)
def test_systemd_takes_it(tmp_path: Path, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
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
    service = unit(BACKUP)["Service"]
    assert (service["Type"], service["Restart"], service["KillSignal"]) == ("simple", "on-failure", "SIGTERM")
    assert re.fullmatch(r"\d+s", service["TimeoutStopSec"])
    assert "MemoryDenyWriteExecute" not in service  # a JVM could not start


@pytest.mark.parametrize("path", [BACKUP, METASTORE, OPERATOR], ids=lambda path: path.stem)
def test_it_starts_a_command_that_there_is(path: Path) -> None:
    program, group, command, *words = shlex.split(unit(path)["Service"]["ExecStart"])
    assert program == COMMAND
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {name for option in commands[group].commands[command].params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_processes_that_copy_outlive_an_operator_that_is_killed_and_end_with_the_service() -> None:
    service = unit(OPERATOR)["Service"]
    assert (service["KillMode"], service["KillSignal"]) == ("process", "SIGTERM")
    assert "--stop-agents" in service["ExecStart"]
    assert "MemoryDenyWriteExecute" not in service  # a JVM could not start
