"""Everybody names the commit to which a restore goes, and what it leaves aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.cli.commands.repository import _render_detail
from offsite.model.units import format_time
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.world.observe import RepositoryFacts
from offsite.overview.contents import describe_new_commits, show_backup
from offsite.overview.status import read_status
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.repository import Repository
from offsite.repository.snapshots.commit_cut import CommitCut
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup, run_once
from tests.cuts import commit_amid, commit_cut
from tests.shown import shown

CUT, NEWEST = 2, 3
MORE = f"commit {NEWEST} has 1.2 s more, made during a run, without a consistent cut: --commit {NEWEST}"


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """A pass with a cut, and 1.2 s later a commit made amid the next one."""
    now_ms = [PosixStore.now_ms(open_folder(tmp_path))]
    monkeypatch.setattr(PosixStore, "now_ms", lambda _: now_ms[0])
    made = new_backup(open_folder(tmp_path))
    run_once(made)
    commit_cut(made, CommitCut())
    now_ms[0] += 1200
    commit_amid(made)
    return made


def _repository(backup: Backup) -> Repository:
    return Repository.open(backup.store)


def test_the_status_says_the_time_to_which_a_restore_goes(backup: Backup) -> None:
    state = backup.state()
    (found,) = read_status(_repository(backup)).backups
    assert (found.default_commit, found.restorable_to_ms) == (CUT, state.cuts[-1].completed_at_ms)
    assert f"a restore uses commit {CUT}, the newest with a consistent cut; {MORE}" in found.notes


def test_a_damaged_cut_that_restores_go_to_is_no_safe_backup(backup: Backup, tmp_path: Path) -> None:
    (tmp_path / backup.state().cuts[-1].ref.key).unlink()
    (found,) = read_status(_repository(backup)).backups
    assert (found.safe, found.damaged) == (False, True)
    assert any("the consistent cut for restores is damaged" in each for each in found.problems)


def test_show_says_where_a_restore_goes_without_a_commit(backup: Backup) -> None:
    detail = show_backup(backup)
    assert f"without --commit a restore takes commit {CUT}: {MORE}" in shown(_render_detail(detail))
    assert detail.consistency is not None
    assert f"Z has one: --commit {CUT}" in detail.consistency.why


def test_a_declared_backup_is_restorable_to_where_a_restore_goes(backup: Backup) -> None:
    found = RepositoryFacts().read(RepositoryPlace(account="", repository=""), backup.store, "b")
    assert (found.latest_commit, found.is_whole) == (CUT, True)


def test_a_run_that_was_stopped_says_what_its_last_commit_is(backup: Backup) -> None:
    state = backup.state()
    assert describe_new_commits(_repository(backup), "b", since=0) == (
        f"3 commits, the newest is commit {NEWEST} of {format_time(state.committed_at_ms)}, made during a run, "
        f"without a consistent cut: a restore uses commit {CUT}, which has one"
    )
    assert describe_new_commits(_repository(backup), "b", since=NEWEST) == "no commit was made"
    assert describe_new_commits(_repository(backup), "elsewhere", since=0) == "no commit was made"
    commit_cut(backup, CommitCut())
    assert describe_new_commits(_repository(backup), "b", since=NEWEST).endswith(", with its consistent cut")
    backup.commit(CommitChanges(), base=run_once(backup), writer="w")
    assert describe_new_commits(_repository(backup), "b", since=NEWEST).startswith(
        "3 commits, the newest is commit 6 of "
    )
