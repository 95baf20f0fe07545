from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from offsite.model.errors import DamagedCommit, DamagedObject, NoSuchRestorePoint
from offsite.repository import catalog, commit_history
from offsite.repository.backup import Backup
from offsite.repository.catalogs.new_catalog import CatalogObjects
from offsite.repository.catalogs.seal import PartsReader
from offsite.repository.commit import StoredCommit
from offsite.repository.commit_log import CommitLog
from offsite.repository.fold import fold
from offsite.repository.json_form import encode_canonical, encode_object
from offsite.repository.layout import parse_part_key
from offsite.repository.parquet import read_parquet
from offsite.repository.repository import Repository
from offsite.repository.segments.body import content_hash
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.verification.history import check_history
from offsite.upkeep.verification.run import verify_quick
from tests.backups import PARTITIONS, new_backup, run_once

COMMITS = 23


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a backup of 23 commits, and catalogs at 10 and 20."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catalog, "COMMITS_PER_CATALOG", 10)
        backup = new_backup(open_folder(folder))
        for _ in range(COMMITS):
            run_once(backup)
    return folder


@pytest.fixture
def backup(made: Path, store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """A copy of that one."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 10)
    shutil.copytree(made, store.root, dirs_exist_ok=True)
    return Repository.open(store).backup("b")


def damage(store: PosixStore, key: str, data: bytes | None = b"garbage") -> None:
    path = store.root / key
    path.unlink()
    if data is not None:
        path.write_bytes(data)


def forge_catalog(store: PosixStore, backup: Backup, seq: int) -> None:
    """Replace the catalog of commit `seq` by a whole one that lacks a segment."""
    state = backup.catalog.state(upto=seq)
    lacking = SegmentList(tuple(state.segments[PARTITIONS[0]])[1:])
    forged = replace(state, segments={**state.segments, PARTITIONS[0]: lacking})
    for key, data in CatalogObjects.of(forged, PartsReader(log=backup.log, seq=seq, is_strict=True)).objects:
        if store.head(key) is not None:
            damage(store, key, data)
        else:
            store.put_if_absent(key, data)


def test_a_whole_history_is_whole(backup: Backup) -> None:
    found = check_history(backup)
    assert (found.head, found.commits, found.catalogs) == (backup.state(), (), ())


def test_each_part_is_read_once_however_many_catalogs_name_it(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 4)
    backup = new_backup(store)
    for _ in range(COMMITS):
        run_once(backup)
    read: list[str] = []
    get = PosixStore.get
    monkeypatch.setattr(PosixStore, "get", lambda self, key: (read.append(key), get(self, key))[1])
    assert check_history(backup).catalogs == ()
    parts = [key for key in read if parse_part_key(key) is not None]
    assert len(parts) == len(set(parts)) == len(list(store.list(backup.layout.parts_prefix)))


@pytest.mark.parametrize("data", [None, b"garbage", b""])
def test_a_commit_below_the_newest_catalog_is_looked_at(store: PosixStore, backup: Backup, data: bytes | None) -> None:
    damage(store, backup.layout.commit_key(5), data)
    (lost,) = check_history(backup).commits
    assert (lost.first_commit, lost.last_commit) == (5, 9)  # the catalog of 10 is vouched for by 11
    assert backup.layout.commit_key(5) in lost.problem
    assert backup.state().seq == COMMITS  # opening may trust a catalog
    with pytest.raises(DamagedCommit):
        backup.state_at(7)
    assert (backup.state_at(4).seq, backup.state_at(10).seq) == (4, 10)


def test_each_damaged_commit_is_told(store: PosixStore, backup: Backup) -> None:
    for seq in (3, 5, 15, 22):
        damage(store, backup.layout.commit_key(seq))
    found = check_history(backup)
    assert [(each.first_commit, each.last_commit) for each in found.commits] == [(3, 4), (5, 9), (15, 19), (22, 23)]
    assert found.head.seq == 21


def test_a_commit_that_does_not_follow_is_damage_from_there_on(store: PosixStore, backup: Backup) -> None:
    path = store.root / backup.layout.commit_key(15)
    forged = path.read_bytes()[:-85].replace(b'"writer":"', b'"writer":"x') + b"}\n"
    damage(store, backup.layout.commit_key(15), encode_object(_fields(forged)))
    (lost,) = check_history(backup).commits
    assert (lost.first_commit, lost.last_commit) == (15, 19)
    assert "hash of commit 15" in lost.problem
    with pytest.raises(DamagedCommit):
        backup.state_at(15)


def test_a_forged_catalog_is_not_used_and_is_found(store: PosixStore, backup: Backup) -> None:
    whole = backup.state()
    forge_catalog(store, backup, 20)
    assert backup.state() == whole
    (found,) = check_history(backup).catalogs
    assert found.key == backup.layout.seal_key(20)


def test_a_catalog_that_nobody_names_yet_is_not_used(store: PosixStore, backup: Backup) -> None:
    whole = backup.catalog.state(upto=20)
    forge_catalog(store, backup, 20)
    for seq in (21, 22, 23):
        damage(store, backup.layout.commit_key(seq), None)
    assert backup.state() == whole


def test_a_catalog_that_says_something_else_than_the_commits_is_found(store: PosixStore, backup: Backup) -> None:
    """Even where a commit names it: then its writer was wrong."""
    forge_catalog(store, backup, 20)
    seal = (store.root / backup.layout.seal_key(20)).read_bytes()
    renamed = _fields((store.root / backup.layout.commit_key(21)).read_bytes())
    renamed["catalog"] = catalog.commit_hash(seal)
    for seq in (22, 23):
        damage(store, backup.layout.commit_key(seq), None)
    damage(store, backup.layout.commit_key(21), encode_object(renamed))
    assert [each.key for each in check_history(backup).catalogs] == [backup.layout.catalog_key(20)]


@pytest.mark.parametrize(
    ("column", "value"), [("compression", "none\0"), ("start", 1 << 60), ("timestamp_types", None), ("hash", b"\xff")]
)
def test_a_forged_catalog_whose_rows_are_no_segments_is_damage(
    store: PosixStore, backup: Backup, column: str, value: object
) -> None:
    """Its seal and the commit that names it are as good as any."""
    seal = _fields((store.root / backup.layout.seal_key(20)).read_bytes())
    named = seal["segments"][-1]
    key = named["key"]
    table = read_parquet((store.root / key).read_bytes())
    at = table.schema.get_field_index(column)
    cells = pa.array([value] * table.num_rows, type=pa.binary() if isinstance(value, bytes) else table.field(at).type)
    forged = table.set_column(at, table.field(at), pa.chunked_array([cells.view(table.field(at).type)]))
    sink = io.BytesIO()
    parquet.write_table(forged, sink)
    damage(store, key, sink.getvalue())
    named["hash"] = content_hash(sink.getvalue())
    sealed = encode_object(seal)
    damage(store, backup.layout.seal_key(20), sealed)
    renamed = _fields((store.root / backup.layout.commit_key(21)).read_bytes())
    damage(store, backup.layout.commit_key(21), encode_object(renamed | {"catalog": catalog.commit_hash(sealed)}))
    for seq in (22, 23):
        damage(store, backup.layout.commit_key(seq), None)
    assert [each.key for each in check_history(backup).catalogs] == [backup.layout.seal_key(20)]
    with pytest.raises(DamagedObject):
        tuple(backup.catalog.read(20).all_segments())
    assert backup.state() == fold(BackupState(backup="b"), backup.log.read(after=0)), "the commits tell"


def test_damage_to_the_newest_commit_leaves_those_before_it(store: PosixStore, backup: Backup) -> None:
    damage(store, backup.layout.commit_key(COMMITS))
    told: list[str] = []
    found = Repository.open(store, on_damage=told.append).backup("b")
    assert (found.sound_state().seq, len(told)) == (COMMITS - 1, 1)
    assert found.state_at(COMMITS - 1) == found.sound_state()
    with pytest.raises(DamagedCommit):
        found.state_at(COMMITS)
    with pytest.raises(NoSuchRestorePoint):
        backup.state_at(0)
    with pytest.raises(DamagedCommit):
        found.state()  # nobody goes on from there
    result = verify_quick(found)
    assert (result.ok, result.head_commit) == (False, COMMITS - 1)


@pytest.mark.parametrize("bad", [2, 12, 21])
def test_what_can_be_opened_ends_before_the_first_damaged_commit(store: PosixStore, backup: Backup, bad: int) -> None:
    for seq in (10, 20):
        damage(store, backup.layout.seal_key(seq), None)
    damage(store, backup.layout.commit_key(bad))
    state = backup.sound_state()
    assert (state.seq, bool(state.unreadable)) == (bad - 1, True)


def test_a_commit_that_the_next_one_disowns_is_not_used(store: PosixStore, backup: Backup) -> None:
    """Such as one of an earlier version, without a digest, in which a bit flipped."""
    fields = _fields((store.root / backup.layout.commit_key(22)).read_bytes())
    damage(store, backup.layout.commit_key(22), encode_canonical(fields | {"writer": "another"}))
    assert backup.sound_state().seq == 21
    with pytest.raises(DamagedCommit):
        backup.state_at(22)
    found = check_history(backup)
    assert (found.head.seq, [(each.first_commit, each.last_commit) for each in found.commits]) == (21, [(22, 23)])


def test_two_damaged_places_are_told_of_at_once(store: PosixStore, backup: Backup) -> None:
    damage(store, backup.layout.commit_key(5))
    fields = _fields((store.root / backup.layout.commit_key(11)).read_bytes())
    damage(store, backup.layout.commit_key(11), encode_object(fields | {"previous": "0" * 64}))
    found = check_history(backup)
    assert [(each.first_commit, each.last_commit) for each in found.commits] == [(5, 9), (10, 19)]
    assert found.head == backup.state()


def test_behind_damage_that_is_told_nothing_else_is_called_missing(store: PosixStore, backup: Backup) -> None:
    damage(store, backup.layout.commit_key(5), None)
    for seq in (10, 20):
        damage(store, backup.layout.seal_key(seq))
    found = check_history(backup)
    assert [(each.first_commit, each.last_commit) for each in found.commits] == [(5, COMMITS)]
    assert backup.layout.commit_key(5) in found.commits[0].problem


def test_a_catalog_that_the_next_commit_does_without_is_nobody_s(store: PosixStore, backup: Backup) -> None:
    """A killed run left it, and another version of what writes Parquet makes other bytes."""
    whole = backup.state()
    for seq in (21, 22, 23):
        damage(store, backup.layout.commit_key(seq), None)
    for key in (backup.layout.history_key(20), backup.layout.catalog_key(20), backup.layout.seal_key(20)):
        damage(store, key, b"of another version")
    for _ in range(3):
        run_once(backup)
    assert backup.state().positions == whole.positions
    found = check_history(backup)
    assert (found.commits, found.catalogs) == ((), ())


def test_a_catalog_that_is_written_while_a_check_runs_is_no_damage(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = CommitLog.try_read

    def with_a_writer_beside_it(log: CommitLog, *, after: int) -> Iterator[tuple[int, StoredCommit | DamagedCommit]]:
        yield from read(log, after=after)
        monkeypatch.setattr(CommitLog, "try_read", read)
        for _ in range(10):
            run_once(backup)

    monkeypatch.setattr(CommitLog, "try_read", with_a_writer_beside_it)
    checked = check_history(backup)
    assert backup.catalog.hinted() == 30
    assert (checked.head.seq, checked.commits, checked.catalogs) == (COMMITS, (), ())


def test_a_hint_at_a_catalog_that_is_not_there_is_told(store: PosixStore, backup: Backup) -> None:
    damage(store, backup.layout.seal_key(20), None)
    (found,) = check_history(backup).catalogs
    assert (found.key, found.problem[:26]) == (backup.layout.hint_key, "it names a catalog 20, whi")


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_in_the_place_of_a_commit_is_a_damaged_commit(
    store: PosixStore, backup: Backup, kind: str, tmp_path: Path
) -> None:
    path = store.root / backup.layout.commit_key(COMMITS)
    path.rename(tmp_path / "kept")
    {"pipe": os.mkfifo, "link": lambda at: at.symlink_to(tmp_path / "kept"), "folder": Path.mkdir}[kind](path)
    assert backup.sound_state().seq == COMMITS - 1
    assert [each.first_commit for each in check_history(backup).commits] == [COMMITS]


def test_what_is_no_file_in_the_place_of_a_segment_is_damage_that_is_told(store: PosixStore, backup: Backup) -> None:
    (segment, *_) = backup.state().all_segments()
    (store.root / segment.key).unlink()
    os.mkfifo(store.root / segment.key)
    assert [each.key for each in verify_quick(backup).damaged] == [segment.key]


def test_without_a_sound_commit_nothing_can_be_opened(store: PosixStore, backup: Backup) -> None:
    for seq in (10, 20):
        damage(store, backup.layout.seal_key(seq), None)
    damage(store, backup.layout.commit_key(1))
    with pytest.raises(DamagedCommit):
        backup.sound_state()
    assert [(each.first_commit, each.last_commit) for each in check_history(backup).commits] == [(1, COMMITS)]


def _fields(data: bytes) -> dict[str, Any]:
    import json

    fields: dict[str, Any] = json.loads(data)
    fields.pop("digest", None)
    return fields
