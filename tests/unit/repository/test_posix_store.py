from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.model.errors import OffsiteError, StoreDenied, StoreFull, StoreUnreachable
from offsite.model.units import MIB
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.store import PutResult


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repository")
    store.prepare()
    return store


def in_child(act: Callable[[], None]) -> str:
    """The id of the offsite error that `act` ends with in a forked process, or empty."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "other"
        try:
            act()
            answer = ""
        except OffsiteError as error:
            answer = error.id
        finally:
            os.write(writer, answer.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def as_nobody(act: Callable[[], None]) -> Callable[[], None]:
    """Root may do anything: give that up first."""

    def run() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        act()

    return run


def test_a_folder_that_may_not_be_read_is_denied(store: PosixStore, tmp_path: Path) -> None:
    store.put_if_absent("a/k", b"content")
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    (store.root / "a").chmod(0)
    assert in_child(as_nobody(lambda: store.get("a/k") and None)) == StoreDenied.id
    assert in_child(as_nobody(lambda: list(store.list("")) and None)) == StoreDenied.id
    assert in_child(as_nobody(lambda: store.put_if_absent("a/x", b"") and None)) == StoreDenied.id
    (store.root / "a").chmod(0o755)


def test_a_full_disk_is_full_and_leaves_nothing(store: PosixStore) -> None:
    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))  # the kernel refuses the next byte, as a full disk does
        store.put_if_absent("large", bytes(2 * MIB))

    assert in_child(fill) == StoreFull.id
    assert list(store.list("")) == []
    assert list((store.root / "~tmp").iterdir()) == []
    assert store.put_if_absent("large", b"small") is PutResult.CREATED


def test_a_folder_that_is_not_mounted_is_never_made_by_a_write(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "not-mounted")
    for act in (
        lambda: store.put_if_absent("k", b""),
        lambda: store.put_overwrite("k", b""),
        lambda: store.open_write("k"),
        store.now_ms,
        lambda: list(store.list("")),
    ):
        with pytest.raises(StoreUnreachable) as caught:
            act()
        assert socket.gethostname() in caught.value.message
    assert store.get("k") is None
    assert not store.root.exists()


def test_a_killed_writer_leaves_only_what_can_be_swept(store: PosixStore) -> None:
    def die() -> None:
        writer = store.open_write("a/k")
        writer.write(bytes(10 * MIB))
        os.kill(os.getpid(), signal.SIGKILL)

    in_child(die)
    assert list(store.list("")) == []
    (left,) = (store.root / "~tmp").iterdir()
    assert left.name.startswith(f"{socket.gethostname()}-")
    assert store.sweep_unfinished(before_ms=store.now_ms() + 60_000) == 1
    assert store.put_if_absent("a/k", b"again") is PutResult.CREATED


def test_a_folder_that_vanishes_is_made_again(store: PosixStore) -> None:
    store.put_if_absent("a/b/c", b"one")
    (store.root / "a/b/c").unlink()
    (store.root / "a/b").rmdir()
    assert store.put_if_absent("a/b/c", b"two") is PutResult.CREATED


def test_a_root_that_vanishes_is_not_made_again(store: PosixStore) -> None:
    """It is a disk that is not mounted any more."""
    store.put_if_absent("a/b/c", b"one")
    store.root.rename(store.root.with_name("elsewhere"))
    with pytest.raises(StoreUnreachable):
        store.put_if_absent("a/b/c", b"two")
    assert not store.root.exists()


@pytest.mark.parametrize("prefix", ["", "backups/"])
def test_a_root_that_is_no_folder_does_not_tell_that_there_is_nothing(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnreachable):
        list(open_folder(tmp_path / "file").list(prefix))


def test_links_inside_are_not_followed_when_listing(store: PosixStore, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (store.root / "link").symlink_to(tmp_path / "outside")
    store.put_if_absent("k", b"")
    assert [info.key for info in store.list("")] == ["k"]
