from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import BadOption, CommitsGone
from offsite.model.head import Head, parse_head
from offsite.overview.status import read_status
from offsite.points.restore_point import PointRequest
from offsite.repository.backup import Backup
from offsite.repository.heads import RememberedHead, check_to_read, head_of, memory_folder, why_missing
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.table.search import RecordsRequest, plan_records
from tests.backups import new_backup, run_once
from tests.fake_cluster.site import open_site


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
def seen(store: PosixStore, backup: Backup) -> RememberedHead:
    return RememberedHead(repository=Repository.open(store), backup="b")


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


def test_a_head_stays_part_of_what_grows_from_it(backup: Backup, seen: RememberedHead) -> None:
    kept = head_of(backup.state())
    seen.check(backup, backup.state())
    run_once(backup)
    assert why_missing(backup, backup.state(), kept) == ""
    seen.check(backup, backup.state())
    assert seen.get() == head_of(backup.state())


def test_a_store_that_was_put_back_is_noticed(store: PosixStore, backup: Backup, seen: RememberedHead) -> None:
    seen.check(backup, backup.state())
    put_back(store, backup, to=2)
    with pytest.raises(CommitsGone, match=r"commit 4 .* existed and is missing now: the newest commit is 2"):
        seen.check(backup, backup.state())
    assert seen.get() != head_of(backup.state())
    seen.remember(head_of(backup.state()))
    seen.check(backup, backup.state())


def test_a_history_that_went_on_another_way_is_noticed(store: PosixStore, backup: Backup, seen: RememberedHead) -> None:
    seen.check(backup, backup.state())
    put_back(store, backup, to=3)
    for _ in range(3):
        run_once(backup, step=7)
    with pytest.raises(CommitsGone, match="has changed: this machine saw"):
        seen.check(backup, backup.state())


def test_a_damaged_commit_is_not_said_to_be_gone(store: PosixStore, backup: Backup, seen: RememberedHead) -> None:
    seen.check(backup, backup.state())
    (store.root / backup.layout.commit_key(4)).write_bytes(b"garbage")
    assert seen.problem(backup, backup.sound_state()) == ""
    assert seen.get() == Head(commit=4, hash=seen.get().hash)  # type: ignore[union-attr]


def test_a_commit_made_since_the_state_was_read_is_not_gone(backup: Backup, seen: RememberedHead) -> None:
    before = backup.state()
    run_once(backup)
    seen.remember(head_of(backup.state()))
    assert seen.problem(backup, before) == ""


def test_a_backup_that_is_gone_as_a_whole_is_noticed(backup: Backup, seen: RememberedHead) -> None:
    seen.check_absent()
    seen.check(backup, backup.state())
    with pytest.raises(CommitsGone, match="is missing now"):
        seen.check_absent()


def test_the_status_tells_of_a_backup_that_is_gone_as_a_whole(
    store: PosixStore, backup: Backup, seen: RememberedHead
) -> None:
    seen.check(backup, backup.state())
    assert len(read_status(seen.repository).backups) == 1
    shutil.rmtree(store.root / "backups" / "b")
    status = read_status(seen.repository)
    (gone,) = status.backups
    assert (status.safe, gone.backup, gone.safe, gone.damaged) == (False, "b", False, True)
    assert "is missing now" in gone.problems[0]
    Path(gone.problems[1].rpartition("delete ")[2]).unlink()
    assert read_status(seen.repository).backups == ()


def test_nothing_is_remembered_of_a_backup_without_commits(
    store: PosixStore, backup: Backup, seen: RememberedHead
) -> None:
    seen.check(backup, backup.state())
    seen.remember(Head(commit=0, hash=""))
    assert seen.get() is None
    seen.check(backup, backup.state())


def test_another_place_is_another_memory(
    tmp_path: Path, store: PosixStore, backup: Backup, seen: RememberedHead
) -> None:
    seen.check(backup, backup.state())
    (tmp_path / "copy").symlink_to(store.root)
    copy = Repository.open(open_folder(tmp_path / "copy"))
    assert RememberedHead(repository=copy, backup="b").get() is None or copy.store.url == store.url


@pytest.mark.parametrize("data", [b"", b"{", b'{"format":9}', b"\xff" * 100])
def test_a_memory_that_cannot_be_read_is_none(states: Path, backup: Backup, seen: RememberedHead, data: bytes) -> None:
    seen.check(backup, backup.state())
    (file,) = (path for path in states.rglob("*") if path.is_file())
    file.write_bytes(data)
    assert seen.get() is None
    seen.check(backup, backup.state())
    assert seen.get() == head_of(backup.state())


def test_a_memory_is_kept_from_others_and_missed_by_nobody(
    states: Path, backup: Backup, seen: RememberedHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen.check(backup, backup.state())
    assert {path.stat().st_mode & 0o077 for path in (states / "offsite").rglob("*")} == {0}
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    seen.check(backup, backup.state())
    assert seen.get() is None


@pytest.fixture
def rolled_back(store: PosixStore, backup: Backup, seen: RememberedHead) -> Backup:
    """Seen with four commits, and put back to two."""
    seen.check(backup, backup.state())
    put_back(store, backup, to=2)
    return backup


def test_nothing_is_read_out_of_a_store_that_was_put_back_unless_that_is_accepted(
    rolled_back: Backup, seen: RememberedHead
) -> None:
    for point, expected in ((PointRequest(), CommitsGone), (PointRequest(accept_rollback=True), None)):
        with pytest.raises(expected) if expected else nullcontext():
            plan_records(rolled_back, RecordsRequest(point=point))
    before = seen.get()
    with pytest.raises(CommitsGone) as error:
        check_to_read(rolled_back, accept_rollback=False)
    assert "--accept-rollback" in (error.value.hint or "")
    assert seen.get() == before, "who reads it once has not accepted it for good"


def test_a_restore_refuses_a_store_that_was_put_back_and_is_the_same_restore_when_it_is_accepted(
    tmp_path: Path,
) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders")
        for _ in range(3):
            site.source.write("orders", [b"x"])
            site.back_up("orders")
        site.repository.store.delete(site.backup.layout.commit_key(3))
        with pytest.raises(CommitsGone, match="existed and is missing now"):
            site.plan_restore()
        planned = site.plan_restore(accept_rollback=True)
        assert planned.plan.commit == 2
        assert "accept_rollback" not in dict(planned.record.request)


def test_commands_that_read_say_why_and_how_to_go_on(rolled_back: Backup) -> None:
    words = ["--repo", rolled_back.store.url, "--backup", "b"]
    for command in (["cat", "orders/0"], ["search", "--topics", "orders", "--key", "x"]):
        refused = CliRunner().invoke(app, [*command, *words])
        assert isinstance(refused.exception, CommitsGone)
    done = CliRunner().invoke(app, ["cat", "orders/0", *words, "--accept-rollback"])
    assert done.exit_code == 0, done.output


def test_a_folder_whose_name_is_no_utf_8_is_remembered_as_any_other() -> None:
    assert memory_folder("heads", "/data/\udcff") != memory_folder("heads", "/data/\udcfe")
