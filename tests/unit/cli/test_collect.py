"""`offsite collect`: what would go is shown with its bytes, asked about, and deleted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import collect
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, ExpiredRange
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.stores.open_store import open_store
from tests.backups import PARTITIONS, new_backup, run_once, write_segment
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
    assert "with the same records are read first" in " ".join(shown.split())
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


def left(backup: Backup) -> list[str]:
    """What a killed run left; then a run completed; all of it is two days old, the run an hour younger."""
    segment = write_segment(backup.store, backup, PARTITIONS[0], 500, 520)
    age(backup, 2 * LEFTOVER_AFTER_MS + 3_600_000)
    run_once(backup)
    age(backup, 2 * LEFTOVER_AFTER_MS, only_young=True)
    return [segment.key]


def age(backup: Backup, by_ms: int, *, only_young: bool = False) -> None:
    for path in Path(backup.store.url).rglob("*"):
        then_s = path.stat().st_mtime - by_ms / 1000
        if not only_young or then_s > time.time() - 3 * LEFTOVER_AFTER_MS / 1000 - 60:
            os.utime(path, (then_s, then_s))


def test_leftovers_are_shown_asked_about_and_deleted(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    doomed = left(backup)
    monkeypatch.setattr("offsite.repository.commit_log.CommitLog.newest_at", lambda *_, upto, **__: upto)
    shown = CliRunner().invoke(app, command(backup, "plan", "--leftovers", "-o", "json"))
    assert shown.exit_code == 0, shown.output
    assert [each["key"] for each in json.loads(shown.stdout)["objects"]] == doomed
    assert doomed[0] in CliRunner().invoke(app, command(backup, "plan", "--leftovers")).stdout
    assert CliRunner().invoke(app, command(backup, "run", "--leftovers"), input="n\n").exit_code != 0
    assert doomed[0] in objects(backup)
    done = CliRunner().invoke(app, command(backup, "run", "--leftovers", "--yes", "-o", "json"))
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["objects"], report["locked"], report["kept"]) == (1, [], 0)
    assert doomed[0] not in objects(backup)
    assert (
        "no leftover may be deleted" in CliRunner().invoke(app, command(backup, "run", "--leftovers", "--yes")).stdout
    )


def test_what_nobody_agreed_to_is_named_and_stays_until_a_person_accepts_it(backup: Backup) -> None:
    """The credential of the backup was used by somebody else: one commit that drops everything."""
    state = backup.state()
    expired = tuple(
        ExpiredRange(partition_id=known, start=0, end=state.segments[known].read()[0].end) for known in PARTITIONS
    )
    backup.commit(CommitChanges(expired=expired, forgotten=((1, state.seq),)), base=state, writer="forged")
    run_once(backup)
    run_once(backup)
    done = CliRunner().invoke(app, command(backup, "run", "--yes", "-o", "json"))
    before = objects(backup)
    (kept,) = json.loads(done.stdout)["kept"]
    assert (kept["commit"], kept["who"]) == (7, "")
    for rules in ((), ("--retain", "keep-age=1s")):
        shown = " ".join(CliRunner().invoke(app, command(backup, "run", "--yes", *rules)).stdout.split())
        assert "commit 7 removes data, without a line in the audit: nothing is deleted for this commit" in shown
        assert "--accept-upto" in shown
    assert objects(backup) == before
    assert CliRunner().invoke(app, command(backup, "run", "--yes", "--accept-upto", "7")).exit_code == 0
    assert len(objects(backup)) < len(before)
