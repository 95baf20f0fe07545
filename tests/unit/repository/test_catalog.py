from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import DamagedCommit, DamagedObject
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.catalog import Catalog
from offsite.repository.commit import Checkpoint, CommitChanges, RecordedHole, SnapshotRef
from offsite.repository.fold import fold
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import PARTITIONS, new_backup, run_once
from tests.examples import sampled

COMMITS = 23


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


SETTINGS = SnapshotRef(key="backups/b/metadata/x.json", hash="blake3:0")


@pytest.fixture
def backup(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """A backup of 23 commits with catalogs at 10 and 20, holes, a checkpoint, a removal and a forgotten commit."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 10)
    backup = new_backup(store)
    state = run_once(backup)
    hole = RecordedHole(partition_id=PARTITIONS[0], start=20, end=30, reason="retention")
    taken = Checkpoint(id=3, taken_at_ms=5, ends=((PARTITIONS[0], 20),))
    state = backup.commit(
        CommitChanges(holes=(hole,), checkpoint=taken, forgotten=((1, 2),), metadata=SETTINGS), base=state, writer="w"
    )
    removed = (state.segments[PARTITIONS[1]][0].key,)
    backup.commit(CommitChanges(removed=removed), base=state, writer="w")
    for _ in range(COMMITS - 3):
        run_once(backup)
    return backup


def folded(backup: Backup, upto: int = COMMITS) -> BackupState:
    return fold(BackupState(backup="b"), backup.log.read(after=0, upto=upto))


def test_a_state_from_a_catalog_equals_the_folded_one(backup: Backup) -> None:
    assert backup.state() == folded(backup)
    for upto in (5, 10, 15, 20, 22):
        assert backup.catalog.state(upto=upto) == folded(backup, upto)
    assert backup.catalog.read(20) == folded(backup, 20)


def test_a_catalog_of_a_state_from_a_catalog_is_whole(backup: Backup) -> None:
    state = backup.catalog.state(upto=15)
    Catalog(log=backup.log).write(state)
    assert backup.catalog.read(15) == folded(backup, 15)


def test_the_last_segments_are_known_without_the_others(backup: Backup) -> None:
    lists = backup.catalog.read(20).segments
    assert {known: found.last for known, found in lists.items()} == {
        known: found[-1] for known, found in folded(backup, 20).segments.items()
    }


def test_opening_reads_only_the_newest_commits(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = PosixStore.get
    monkeypatch.setattr(PosixStore, "get", lambda self, key: (read.append(key), get(self, key))[1])
    backup.state()
    commits = sorted(key for key in read if "/commits/" in key)
    assert commits == [backup.layout.commit_key(seq) for seq in (20, 21, 22, 23)]


@pytest.mark.parametrize("hint", [None, b"", b"{", b'{"format":1,"seq":10}', b'{"format":1,"seq":99}', b'{"format":9}'])
def test_the_hint_is_never_trusted(store: PosixStore, backup: Backup, hint: bytes | None) -> None:
    whole = folded(backup)
    if hint is None:
        store.delete(backup.layout.hint_key)
    else:
        store.put_overwrite(backup.layout.hint_key, hint)
    assert backup.state() == whole


@pytest.mark.parametrize("name", ["catalog_key", "history_key", "seal_key"])
def test_damaged_catalogs_are_named_and_passed_over(store: PosixStore, backup: Backup, name: str) -> None:
    whole = folded(backup)
    for seq in (20, 10):
        path = store.root / getattr(backup.layout, name)(seq)
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(DamagedObject):
            backup.catalog.read(seq)
        assert backup.state() == whole


def test_every_flipped_bit_of_a_catalog_is_found_or_harmless(store: PosixStore, backup: Backup) -> None:
    whole = folded(backup)
    for key in (backup.layout.catalog_key(20), backup.layout.history_key(20), backup.layout.seal_key(20)):
        path = store.root / key
        data = path.read_bytes()
        for position in sampled(range(0, len(data), max(1, len(data) // 60))):
            flipped = bytearray(data)
            flipped[position] ^= 1 << (position % 8)
            path.write_bytes(flipped)
            assert backup.state() == whole, position
        path.write_bytes(data)


def test_a_catalog_of_another_history_is_not_used(store: PosixStore, backup: Backup, tmp_path: Path) -> None:
    other_store = open_folder(tmp_path / "other")
    other = new_backup(other_store)
    for _ in range(21):
        run_once(other)
    for key in (backup.layout.catalog_key(20), backup.layout.history_key(20), backup.layout.seal_key(20)):
        (store.root / key).write_bytes((other_store.root / key).read_bytes())
    assert backup.state() == folded(backup)


def test_a_segment_of_a_partition_without_a_position_is_damage(backup: Backup) -> None:
    """Nobody could say how far it may be read."""
    first, *_ = backup.log.read(after=0, upto=1)
    bare = replace(first, commit=replace(first.commit, changes=replace(first.commit.changes, positions=())))
    with pytest.raises(DamagedCommit, match="no position for backups/b/topics/"):
        fold(BackupState(backup="b"), [bare])
