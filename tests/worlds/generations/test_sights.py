"""What the judge of real processes sees of a generation."""

from __future__ import annotations

from offsite.repository.backup import seal_backup
from offsite.repository.generation_sets.ledger import SetLayout
from offsite.repository.repository import Repository
from tests.backups import new_backup, run_once
from tests.memory_store import MemoryStore
from tests.worlds.generations.process import SET
from tests.worlds.generations.sights import BackupSight


def test_a_second_seal_is_no_change_and_a_commit_behind_a_seal_is_one() -> None:
    """A process that was stopped before its seal wakes up beside a successor that sealed."""
    store = MemoryStore()
    backup = new_backup(store, SetLayout(name=SET).backup_name(1))  # type: ignore[arg-type]
    sight = BackupSight(Repository.open(store))  # type: ignore[arg-type]
    run_once(backup)
    before = sight.ends(1)
    for _ in range(2):
        seal_backup(backup)
        assert sight.ends(1) == before
    run_once(backup)
    assert sight.ends(1) != before
