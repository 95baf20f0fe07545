"""Who may read a repository on disk: its owner alone, or those whom the owner of the root folder let in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.stores.plain_files import file_mode, folder_mode, make_private_root
from offsite.stores.posix_store import PosixStore, open_folder


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def write_all(store: PosixStore) -> None:
    store.put_if_absent("a/b/k", b"content")
    store.put_overwrite("a/hint", b"1")
    store.now_ms()


def modes(root: Path) -> set[tuple[bool, int]]:
    """Of all that lies below: whether it is a folder, and its mode."""
    return {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in root.rglob("*")}


def test_a_folder_that_offsite_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "parents" / "repository")
    store.prepare()
    write_all(store)
    assert stat.S_IMODE(store.root.stat().st_mode) == 0o700
    assert modes(store.root) == {(True, 0o700), (False, 0o600)}


@pytest.mark.parametrize(
    ("root", "folders", "files"),
    [
        (0o750, 0o750, 0o640),
        (0o755, 0o750, 0o640),
        (0o770, 0o750, 0o640),
        (0o711, 0o710, 0o600),
        (0o2750, 0o750, 0o640),
    ],
)
def test_a_folder_that_was_there_keeps_its_mode_and_hands_it_on(
    tmp_path: Path, root: int, folders: int, files: int
) -> None:
    store = open_folder(tmp_path / "repository")
    store.root.mkdir()
    store.root.chmod(root)
    store.prepare()
    write_all(store)
    assert stat.S_IMODE(store.root.stat().st_mode) == root
    assert {(is_folder, mode & 0o777) for is_folder, mode in modes(store.root)} == {(True, folders), (False, files)}


def test_the_umask_takes_away_as_ever(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "repository")
    store.root.mkdir(mode=0o755)
    os.umask(0o077)
    write_all(store)
    assert modes(store.root) == {(True, 0o700), (False, 0o600)}


def test_what_the_owner_needs_is_never_missing(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir(mode=0o500)
    make_private_root(tmp_path / "root")
    assert (folder_mode(tmp_path / "root"), file_mode(tmp_path / "root")) == (0o700, 0o600)
