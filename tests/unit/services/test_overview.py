"""The status of a backup whose newest commit is dated in the future: its age is not known, and not 0."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.repository.commit import Changes
from offsite.repository.repository import Repository
from offsite.services.overview.status import BackupStatus, read_status
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import append_unchecked, new_backup, run_once

ATTENTION = 3


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def status_of_commit(store: PosixStore, *, ahead_s: int) -> BackupStatus:
    """With a newest commit that is dated `ahead_s` in the future."""
    backup = new_backup(store)
    append_unchecked(backup, run_once(backup), Changes(), committed_at_ms=store.now_ms() + ahead_s * 1000)
    (status,) = read_status(Repository.open(store)).backups
    return status


def test_a_commit_in_the_future_is_not_safe_and_its_age_is_not_told(store: PosixStore) -> None:
    status = status_of_commit(store, ahead_s=90 * 86_400)
    assert not status.safe
    assert status.age_s < -89 * 86_400
    assert ["is dated 90 d" in problem and "in the future" in problem for problem in status.problems] == [True]
    told = CliRunner().invoke(app, ["status", "--repo", str(store.root)])
    assert "dated in the future" in told.stdout
    assert " old" not in told.stdout.splitlines()[1]
    assert told.exit_code == ATTENTION


def test_clocks_that_differ_by_seconds_are_no_problem(store: PosixStore) -> None:
    status = status_of_commit(store, ahead_s=20)
    assert (status.safe, status.age_s) == (True, 0)
