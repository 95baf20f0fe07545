from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.world.observe import BackupFacts, RepositoryFacts, summarize_state
from offsite.repository.commit import CommitChanges, LeftBehindPartition, PassProgress
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore
from tests.backups import PARTITIONS, new_backup, run_once
from tests.memory_store import MemoryStore

PLACE = RepositoryPlace(account="main", repository="s3://backups/kafka")


class CountingStore(MemoryStore):
    reads = 0

    def get(self, key: str) -> bytes | None:
        self.reads += 1
        return super().get(key)


def test_of_a_backup_that_is_not_there_nothing_is_known(tmp_path: Path) -> None:
    store = PosixStore(root=tmp_path)
    store.prepare()

    assert RepositoryFacts().read(PLACE, store, "b") == BackupFacts()


def test_a_backup_without_a_commit_holds_nothing() -> None:
    backup = new_backup(MemoryStore())

    assert RepositoryFacts().read(PLACE, backup.store, "b") == BackupFacts()


def test_a_complete_pass_makes_it_whole_and_later_commits_are_seen() -> None:
    backup, facts = new_backup(MemoryStore()), RepositoryFacts()
    first = run_once(backup)
    assert facts.read(PLACE, backup.store, "b") == BackupFacts(
        is_whole=True,
        oldest_commit=1,
        oldest_ms=first.committed_at_ms,
        latest_commit=1,
        latest_ms=first.committed_at_ms,
    )
    second = run_once(backup)
    found = facts.read(PLACE, backup.store, "b")

    assert (found.oldest_commit, found.latest_ms) == (1, second.committed_at_ms)


def test_a_first_pass_under_way_is_not_whole_and_one_cannot_restore_to_it() -> None:
    state = run_once(new_backup(MemoryStore()))
    found = summarize_state(replace(state, incomplete=True, completed_at_ms=0))

    assert (found.is_whole, found.oldest_commit, found.latest_commit, found.latest_ms) == (False, 1, 0, -1)


def test_a_look_without_news_reads_one_object() -> None:
    store, facts = CountingStore(), RepositoryFacts()
    backup = new_backup(store)
    run_once(backup)
    facts.read(PLACE, store, "b")
    store.reads = 0
    facts.read(PLACE, store, "b")

    assert store.reads == 1


def test_a_store_of_the_same_url_at_another_account_is_another_one() -> None:
    """Only their accounts say at which endpoint `s3://backups/kafka` is; and one may hold a copy of the other."""
    one, other, facts = MemoryStore(), MemoryStore(), RepositoryFacts()
    backup = new_backup(one)
    run_once(backup)
    for info in one.list(""):
        data = one.get(info.key)
        assert data is not None
        other.put_if_absent(info.key, data)
    run_once(backup)
    assert facts.read(PLACE, one, "b").latest_commit == 2

    assert facts.read(replace(PLACE, account="cellar"), other, "b").latest_commit == 1


def test_a_backup_that_was_deleted_is_forgotten() -> None:
    store, facts = MemoryStore(), RepositoryFacts()
    backup = new_backup(store)
    run_once(backup)
    facts.read(PLACE, store, "b")
    store.delete(backup.layout.descriptor_key)

    assert facts.read(PLACE, store, "b") == BackupFacts()


def test_a_backup_of_which_an_older_copy_was_put_back_is_read_anew() -> None:
    store, facts = MemoryStore(), RepositoryFacts()
    backup = new_backup(store)
    run_once(backup)
    older = dict(store.objects)
    run_once(backup)
    assert facts.read(PLACE, store, "b").latest_commit == 2
    store.objects = older

    assert facts.read(PLACE, store, "b").latest_commit == 1


def test_a_pass_under_way_is_seen_to_get_on_by_its_own_commits_only() -> None:
    backup, facts = new_backup(MemoryStore()), RepositoryFacts()
    state = run_once(backup)
    assert facts.read(PLACE, backup.store, "b").partial_ms == -1

    def commit(copied: int) -> BackupState:
        changes = CommitChanges(incomplete=True, progress=PassProgress(copied=copied, planned=9))
        return backup.commit(changes, base=backup.state(), writer="test")

    first = commit(1)
    assert facts.read(PLACE, backup.store, "b").partial_ms == first.committed_at_ms > state.committed_at_ms
    assert commit(1).committed_at_ms > first.committed_at_ms, "as a commit of retention"
    assert facts.read(PLACE, backup.store, "b").partial_ms == first.committed_at_ms
    assert commit(2).committed_at_ms == facts.read(PLACE, backup.store, "b").partial_ms


def test_partitions_that_are_left_behind_are_told_some_by_name() -> None:
    state = run_once(new_backup(MemoryStore()))
    assert summarize_state(state).left_behind == ""
    found = [PARTITIONS[0]._replace(partition=n) for n in range(7)]
    left = tuple(LeftBehindPartition(partition_id=each, error="OFF-1203") for each in found)
    told = summarize_state(replace(state, left_behind=left)).left_behind

    assert told == ", ".join(f"{each} (OFF-1203)" for each in found[:5]) + " and 2 more"
    long = tuple(replace(each, partition_id=each.partition_id._replace(topic="t" * 249)) for each in left)
    assert len(summarize_state(replace(state, left_behind=long)).left_behind) == 500
