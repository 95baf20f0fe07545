"""`offsite compact`: what would be compacted is shown, asked about, and done."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import compact
from offsite.model.errors import BadOption, ConfirmationMissing
from offsite.repository.backup import Backup
from offsite.stores.open_store import open_store
from tests.backups import new_backup
from tests.compacted_logs import CompactedLog, commit_log, compacted_shape, forget, read_state
from tests.inline_runner import InlineRunner


@pytest.fixture
def log() -> CompactedLog:
    return CompactedLog(random.Random(5))


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: CompactedLog) -> Backup:
    """Four commits, of which the last is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(compact, "spark", _inline)
    made = new_backup(open_store(str(tmp_path / "repository")))
    for _ in range(4):
        commit_log(made, log.grow(20), log.end, compacted_shape())
    forget(made, [1, 2, 3])
    return made


@contextmanager
def _inline(*_: object, **__: object) -> Iterator[InlineRunner]:
    yield InlineRunner()


def command(backup: Backup, word: str, *more: str) -> list[str]:
    return ["compact", word, "--repo", backup.store.url, "--backup", "b", *more]


def test_the_plan_tells_what_is_due_and_changes_nothing(backup: Backup) -> None:
    told = json.loads(CliRunner().invoke(app, command(backup, "plan", "-o", "json")).stdout)
    (region,) = told["regions"]
    state = backup.state()
    (found,) = state.segments.values()
    assert (region["topic"], region["start"], region["end"], region["segments"]) == ("orders", 0, found.end, len(found))
    assert told["records"] == region["records"] == sum(segment.records for segment in found)
    assert region["dirty_bytes"] == region["bytes"] == sum(segment.raw_bytes for segment in found)
    assert backup.state().seq == state.seq
    assert "orders/0 [0, " in CliRunner().invoke(app, command(backup, "plan")).stdout


def test_a_run_tells_what_it_left_and_the_next_finds_nothing_due(backup: Backup, log: CompactedLog) -> None:
    before = sum(segment.records for segment in backup.state().all_segments())
    done = CliRunner().invoke(app, command(backup, "run", "--yes", "-o", "json"))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    after = sum(segment.records for segment in backup.state().all_segments())
    assert (told["records_before"], told["records_after"], told["commit"]) == (before, after, backup.state().seq)
    assert after < before
    assert read_state(backup, 4)[:2] == log.state_at(log.end)
    assert "nothing to compact" in CliRunner().invoke(app, command(backup, "plan")).stdout
    assert "nothing was compacted" in CliRunner().invoke(app, command(backup, "run", "--yes")).stdout


def test_nothing_is_done_unasked(backup: Backup) -> None:
    failed = CliRunner().invoke(app, command(backup, "run"))
    assert isinstance(failed.exception, ConfirmationMissing)
    assert backup.state().seq == 5


def test_other_topics_are_left_alone(backup: Backup) -> None:
    assert "nothing to compact" in CliRunner().invoke(app, command(backup, "plan", "--topics", "users*")).stdout


def test_a_ratio_is_a_part(backup: Backup) -> None:
    failed = CliRunner().invoke(app, command(backup, "plan", "--min-dirty-ratio", "2"))
    assert isinstance(failed.exception, BadOption)


def test_cat_shows_the_latest_of_any_topic(backup: Backup, log: CompactedLog) -> None:
    done = CliRunner().invoke(
        app, ["cat", "orders", "--repo", backup.store.url, "--backup", "b", "--latest", "-o", "json"]
    )
    assert done.exit_code == 0, done.output
    state, keyless = log.state_at(log.end)
    wanted = sorted(record.offset for record in (*state.values(), *keyless))
    assert [each["offset"] for each in json.loads(done.stdout)["records"]] == wanted
