"""The status of a backup whose newest commit is dated in the future: its age is not known, and not 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.overview.contents import show_backup
from offsite.overview.judgement import problems_of
from offsite.overview.status import BackupStatus, read_status
from offsite.repository.commit import CommitChanges, RecordedHole
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import PARTITIONS, append_unchecked, new_backup, run_once
from tests.roll_ups import roll_up

ATTENTION = 3


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def status_of_commit(store: PosixStore, *, ahead_s: int) -> BackupStatus:
    """With a newest commit that is dated `ahead_s` in the future."""
    backup = new_backup(store)
    append_unchecked(backup, run_once(backup), CommitChanges(), committed_at_ms=store.now_ms() + ahead_s * 1000)
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


def test_holes_that_only_older_points_have_are_said_to_be_theirs(store: PosixStore) -> None:
    backup = new_backup(store)
    run_once(backup)
    state, known = backup.state(), PARTITIONS[0]
    end = state.positions[known].end
    older = RecordedHole(partition_id=known, start=0, end=2, reason="retention")
    newest = RecordedHole(partition_id=known, start=end - 1, end=end, reason="retention")
    state = replace(state, holes=(older, newest), expired={known: ((3, 5),)})
    (found,) = problems_of(state, state.committed_at_ms, None)
    assert found.startswith("2 holes: 3 offsets were lost")
    assert found.endswith("(1 of the holes only in older restore points)")


def test_clocks_that_differ_by_seconds_are_no_problem(store: PosixStore) -> None:
    status = status_of_commit(store, ahead_s=20)
    assert (status.safe, status.age_s) == (True, 0)


def test_an_older_restore_point_shows_what_it_holds_whatever_was_rolled_up_since(store: PosixStore) -> None:
    backup = new_backup(store)
    for _ in range(4):
        run_once(backup)
    before = [show_backup(backup, commit=seq) for seq in range(1, 5)]
    assert [each.summary.records for each in before] == [60, 120, 180, 240]
    roll_up(backup, [tuple(backup.state().segments[each]) for each in PARTITIONS], alone=True)
    for was, seq in zip(before, range(1, 5), strict=True):
        now = show_backup(backup, commit=seq)
        assert (now.summary.records, now.summary.bytes) == (was.summary.records, was.summary.bytes)
        assert [part.records for each in now.topics for part in each.partitions] == [
            part.records for each in was.topics for part in each.partitions
        ]


def test_what_an_older_restore_point_has_lost_since_is_not_shown(store: PosixStore) -> None:
    backup = new_backup(store)
    for _ in range(3):
        state = run_once(backup)
    first, *others = state.segments[PARTITIONS[0]]
    state = backup.commit(CommitChanges(removed=(first.key,)), base=state, writer="w")
    roll_up(backup, [others], alone=True)
    (shown, *_) = show_backup(backup, commit=2).topics[0].partitions
    assert (shown.start, shown.end) == (20, 40)
