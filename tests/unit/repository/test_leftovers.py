from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from offsite.model.errors import StoreDenied
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, SnapshotRef
from offsite.repository.layout import index_key, parse_part_key
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, find_orphans, find_quiet_restores, find_unnamed_folders
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, RestoreRecord, put_outcome, put_record
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import ObjectInfo
from tests.backups import PARTITIONS, SELECTION, run_once, write_segment
from tests.faulty_store import FaultyStore


def days_pass(store: PosixStore, days: float = 1.1) -> None:
    """All that is there was written that much earlier."""
    for path in store.root.rglob("*"):
        if path.is_file():
            then_s = path.stat().st_mtime - days * LEFTOVER_AFTER_MS / 1000
            os.utime(path, (then_s, then_s))


def orphans(backup: Backup) -> list[tuple[str, str]]:
    return [(each.kind, each.info.key) for each in find_orphans(backup)]


def record(name: str) -> RestoreRecord:
    return RestoreRecord(
        restore=name,
        commit=1,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="auto",
        created_at_ms=0,
        topics=(("orders", "orders"),),
        created=(),
    )


def test_a_whole_backup_has_none_however_old_it_is(backup: Backup, store: PosixStore) -> None:
    groups, settings = backup.layout.groups_key(2, "0123abcd"), backup.layout.metadata_key(2, "0123abcd")
    store.put_if_absent(groups, b"")
    store.put_if_absent(settings, b"")
    cut = backup.layout.cuts_key(2, "0123abcd")
    store.put_if_absent(cut, b"")
    run_once(backup)
    metadata, named_cut = (SnapshotRef(key=key, hash="blake3:00") for key in (settings, cut))
    changes = CommitChanges(groups=groups, metadata=metadata, cut=named_cut)
    backup.commit(changes, base=backup.state(), writer="w")
    run_once(backup)
    days_pass(store, 400)
    assert orphans(backup) == []


def test_segments_indexes_and_snapshots_of_a_killed_run_are_found_when_they_are_a_day_old(
    backup: Backup, store: PosixStore
) -> None:
    run_once(backup)
    segment = write_segment(store, backup, PARTITIONS[0], 100, 120)
    index, groups = index_key(segment.key), backup.layout.groups_key(2, "11111111")
    settings, cut = backup.layout.metadata_key(2, "11111111"), backup.layout.cuts_key(2, "11111111")
    for key in (index, groups, settings, cut):
        store.put_if_absent(key, b"")
    assert orphans(backup) == []
    days_pass(store)
    assert orphans(backup) == [
        ("cut", cut),
        ("groups", groups),
        ("metadata", settings),
        ("index", index),
        ("segment", segment.key),
    ]


def test_a_run_that_takes_days_keeps_all_it_wrote_for_as_long_as_it_writes(backup: Backup, store: PosixStore) -> None:
    run_once(backup)
    first = write_segment(store, backup, PARTITIONS[0], 100, 120)
    days_pass(store, 3)
    write_segment(store, backup, PARTITIONS[0], 120, 140)
    assert orphans(backup) == []
    days_pass(store)
    assert ("segment", first.key) in orphans(backup)


def test_what_a_run_wrote_that_another_one_overtook_is_found_while_a_third_is_writing(
    backup: Backup, store: PosixStore
) -> None:
    overtaken = write_segment(store, backup, PARTITIONS[0], 100, 120)
    days_pass(store, 2)
    run_once(backup)
    write_segment(store, backup, PARTITIONS[0], 40, 60)
    assert orphans(backup) == [("segment", overtaken.key)]


def test_what_is_committed_while_one_looks_is_not_called_left_over(backup: Backup, store: PosixStore) -> None:
    class CommitsWhileListed(FaultyStore):
        def now_ms(self) -> int:
            return super().now_ms() + 2 * LEFTOVER_AFTER_MS

        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            yield from super().list(prefix, start_after=start_after)
            if prefix == backup.layout.topics_prefix:
                commit()

    run_once(backup)
    segment = write_segment(store, backup, PARTITIONS[0], 20, 40)
    base, commit = backup.state(), lambda: backup.commit(CommitChanges(segments=(segment,)), base=base, writer="w")
    seen = Backup(store=CommitsWhileListed(store), descriptor=backup.descriptor)
    assert find_orphans(seen) == ()


def test_a_catalog_without_a_seal_is_found_and_sealed_ones_stay(
    backup: Backup, store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)
    for _ in range(5):
        run_once(backup)
    store.delete(backup.layout.seal_key(4))
    days_pass(store)
    (part,) = (info.key for info in store.list(backup.layout.parts_prefix) if parse_part_key(info.key) == 4)
    assert orphans(backup) == [
        ("catalog", part),
        ("catalog", backup.layout.history_key(4)),
        ("catalog", backup.layout.catalog_key(4)),
    ]


def test_folders_without_the_object_that_makes_them_something_are_found(backup: Backup, store: PosixStore) -> None:
    layout = backup.layout
    whole = (f"{layout.group_change_prefix('y')}before.parquet", f"{layout.group_change_prefix('y')}change.json")
    kept = (*whole, layout.drill_key("y", "json"), layout.drill_key("y", "html"))
    left = (
        layout.drill_key("x", "html"),
        f"{layout.group_change_prefix('x')}before.parquet",
        RestoreLayout(backup=layout, restore="x").targets_key(1),
    )
    for key in (*kept, *left):
        store.put_if_absent(key, b"{}")
    days_pass(store)
    assert [kind for kind, _ in orphans(backup)] == ["drill", "group change", "restore"]
    assert [key for _, key in orphans(backup)] == list(left)


def test_a_restore_counts_as_unfinished_when_it_was_quiet_for_a_day_and_its_objects_are_kept(
    backup: Backup, store: PosixStore
) -> None:
    layouts = {name: RestoreLayout(backup=backup.layout, restore=name) for name in ("done", "dead", "living")}
    for name, layout in layouts.items():
        put_record(store, layout, record(name))
    ended = RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())
    put_outcome(store, layouts["done"], ended)
    days_pass(store)
    store.put_if_absent(f"{layouts['living'].prefix}maps/orders/0.map", b"")
    (quiet,) = find_quiet_restores(backup)
    assert (quiet.record.restore, quiet.folder.objects) == ("dead", 1)
    assert orphans(backup) == []


def test_what_a_first_import_left_lies_in_no_backup_and_is_found_all_the_same(store: PosixStore) -> None:
    repository = Repository.init(store)
    born = repository.create_backup("a", cluster_id="c", selection=SELECTION)
    run_once(born)
    store.put_if_absent(f"backups/a-b/topics/t/partition=0/t+0-{1:020}-0123abcd.log", b"12345")
    assert find_unnamed_folders(repository) == ()
    days_pass(store)
    (folder,) = find_unnamed_folders(repository)
    assert (folder.prefix, folder.objects, folder.size_bytes) == ("backups/a-b/", 1, 5)


@pytest.mark.parametrize("find", [find_orphans, find_quiet_restores])
def test_who_may_only_read_is_told_nothing_wrong(
    backup: Backup, store: PosixStore, find: Callable[[Backup], tuple[object, ...]]
) -> None:
    class ReadOnly(FaultyStore):
        def now_ms(self) -> int:
            raise StoreDenied("read only")

    put_record(store, RestoreLayout(backup=backup.layout, restore="dead"), record("dead"))
    write_segment(store, backup, PARTITIONS[0], 100, 120)
    days_pass(store)
    assert find(Backup(store=ReadOnly(store), descriptor=backup.descriptor)) == ()
