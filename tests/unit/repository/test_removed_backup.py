"""A backup that was removed on purpose is told so, by what the repository says; one that is just away is an alarm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offsite.cli.views.repository import render_status
from offsite.model.errors import CommitsGone
from offsite.overview.status import read_status
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.heads import RememberedHead
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import KEPT_MS
from offsite.repository.removed_backup import find_removal
from offsite.repository.repository import Repository
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup, run_once
from tests.shown import shown
from tests.unit.operator.work.declared import Declared

NAME = "b"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PosixStore:
    """A declared backup that was seen here, and is not there any more."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    store = open_folder(tmp_path / "repository")
    backup = new_backup(store)
    run_once(backup)
    seen_in(store).check(backup, backup.state())
    shutil.rmtree(store.root / "backups" / NAME)
    return store


def seen_in(store: PosixStore) -> RememberedHead:
    return RememberedHead(repository=Repository.open(store), backup=NAME)


def removed_by_the_operator(store: PosixStore, *, with_line: bool = True) -> Declared:
    declared = Declared(store)
    declared.start(NAME)
    declared.decide(DeclaredEntryKind.STOPPED)
    declared.decide(DeclaredEntryKind.REMOVING)
    if with_line:
        line = Deletion(kind=GENERATION, what=NAME, rule="a newer backup has all that is asked", bytes=7)
        note_deletions(store, declared.layout, [line], by="expiry", commit=declared.history.seq)
    store.put_if_absent(BackupLayout(backup=NAME).removed_key, b"{}")
    declared.decide(DeclaredEntryKind.REMOVED)
    return declared


def test_absence_alone_is_an_alarm(store: PosixStore) -> None:
    assert find_removal(store, NAME) is None
    status = read_status(Repository.open(store))
    assert (status.safe, [each.backup for each in status.backups], status.removed) == (False, [NAME], ())
    with pytest.raises(CommitsGone):
        seen_in(store).check_absent()


def test_what_the_operator_removed_is_told_with_who_did_it_and_why(store: PosixStore) -> None:
    removed_by_the_operator(store)
    status = read_status(Repository.open(store))
    assert status.backups == ()
    (removed,) = status.removed
    assert (removed.backup, removed.by, removed.why) == (NAME, "expiry", "a newer backup has all that is asked")
    assert removed.who.startswith("process ")
    assert removed.at_ms > 0
    seen_in(store).check_absent()
    text = shown(render_status(status))
    assert "removed on purpose: b, 20" in text
    assert "a newer backup has all that is asked; expiry, by process " in text


def test_a_ledger_without_a_line_says_that_it_was_removed(store: PosixStore) -> None:
    removed_by_the_operator(store, with_line=False)
    found = find_removal(store, NAME)
    assert found is not None
    assert (found.who, found.at_ms > 0) == ("", True)


def test_a_line_about_a_backup_that_was_made_anew_says_nothing_of_the_new_one(store: PosixStore) -> None:
    declared = removed_by_the_operator(store)
    declared.start(NAME)
    assert find_removal(store, NAME) is None
    assert not read_status(Repository.open(store)).safe


def test_a_line_that_no_ledger_speaks_for_says_nothing(store: PosixStore) -> None:
    declared = Declared(store)
    declared.start(NAME)
    note_deletions(store, declared.layout, [Deletion(kind=GENERATION, what=NAME, rule="r")], by="expiry", commit=1)
    assert find_removal(store, NAME) is None


def test_a_removal_without_its_mark_was_taken_back(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody brought the backup back, and then its folder was lost."""
    removed_by_the_operator(store)
    store.delete(BackupLayout(backup=NAME).removed_key)
    assert find_removal(store, NAME) is None
    assert not read_status(Repository.open(store)).safe
    right = PosixStore.now_ms
    monkeypatch.setattr(PosixStore, "now_ms", lambda each: right(each) + KEPT_MS)
    assert find_removal(store, NAME) is not None, "then the mark says nothing any more"


def test_a_ledger_that_cannot_be_read_says_nothing(store: PosixStore) -> None:
    declared = removed_by_the_operator(store)
    key = next(info.key for info in store.list(declared.layout.ledger_prefix))
    store.delete(key)
    store.put_if_absent(key, b"{}")
    assert find_removal(store, NAME) is None
