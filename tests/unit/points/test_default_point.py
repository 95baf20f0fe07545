"""Where a restore goes that names no commit: to the newest one with a consistent cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject, NoConsistentCut
from offsite.model.options import CutChoice, Isolation
from offsite.points.point_cut import RECENT_MS, DefaultPoint, default_point
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.snapshots.commit_cut import CommitCut, put_commit_cut
from offsite.repository.state import CUTS_MAX, BackupState
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import PARTITIONS, new_backup, run_once
from tests.cuts import commit_amid, commit_cut


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoreClock:
    found = StoreClock()
    monkeypatch.setattr(PosixStore, "now_ms", lambda _: found.now_ms)
    return found


class StoreClock:
    now_ms = 1_700_000_000_000

    def later(self, ms: int) -> None:
        self.now_ms += ms


@pytest.fixture
def backup(tmp_path: Path, clock: StoreClock) -> Backup:
    return new_backup(open_folder(tmp_path))


def complete(backup: Backup, *, refused: str = "", note: str = "") -> BackupState:
    """A pass that ends with a cut: one commit, and one that names the cut."""
    run_once(backup)
    return commit_cut(backup, CommitCut(refused=refused, notes=(note,) if note else ()))


def default(backup: Backup) -> DefaultPoint:
    return default_point(backup.store, backup.sound_state())


def test_a_commit_with_a_cut_is_gone_to(backup: Backup) -> None:
    state = complete(backup)
    assert default(backup) == DefaultPoint(commit=state.seq, complete_ms=state.completed_at_ms)


def test_a_newer_commit_without_a_cut_is_named_and_left_aside(backup: Backup, clock: StoreClock) -> None:
    cut = complete(backup)
    clock.later(1200)
    newest = commit_amid(backup)
    found = default(backup)
    assert (found.commit, found.complete_ms) == (cut.seq, cut.completed_at_ms)
    assert str(found.newer) == (
        f"commit {newest.seq} has 1.2 s more, made during a run, without a consistent cut: --commit {newest.seq}"
    )


def test_of_a_backup_that_never_had_a_cut_the_newest_commit_is_gone_to(backup: Backup) -> None:
    run_once(backup)
    newest = commit_amid(backup)
    assert (default(backup).commit, default(backup).newer) == (newest.seq, None)


def test_a_refused_cut_counts_as_none(backup: Backup) -> None:
    cut = complete(backup)
    complete(backup, refused="C6: the backup lacks what it needs")
    assert default(backup).commit == cut.seq


def test_a_cut_that_is_not_recent_is_named_and_not_gone_to(backup: Backup, clock: StoreClock) -> None:
    cut = complete(backup)
    clock.later(RECENT_MS + 1)
    newest = run_once(backup)
    assert default(backup) == DefaultPoint(commit=newest.seq, complete_ms=newest.completed_at_ms)
    found = find_point(backup, PointRequest(), cut=CutChoice.AUTO)
    assert found.commit.seq == newest.seq
    assert found.cut.why.endswith(f"Z has one: --commit {cut.seq}")


def test_however_long_a_pass_takes_the_one_before_it_is_gone_to(backup: Backup, clock: StoreClock) -> None:
    cut = complete(backup)
    clock.later(3 * RECENT_MS)
    commit_amid(backup)
    assert backup.sound_state().cut is None
    assert default(backup).commit == cut.seq


def test_a_commit_that_moves_nothing_has_the_cut_of_the_one_before(backup: Backup, clock: StoreClock) -> None:
    cut = complete(backup)
    clock.later(5000)
    upkeep = backup.commit(CommitChanges(), base=backup.state(), writer="upkeep")
    assert upkeep.cut == cut.cut
    run_once(backup)
    assert default(backup).commit == upkeep.seq


def test_a_commit_that_retention_let_go_is_not_gone_to(backup: Backup) -> None:
    first = complete(backup, note="first")
    second = complete(backup, note="second")
    run_once(backup)
    forget = CommitChanges(forgotten=((second.seq, second.seq + 1),))
    backup.commit(forget, base=backup.state(), writer="retention")
    assert backup.sound_state().history.find(second.seq) is None
    assert default(backup).commit == first.seq


def test_a_catalog_keeps_the_newest_cuts(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(backup)
    run_once(backup)
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    newest = run_once(backup)
    read = backup.sound_state()
    assert read.loose_commits < newest.seq, "a catalog was read"
    assert read.cuts == backup.catalog.state(upto=newest.seq).cuts == newest.cuts
    assert default(backup).commit == 2


def test_a_catalog_of_an_earlier_version_knows_its_own_cut(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    state = complete(backup)
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    backup.commit(CommitChanges(), base=replace(state, cuts=()), writer="w")
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 100)
    newest = run_once(backup)
    assert [(each.first, each.last) for each in newest.cuts] == [(state.seq, newest.seq - 1)]
    assert default(backup).commit == newest.seq - 1


def test_a_state_remembers_few_cuts(backup: Backup) -> None:
    base = run_once(backup)
    for number in range(CUTS_MAX + 3):
        ref = put_commit_cut(backup.store, base, CommitCut(notes=(str(number),)))
        base = backup.commit(CommitChanges(cut=ref), base=base, writer=f"w{number}")
    assert [each.last for each in base.cuts] == list(range(base.seq - CUTS_MAX + 1, base.seq + 1))


def test_a_damaged_cut_is_told_and_not_passed_over(backup: Backup, tmp_path: Path) -> None:
    cut = complete(backup).cut
    assert cut is not None
    (tmp_path / cut.key).write_bytes(b"{}")
    commit_amid(backup)
    with pytest.raises(DamagedObject):
        default(backup)
    newest = find_point(backup, PointRequest(commit=backup.state().seq), cut=CutChoice.AUTO)
    assert newest.cut.used is None, "another commit does not depend on it"


def test_only_who_leaves_the_commit_to_us_goes_to_the_one_with_a_cut(backup: Backup) -> None:
    cut, newest = complete(backup), commit_amid(backup)

    def commit(request: PointRequest, choice: CutChoice = CutChoice.AUTO) -> int:
        return find_point(backup, request, cut=choice).commit.seq

    assert commit(PointRequest()) == commit(PointRequest(), CutChoice.CONSISTENT) == cut.seq
    assert commit(PointRequest(), CutChoice.AS_COPIED) == newest.seq
    assert find_point(backup, PointRequest()).commit.seq == newest.seq, "readers see what was copied"
    assert commit(PointRequest(commit=newest.seq)) == newest.seq
    assert commit(PointRequest(at="2100-01-01")) == newest.seq
    assert commit(PointRequest(committed_at="2100-01-01")) == newest.seq
    assert commit(PointRequest(isolation=Isolation.READ_UNCOMMITTED)) == newest.seq
    assert commit(PointRequest(before={PARTITIONS[0].topic_partition: 1})) == newest.seq


def test_the_point_says_what_was_left_aside(backup: Backup) -> None:
    complete(backup)
    newest = commit_amid(backup)
    point = find_point(backup, PointRequest(), cut=CutChoice.AUTO)
    assert point.cut.newer is not None
    assert (point.cut.newer.commit, point.cut.newer.is_amid) == (newest.seq, True)


def test_where_a_cut_is_asked_for_and_there_is_none_the_commit_that_has_one_is_named(backup: Backup) -> None:
    cut, newest = complete(backup), commit_amid(backup)
    with pytest.raises(NoConsistentCut) as told:
        find_point(backup, PointRequest(commit=newest.seq), cut=CutChoice.CONSISTENT)
    assert told.value.id == "OFF-0216"
    assert f"commit {cut.seq} of " in told.value.message
    assert f"--commit {cut.seq}" in told.value.message
