"""Folders below `backups/` that somebody else made: they hide no backup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, find_unnamed_folders
from offsite.repository.repository import Repository, strangers_around
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.store import ObjectInfo
from tests.backups import SELECTION, run_once
from tests.faulty_store import FaultyStore


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


@pytest.fixture
def repository(store: PosixStore) -> Repository:
    made = Repository.init(store)
    for name in ("a", "z"):
        run_once(made.create_backup(name, cluster_id="c", selection=SELECTION))
    return made


def put_foreign(store: PosixStore, name: str) -> None:
    folder = store.root / "backups" / name
    folder.mkdir()
    long_ago = 1 - LEFTOVER_AFTER_MS / 1000
    for file in ("backup.json", "x"):
        (folder / file).write_bytes(b"{}")
        os.utime(folder / file, (long_ago, long_ago))


@pytest.mark.parametrize("name", ["we ird", "esc\x1b[31m", "a..b", "-", "\udcff"])
def test_a_folder_that_can_be_no_backup_is_passed_over_and_named(
    repository: Repository, store: PosixStore, name: str
) -> None:
    put_foreign(store, name)
    assert repository.backups() == ("a", "z")
    assert list(strangers_around(store)) == [f"backups/{name}/backup.json", f"backups/{name}/x"]
    assert find_unnamed_folders(repository) == ()


@pytest.mark.parametrize(
    "command",
    [("list",), ("status",), ("verify", "--backup", "a"), ("verify", "--backup", "a", "--leftovers"), ("show", "a")],
)
@pytest.mark.usefixtures("repository")
def test_commands_go_on_beside_it(store: PosixStore, command: tuple[str, ...]) -> None:
    put_foreign(store, "we ird")
    done = CliRunner().invoke(app, [*command, "--repo", str(store.root)])
    assert done.exit_code == 0, done.output
    assert ("we ird" in done.stdout) == (command[0] in {"status", "verify"})


def test_a_store_that_encodes_what_it_is_asked_for_does_not_list_a_folder_for_ever(repository: Repository) -> None:
    class Encoding(FaultyStore):
        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            foreign = ObjectInfo(key="backups/we~ird/x", size_bytes=0, modified_ms=0)
            listed = sorted((*self.inner.list(prefix), foreign), key=lambda info: info.key)
            return (info for info in listed if info.key > start_after.replace("~", "%7E"))

    assert replace(repository, store=Encoding(repository.store)).backups() == ("a", "z")
