"""`offsite collect`: what would go is shown with its bytes, asked about, and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import collect
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup, run_once
from tests.inline_runner import InlineRunner
from tests.roll_ups import roll_up


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """Four commits, rolled up."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(collect, "spark", _inline)
    made = new_backup(open_store(str(tmp_path / "repository")))
    for _ in range(4):
        run_once(made)
    roll_up(made, [tuple(made.state().segments[each]) for each in PARTITIONS], alone=True)
    run_once(made)
    return made


@contextmanager
def _inline(*_: object, **__: object) -> Iterator[InlineRunner]:
    yield InlineRunner()


def command(backup: Backup, word: str, *more: str) -> list[str]:
    ends = ["--repo", backup.store.url, "--backup", "b", "--collect-after", "0s"]
    return ["collect", word, *ends, *more]


def objects(backup: Backup) -> dict[str, int]:
    return {each.key: each.size_bytes for each in backup.store.list(backup.layout.topics_prefix)}


def test_the_plan_tells_objects_and_bytes_and_changes_nothing(backup: Backup) -> None:
    before = objects(backup)
    done = CliRunner().invoke(app, command(backup, "plan", "-o", "json"))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert set(told["keys"]) < set(before)
    assert (told["objects"], told["bytes"]) == (len(told["keys"]), sum(before[key] for key in told["keys"]))
    assert 0 < told["bytes_to_read"] < told["bytes"]
    shown = CliRunner().invoke(app, command(backup, "plan")).stdout
    assert f"{told['objects']} objects (" in shown
    assert "hold their records now are read first" in " ".join(shown.split())
    assert objects(backup) == before


def test_nothing_goes_unless_it_is_said_yes_to(backup: Backup) -> None:
    before = objects(backup)
    refused = CliRunner().invoke(app, command(backup, "run"), input="n\n")
    assert refused.exit_code != 0
    assert objects(backup) == before
    done = CliRunner().invoke(app, command(backup, "run", "--yes", "-o", "json"))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["bytes"] == sum(before.values()) - sum(objects(backup).values()) > 0
    assert "nothing to collect" in CliRunner().invoke(app, command(backup, "run", "--yes")).stdout


def test_where_what_is_needed_is_damaged_it_ends_with_the_exit_code_of_damage(backup: Backup) -> None:
    segment = backup.state().segments[PARTITIONS[0]][0]
    backup.store.put_overwrite(segment.key, b"x")
    before = objects(backup)
    failed = CliRunner().invoke(app, command(backup, "run", "--yes"))
    assert failed.exception is not None
    assert getattr(failed.exception, "exit_code", 0) == 13
    assert objects(backup) == before
