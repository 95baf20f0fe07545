"""A repository whose folder somebody else has put things into: pipes, devices, links that lead out of it."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject
from offsite.model.selection import TopicSelection
from offsite.overview.status import read_status
from offsite.repository.commit import CommitChanges
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore, open_folder

PATIENCE_S = 60
FOREVER_MS = 1 << 60
OF_OUR_FORM = f"{socket.gethostname()}-1234-{'0123456789abcdef'}"

Make = Callable[[Path], object]
Use = Callable[[PosixStore], object]


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repository")
    store.prepare()
    return store


@pytest.fixture(autouse=True)
def no_waiting_for_ever() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("waited for somebody to write into the pipe")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # a socket's path must be short
        made.bind(path.name)


STRANGE: dict[str, Make] = {
    "pipe": os.mkfifo,
    "socket": make_socket,
    "folder": Path.mkdir,
    "link to a file": lambda path: path.symlink_to("/etc/hostname"),
    "link to a device": lambda path: path.symlink_to("/dev/null"),
    "link to a pipe": lambda path: (os.mkfifo(path.with_name("p")), path.symlink_to(path.with_name("p"))),
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to("nothing"),
}
USES: dict[str, Use] = {
    "get": lambda store: store.get("a/k"),
    "get_range": lambda store: store.get_range("a/k", 0, 10),
    "head": lambda store: store.head("a/k"),
    "put_if_absent": lambda store: store.put_if_absent("a/k", b"content"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE.keys())
def test_what_is_no_plain_file_is_named_and_not_waited_for(store: PosixStore, make: Make, use: Use) -> None:
    (store.root / "a").mkdir()
    make(store.root / "a" / "k")
    with pytest.raises(DamagedObject, match="a/k is a") as raised:
        use(store)
    assert raised.value.hint


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_folder_that_is_a_link_is_not_entered(store: PosixStore, tmp_path: Path, use: Use) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "k").write_bytes(b"content")
    (store.root / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(DamagedObject, match="a is a symbolic link"):
        use(store)
    with pytest.raises(DamagedObject):
        store.delete("a/k")
    with pytest.raises(DamagedObject):
        list(store.list("a/"))
    assert list(store.list("")) == []
    assert [each.name for each in (tmp_path / "outside").iterdir()] == ["k"]


def test_folders_that_link_to_each_other_are_named(store: PosixStore) -> None:
    (store.root / "a").symlink_to("b")
    (store.root / "b").symlink_to("a")
    for act in (lambda: store.get("a/x/k"), lambda: store.head("a/x/k"), lambda: list(store.list("a/x/"))):
        with pytest.raises(DamagedObject, match="a is a symbolic link"):
            act()


def test_the_root_may_be_a_link_which_its_user_made(store: PosixStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.root)
    linked = open_folder(tmp_path / "link")
    linked.prepare()
    linked.put_if_absent("a/k", b"content")
    linked.put_overwrite("a/hint", b"1")
    assert [each.key for each in linked.list("")] == ["a/hint", "a/k"]
    assert linked.get("a/k") == b"content"
    assert linked.sweep_unfinished(before_ms=FOREVER_MS) == 0
    linked.delete("a/k")
    assert store.get("a/k") is None


def test_a_sweep_stays_in_the_repository(store: PosixStore, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / OF_OUR_FORM).write_text("not ours")
    (store.root / "~tmp").symlink_to(tmp_path / "outside")
    with pytest.raises(DamagedObject, match="~tmp is a symbolic link"):
        store.sweep_unfinished(before_ms=FOREVER_MS)
    with pytest.raises(DamagedObject, match="~tmp is a symbolic link"):
        store.put_if_absent("k", b"")
    assert [each.name for each in (tmp_path / "outside").iterdir()] == [OF_OUR_FORM]


def test_a_sweep_takes_plain_files_with_names_of_ours_only(store: PosixStore, tmp_path: Path) -> None:
    store.put_if_absent("k", b"")
    ours, folder = store.root / "~tmp" / OF_OUR_FORM, store.root / "~tmp"
    ours.write_text("left by a crash")
    (folder / "notes.txt").write_text("somebody else's")
    (tmp_path / "target").write_text("somebody else's")
    named = [folder / f"host-{number}-{secrets.token_hex(8)}" for number in range(3)]
    named[0].symlink_to(tmp_path / "target")
    named[1].mkdir()
    os.mkfifo(named[2])
    assert store.sweep_unfinished(before_ms=FOREVER_MS) == 1
    assert {each.name for each in folder.iterdir()} == {"notes.txt", *(each.name for each in named)}
    assert (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["backup.json", f"commits/{1:020}.json", "catalog/hint.json"])
def test_a_pipe_in_one_backup_is_named_and_hides_no_other(store: PosixStore, name: str) -> None:
    repository = Repository.init(store)
    for backup in ("sick", "sound"):
        made = repository.create_backup(backup, cluster_id="c", selection=TopicSelection(include=("*",)))
        made.commit(CommitChanges(), base=made.state(), writer="w")
    path = store.root / "backups" / "sick" / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    assert repository.backups() == ("sick", "sound")
    (sick, sound) = read_status(repository).backups
    assert (sick.backup, sound.backup) == ("sick", "sound")
    assert not [each for each in sound.problems if "pipe" in each]
    if name != "catalog/hint.json":  # a hint is never trusted
        assert any("is a pipe" in each for each in sick.problems)
