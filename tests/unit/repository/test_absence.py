"""What is not there any more is not taken for what never was."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BackupNotFound, CommitLost, DamagedCommit, DamagedObject
from offsite.overview.status import read_status
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, RecordedHole
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from tests.backups import PARTITIONS, commit_next, new_backup, run_once, write_segment


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backup:
    """Seven commits, with a catalog of the first five."""
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 5)
    made = new_backup(open_folder(tmp_path / "repository"))
    for _ in range(7):
        run_once(made)
    return made


def test_commits_that_a_catalog_knows_of_are_not_made_again(backup: Backup) -> None:
    for seq in (4, 5, 6, 7):
        backup.store.delete(backup.layout.commit_key(seq))
    state = backup.state()
    assert (state.seq, backup.lost_commit(state)) == (3, 5)  # what is left can be restored
    with pytest.raises(DamagedCommit, match="commit 5 of b is missing"):
        run_once(backup)
    (status,) = read_status(Repository.open(backup.store)).backups
    assert f"commits 4 to 5 are missing, but their catalog exists: {backup.layout.seal_key(5)}" in status.problems


def test_a_writer_that_is_late_is_late_and_nothing_is_lost(backup: Backup) -> None:
    late = backup.catalog.state(upto=4)
    assert backup.lost_commit(late) is None
    with pytest.raises(CommitLost):
        commit_next(backup, late)


def test_a_restore_point_that_cannot_be_reached_is_damage(backup: Backup) -> None:
    head = backup.state()
    backup.store.delete(backup.layout.commit_key(7))
    for seq in (5, 6):
        backup.store.delete(backup.layout.commit_key(seq))
    with pytest.raises(DamagedCommit, match=r"00005\.json is missing"):
        backup.state_at(6, head=head)


def test_a_backup_that_lost_its_description_is_listed_and_not_opened(backup: Backup) -> None:
    repository = Repository.open(backup.store)
    backup.store.delete(backup.layout.descriptor_key)
    assert repository.backups() == ("b",)
    with pytest.raises(DamagedObject, match=r"backup\.json is missing"):
        repository.backup("b")
    assert not read_status(repository).safe
    with pytest.raises(BackupNotFound):
        repository.backup("other")


def test_what_was_removed_since_a_restore_point_is_a_hole_of_it(backup: Backup) -> None:
    first, second, third = backup.state().segments[PARTITIONS[0]][:3]
    merged = write_segment(backup.store, backup, PARTITIONS[0], first.start, second.end)
    backup.commit(
        CommitChanges(removed=(first.key, second.key), segments=(merged,)), base=backup.state(), writer="merges"
    )
    assert backup.state_at(3).holes == ()
    backup.commit(CommitChanges(removed=(merged.key, third.key)), base=backup.state(), writer="removes")
    gone = [
        RecordedHole(partition_id=PARTITIONS[0], start=each.start, end=each.end, reason="removed")
        for each in (first, second, third, merged)
    ]
    assert backup.state_at(1).holes == (gone[0],)
    assert backup.state_at(5).holes == (*gone[:3],)
    assert backup.state_at(8).holes == (gone[3], gone[2])
