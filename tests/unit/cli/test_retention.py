"""`offsite retention`: what it shows, asks and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.model.errors import BelowFloor, ConfirmationMissing
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from tests.backups import new_backup, run_once


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """Three restore points of the same hour."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = new_backup(open_store(str(tmp_path / "repository")))
    for _ in range(3):
        run_once(made)
    return made


def offsite(backup: Backup, *arguments: str) -> Result:
    place = ["--repo", backup.store.url, "--backup", "b"]
    return CliRunner().invoke(app, ["retention", *arguments, *place])


def points(backup: Backup) -> list[int]:
    return [line.seq for line in backup.state().history]


def test_a_plan_says_what_stays_and_why_and_changes_nothing(backup: Backup) -> None:
    found = json.loads(offsite(backup, "plan", "--keep-yearly", "1", "-o", "json").stdout)
    assert found["removed_commits"] == [{"first": 1, "last": 2, "points": 2}]
    assert found["kept"] == [{"first": 3, "last": 3, "points": 1, "rule": "newest"}]
    assert (found["removed_points"], found["removed_bytes"], found["commit"]) == (2, 0, None)
    assert points(backup) == [1, 2, 3]


def test_apply_asks_and_does_nothing_without_an_answer(backup: Backup) -> None:
    done = offsite(backup, "apply", "--keep-yearly", "1")
    assert isinstance(done.exception, ConfirmationMissing)
    assert points(backup) == [1, 2, 3]


def test_apply_drops_and_the_log_tells_it(backup: Backup) -> None:
    found = json.loads(offsite(backup, "apply", "--keep-yearly", "1", "--yes", "-o", "json").stdout)
    assert (found["commit"], found["removed_points"]) == (4, 2)
    assert points(backup) == [3, 4]
    (line,) = json.loads(offsite(backup, "log", "-o", "json").stdout)["deletions"]
    assert (line["what"], line["state"], line["rule"]) == ("commits 1 to 2", "done", "not kept by yearly 1")


def test_a_floor_is_refused_before_anybody_is_asked(backup: Backup) -> None:
    done = offsite(backup, "apply", "--keep-yearly", "1", "--floor", "1h", "--yes")
    assert isinstance(done.exception, BelowFloor)
    assert points(backup) == [1, 2, 3]
    assert offsite(backup, "apply", "--keep-yearly", "1", "--floor", "1h", "--yes", "--force").exit_code == 0
    assert points(backup) == [3, 4]


def test_what_a_person_pins_stays_and_nothing_of_its_reason_moves_a_terminal(backup: Backup) -> None:
    shown = offsite(backup, "pin", "--commit", "1", "--reason", "the \x1b[31maudit", "--until", "90d").stdout
    assert "commit 1" in shown
    assert "\x1b" not in shown
    assert offsite(backup, "apply", "--keep-yearly", "1", "--yes").exit_code == 0
    assert 1 in points(backup)
    assert "no restore point is pinned" in offsite(backup, "unpin", "--commit", "1").stdout
