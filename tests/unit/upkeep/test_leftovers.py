from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.archives.import_staging import find_staging_copies
from offsite.cli.app import app
from offsite.repository.backup import Backup
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, put_record
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.verification.leftovers import CONTINUE, DRILL, UNNAMED, Leftovers, find_leftovers
from tests.backups import PARTITIONS, new_backup, run_once, write_segment


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def leave(store: PosixStore) -> Backup:
    """A backup with one of everything that can be left over, all of it two days old."""
    backup = new_backup(store)
    run_once(backup)
    write_segment(store, backup, PARTITIONS[0], 100, 120)
    for name, target in (("restore", "orders"), ("drill", "offsite-drill-1-orders")):
        layout = RestoreLayout(backup=backup.layout, restore=name)
        put_record(store, layout, record(name, target))
    store.put_if_absent(f"backups/unborn/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"12345")
    for path in store.root.rglob("*"):
        then_s = path.stat().st_mtime - 2 * LEFTOVER_AFTER_MS / 1000
        os.utime(path, (then_s, then_s))
    return backup


def record(name: str, target: str) -> RestoreRecord:
    return RestoreRecord(
        restore=name,
        commit=1,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="auto",
        created_at_ms=0,
        topics=(("orders", target),),
        created=(),
    )


def found(backup: Backup, *, listed: bool = True) -> Leftovers:
    repository = Repository.open(backup.store)
    staged = find_staging_copies(repository, quiet_for_ms=LEFTOVER_AFTER_MS)
    return find_leftovers(repository, backup, staged=staged, listed=listed)


def test_each_leftover_comes_with_what_to_do_about_it(store: PosixStore) -> None:
    left = found(leave(store))
    assert (left.objects, [each.kind for each in left.listed]) == (1, ["segment"])
    assert left.bytes == left.listed[0].bytes > 0
    assert {each.restore: each.next_step for each in left.restores} == {"restore": CONTINUE, "drill": DRILL}
    assert [(each.place, each.bytes, each.next_step) for each in left.folders] == [
        (f"{store.root}/backups/unborn/", 5, UNNAMED)
    ]


def test_objects_are_counted_always_and_named_when_that_is_asked_for(store: PosixStore) -> None:
    left = found(leave(store), listed=False)
    assert (left.objects, left.listed) == (1, ())


def test_a_damaged_record_of_a_restore_is_told_and_hides_nothing_else(store: PosixStore) -> None:
    backup = leave(store)
    (store.root / RestoreLayout(backup=backup.layout, restore="drill").record_key).write_bytes(b"{")
    left = found(backup)
    assert left.objects == 1
    assert "restore.json" in left.problem


def test_verify_counts_what_is_left_over_and_names_it_with_leftovers(store: PosixStore) -> None:
    backup = leave(store)
    command = ["verify", "--repo", str(store.root), "--backup", backup.descriptor.name]
    counted, named = (CliRunner().invoke(app, [*command, *more]) for more in ([], ["--leftovers"]))
    assert (counted.exit_code, named.exit_code) == (0, 0)
    assert "left over: 1 object that no restore needs (" in counted.stdout
    assert "2 unfinished restores, 1 copy beside it (5 B); --leftovers lists them" in counted.stdout
    assert "segment: backups/b/topics/orders/partition=0/" in named.stdout
    assert CONTINUE in named.stdout
    assert "offsite collect plan lists them, collect run deletes them" in named.stdout


def test_verify_says_nothing_of_leftovers_where_there_are_none(store: PosixStore) -> None:
    run_once(new_backup(store))
    done = CliRunner().invoke(app, ["verify", "--repo", str(store.root), "--backup", "b"])
    assert "left over" not in done.stdout
