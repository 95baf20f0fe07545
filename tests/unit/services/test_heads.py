from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offsite.model.errors import BadOption, CommitsGone
from offsite.model.head import Head, parse_head
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.services.heads import SeenHead, head_of, missing
from offsite.services.overview.status import read_status
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup, run_once


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    return tmp_path / "states"


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


@pytest.fixture
def backup(store: PosixStore) -> Backup:
    backup = new_backup(store)
    for _ in range(4):
        run_once(backup)
    return backup


@pytest.fixture
def seen(store: PosixStore, backup: Backup) -> SeenHead:
    return SeenHead(repository=Repository.open(store), backup="b")


def put_back(store: PosixStore, backup: Backup, *, to: int) -> None:
    for seq in range(to + 1, 10):
        store.delete(backup.layout.commit_key(seq))


def test_a_head_reads_as_it_is_told() -> None:
    head = Head(commit=12, hash="0123abcd" * 8)
    assert parse_head(str(head)) == head
    assert parse_head(head.short) == Head(commit=12, hash="0123abcd" * 2)


@pytest.mark.parametrize("text", ["", "12", "12:", "12:0123", "x:0123abcd", "12:0123abcg", "9" * 5000 + ":0123abcd"])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(BadOption):
        parse_head(text)


def test_a_head_stays_part_of_what_grows_from_it(backup: Backup, seen: SeenHead) -> None:
    kept = head_of(backup.state())
    seen.check(backup, backup.state())
    run_once(backup)
    assert missing(backup, backup.state(), kept) == ""
    seen.check(backup, backup.state())
    assert seen.get() == head_of(backup.state())


def test_a_store_that_was_put_back_is_noticed(store: PosixStore, backup: Backup, seen: SeenHead) -> None:
    seen.check(backup, backup.state())
    put_back(store, backup, to=2)
    with pytest.raises(CommitsGone, match=r"commit 4 .* was there and is gone: its newest is 2"):
        seen.check(backup, backup.state())
    assert seen.get() != head_of(backup.state())
    seen.remember(head_of(backup.state()))
    seen.check(backup, backup.state())


def test_a_history_that_went_on_another_way_is_noticed(store: PosixStore, backup: Backup, seen: SeenHead) -> None:
    seen.check(backup, backup.state())
    put_back(store, backup, to=3)
    for _ in range(3):
        run_once(backup, step=7)
    with pytest.raises(CommitsGone, match="is not the one that was seen"):
        seen.check(backup, backup.state())


def test_a_damaged_commit_is_not_said_to_be_gone(store: PosixStore, backup: Backup, seen: SeenHead) -> None:
    seen.check(backup, backup.state())
    (store.root / backup.layout.commit_key(4)).write_bytes(b"garbage")
    assert seen.problem(backup, backup.sound_state()) == ""
    assert seen.get() == Head(commit=4, hash=seen.get().hash)  # type: ignore[union-attr]


def test_a_commit_made_since_the_state_was_read_is_not_gone(backup: Backup, seen: SeenHead) -> None:
    before = backup.state()
    run_once(backup)
    seen.remember(head_of(backup.state()))
    assert seen.problem(backup, before) == ""


def test_a_backup_that_is_gone_as_a_whole_is_noticed(backup: Backup, seen: SeenHead) -> None:
    seen.check_absent()
    seen.check(backup, backup.state())
    with pytest.raises(CommitsGone, match="is gone"):
        seen.check_absent()


def test_the_status_tells_of_a_backup_that_is_gone_as_a_whole(
    store: PosixStore, backup: Backup, seen: SeenHead
) -> None:
    seen.check(backup, backup.state())
    assert len(read_status(seen.repository).backups) == 1
    shutil.rmtree(store.root / "backups" / "b")
    status = read_status(seen.repository)
    (gone,) = status.backups
    assert (status.safe, gone.backup, gone.safe, gone.damaged) == (False, "b", False, True)
    assert "is gone" in gone.problems[0]
    Path(gone.problems[1].rpartition("delete ")[2]).unlink()
    assert read_status(seen.repository).backups == ()


def test_nothing_is_remembered_of_a_backup_without_commits(store: PosixStore, backup: Backup, seen: SeenHead) -> None:
    seen.check(backup, backup.state())
    seen.remember(Head(commit=0, hash=""))
    assert seen.get() is None
    seen.check(backup, backup.state())


def test_another_place_is_another_memory(tmp_path: Path, store: PosixStore, backup: Backup, seen: SeenHead) -> None:
    seen.check(backup, backup.state())
    (tmp_path / "copy").symlink_to(store.root)
    copy = Repository.open(open_folder(tmp_path / "copy"))
    assert SeenHead(repository=copy, backup="b").get() is None or copy.store.url == store.url


@pytest.mark.parametrize("data", [b"", b"{", b'{"format":9}', b"\xff" * 100])
def test_a_memory_that_cannot_be_read_is_none(states: Path, backup: Backup, seen: SeenHead, data: bytes) -> None:
    seen.check(backup, backup.state())
    (file,) = (path for path in states.rglob("*") if path.is_file())
    file.write_bytes(data)
    assert seen.get() is None
    seen.check(backup, backup.state())
    assert seen.get() == head_of(backup.state())


def test_a_memory_is_kept_from_others_and_missed_by_nobody(
    states: Path, backup: Backup, seen: SeenHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen.check(backup, backup.state())
    assert {path.stat().st_mode & 0o077 for path in (states / "offsite").rglob("*")} == {0}
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    seen.check(backup, backup.state())
    assert seen.get() is None
