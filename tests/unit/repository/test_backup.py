from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.buffer import Buffer
from offsite.model.errors import (
    BackupExists,
    BackupNotFound,
    BadName,
    CommitLost,
    Damaged,
    DamagedCommit,
    DamagedObject,
    FormatTooNew,
    NoSuchRestorePoint,
    RepositoryExists,
    RepositoryNotFound,
    StoreDenied,
)
from offsite.model.selection import TopicSelection
from offsite.repository.backup import UNFINISHED_AFTER_MS, Backup
from offsite.repository.commit import Checkpoint, CommitChanges, Position, RecordedHole
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import ROOT_KEY, BackupLayout
from offsite.repository.replaced import collected_hint, note_collected
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.posix_writer import TEMPORARY_FOLDER
from offsite.stores.store import PutResult
from tests.backups import PARTITIONS, SELECTION, SHAPES, STEP, commit_next, content, new_backup, run_once, write_segment
from tests.batches import make_log
from tests.examples import sampled
from tests.faulty_store import FaultyStore


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def test_a_repository_is_made_once(store: PosixStore) -> None:
    made = Repository.init(store)
    assert Repository.open(store).descriptor == made.descriptor
    with pytest.raises(RepositoryExists):
        Repository.init(store)
    assert Repository.open(store).descriptor == made.descriptor


def test_opening_nothing_says_how_to_make_one(store: PosixStore) -> None:
    with pytest.raises(RepositoryNotFound) as caught:
        Repository.open(store)
    assert caught.value.hint == f"create one: offsite init {store.url}"
    assert not store.root.exists()


def test_a_newer_format_is_refused(store: PosixStore) -> None:
    store.prepare()
    store.put_if_absent(ROOT_KEY, b'{"format": 2}')
    with pytest.raises(FormatTooNew):
        Repository.open(store)


def test_backups_are_listed_and_opened_by_name(store: PosixStore) -> None:
    repository = Repository.init(store)
    assert repository.backups() == ()
    for name in ("b", "a", "a-1", "a.x"):
        repository.create_backup(name, cluster_id="c", selection=SELECTION)
    assert repository.backups() == ("a", "a-1", "a.x", "b")
    assert repository.backup("a-1").descriptor.selection == SELECTION
    with pytest.raises(BackupNotFound):
        repository.backup("c")
    with pytest.raises(BadName):
        repository.backup("../b")


def test_a_backup_is_of_one_cluster_and_one_selection(store: PosixStore) -> None:
    repository = Repository.init(store)
    first = repository.create_backup("b", cluster_id="c", selection=SELECTION)
    assert repository.create_backup("b", cluster_id="c", selection=SELECTION).descriptor == first.descriptor
    with pytest.raises(BackupExists):
        repository.create_backup("b", cluster_id="other", selection=SELECTION)
    with pytest.raises(BackupExists):
        repository.create_backup("b", cluster_id="c", selection=TopicSelection(include=("x",)))


def test_what_an_import_lacks_is_kept_and_other_backups_are_written_as_before(store: PosixStore) -> None:
    repository = Repository.init(store)
    lacking = repository.create_backup("a", cluster_id="", selection=SELECTION, fidelity=("no times", "no groups"))
    assert repository.backup("a").descriptor == lacking.descriptor
    assert lacking.descriptor.fidelity == ("no times", "no groups")
    plain = repository.create_backup("b", cluster_id="c", selection=SELECTION)
    assert b"fidelity" not in (store.get(plain.layout.descriptor_key) or b"fidelity")


@pytest.mark.parametrize("may_overwrite", [True, False])
def test_what_collections_are_said_to_have_done_is_not_planted(store: PosixStore, *, may_overwrite: bool) -> None:
    """`collected.json` says which commits are judged no more: nobody else says it first."""
    repository = Repository.init(store)

    class Denied(FaultyStore):
        def put_overwrite(self, key: str, data: Buffer) -> None:
            raise StoreDenied(f"cannot overwrite {key}")

    creates = replace(repository, store=store if may_overwrite else Denied(store))  # type: ignore[arg-type]
    key = BackupLayout(backup="new").collected_key
    store.put_if_absent(key, encode_object({"format": FORMAT, "upto": 50}))
    if may_overwrite:
        creates.create_backup("new", cluster_id="cluster", selection=SELECTION)
        assert collected_hint(repository.backup("new")).upto == 0
        note_collected(repository.backup("new"), 3)
        creates.create_backup("new", cluster_id="cluster", selection=SELECTION)
        assert collected_hint(repository.backup("new")).upto == 3
        return
    with pytest.raises(BackupExists, match="somebody else wrote the object"):
        creates.create_backup("new", cluster_id="cluster", selection=SELECTION)
    assert repository.backups() == ()


def test_a_run_continues_where_the_last_commit_ended(store: PosixStore) -> None:
    backup = new_backup(store)
    for _ in range(3):
        run_once(backup)
    state = backup.state()
    assert (state.seq, len(state.history)) == (3, 3)
    assert content(store, state) == dict.fromkeys(PARTITIONS, make_log(0, 3 * STEP))
    assert {p.end for p in state.positions.values()} == {3 * STEP}
    assert state.history[-1].records == 3 * STEP
    assert tuple(state.topics.values()) == SHAPES


def test_topics_and_positions_are_committed_only_when_they_change(store: PosixStore) -> None:
    backup = new_backup(store)
    state = run_once(backup)
    again = backup.commit(
        CommitChanges(topics=SHAPES, positions=tuple(state.positions.values())), base=state, writer="w"
    )
    stored = backup.log.get(again.seq)
    assert stored is not None
    assert (stored.commit.changes.topics, stored.commit.changes.positions) == ((), ())
    assert again.topics == state.topics


def test_earlier_restore_points_stay_what_they_were(store: PosixStore) -> None:
    backup = new_backup(store)
    states = [run_once(backup) for _ in range(4)]
    for state in states:
        found = backup.state_at(state.seq)
        assert content(store, found) == dict.fromkeys(PARTITIONS, make_log(0, state.seq * STEP))
        assert (found.positions, found.segments) == (state.positions, state.segments)
    assert state_at_time(backup, states[1].committed_at_ms).committed_at_ms <= states[1].committed_at_ms
    assert state_at_time(backup, states[-1].committed_at_ms + 10**6).seq == 4
    for missing in (0, 5):
        with pytest.raises(NoSuchRestorePoint):
            backup.state_at(missing)
    with pytest.raises(NoSuchRestorePoint):
        state_at_time(backup, states[0].committed_at_ms - 1)


def state_at_time(backup: Backup, time_ms: int) -> BackupState:
    return backup.state_at(backup.commit_at_time(time_ms, head=backup.state()))


def test_a_restore_point_is_served_by_segments_merged_later(store: PosixStore) -> None:
    backup = new_backup(store)
    run_once(backup)
    state = run_once(backup)
    partition_id = PARTITIONS[0]
    merged = write_segment(store, backup, partition_id, 0, 2 * STEP)
    removed = tuple(segment.key for segment in state.segments[partition_id])
    head = backup.commit(CommitChanges(segments=(merged,), removed=removed), base=state, writer="w")
    assert [s.key for s in head.segments[partition_id]] == [merged.key]
    first = backup.state_at(1)
    assert [s.key for s in first.segments[partition_id]] == [merged.key]
    assert content(store, first) == dict.fromkeys(PARTITIONS, make_log(0, STEP))


def test_holes_checkpoints_groups_and_forgotten_commits_are_kept(store: PosixStore) -> None:
    backup = new_backup(store)
    state = run_once(backup)
    hole = RecordedHole(partition_id=PARTITIONS[0], start=20, end=30, reason="retention")
    taken = Checkpoint(id=7, taken_at_ms=5, ends=((PARTITIONS[0], 20),), classes=(("orders", "exact"),))
    key = backup.layout.groups_key(2, "0123abcd")
    store.put_if_absent(key, b"groups")
    state = backup.commit(CommitChanges(holes=(hole,), checkpoint=taken, groups=key), base=state, writer="w")
    state = backup.commit(CommitChanges(forgotten=((1, 2),)), base=state, writer="w")
    assert backup.state() == state
    assert (state.holes, state.checkpoint(7), state.groups) == ((hole,), taken, key)
    assert [line.seq for line in state.history] == [2, 3]
    with pytest.raises(NoSuchRestorePoint):
        backup.state_at(1)


def test_a_state_names_no_ends_of_a_checkpoint_that_are_all_those_of_its_commit(store: PosixStore) -> None:
    backup = new_backup(store)
    state = run_once(backup)
    ends = tuple((known, position.end) for known, position in state.positions.items())
    assert len(ends) > 1
    whole, part = (Checkpoint(id=number, taken_at_ms=5, ends=ends[number:]) for number in (0, 1))
    state = backup.commit(CommitChanges(checkpoint=whole), base=state, writer="w")
    state = backup.commit(CommitChanges(checkpoint=part), base=state, writer="w")
    assert backup.state() == state
    assert (state.checkpoint(0), state.checkpoint(1)) == (replace(whole, ends=()), part)


def test_the_store_s_clock_may_step_back_and_time_does_not(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = new_backup(store)
    first = run_once(backup)
    monkeypatch.setattr(PosixStore, "now_ms", lambda _self: 5)
    second = run_once(backup)
    assert second.committed_at_ms == first.committed_at_ms


def test_of_two_writers_one_wins_each_commit(store: PosixStore) -> None:
    backup = new_backup(store)
    for _ in range(5):
        base, start = backup.state(), threading.Barrier(8)

        def race(_: int, base=base, start=start) -> bool:  # type: ignore[no-untyped-def]  # noqa: ANN001
            start.wait()
            try:
                commit_next(backup, base)
            except CommitLost:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(race, range(8))) == 1
    state = backup.state()
    assert content(store, state) == dict.fromkeys(PARTITIONS, make_log(0, 5 * STEP))


def test_a_segment_that_cannot_be_seen_is_not_committed(store: PosixStore) -> None:
    backup = new_backup(store)
    segment = write_segment(store, backup, PARTITIONS[0], 0, STEP)
    longer = replace(segment, stored_bytes=segment.stored_bytes + 1)
    with pytest.raises(DamagedObject):
        backup.commit(CommitChanges(segments=(longer,)), base=backup.state(), writer="w")
    store.delete(segment.key)
    with pytest.raises(DamagedObject):
        backup.commit(CommitChanges(segments=(segment,)), base=backup.state(), writer="w")
    assert backup.state().seq == 0


def test_what_a_reader_would_refuse_is_not_committed(store: PosixStore) -> None:
    backup = new_backup(store)
    state = run_once(backup)
    over = write_segment(store, backup, PARTITIONS[0], 10, 40)
    for changes in (CommitChanges(segments=(over,)), CommitChanges(removed=(over.key,))):
        with pytest.raises(Damaged):
            backup.commit(changes, base=state, writer="w")
    assert backup.state() == state


def test_a_commit_sweeps_old_temporary_files_and_leaves_those_of_running_writes(store: PosixStore) -> None:
    backup = new_backup(store)
    dead, running = store.open_write("dead"), store.open_write("running")
    dead.write(b"x")
    (path,) = [each for each in (store.root / TEMPORARY_FOLDER).iterdir() if each.stat().st_size]
    old_s = (store.now_ms() - UNFINISHED_AFTER_MS) / 1000 - 5
    os.utime(path, (old_s, old_s))
    run_once(backup)
    assert not path.exists()
    running.write(b"y")
    assert running.close() is PutResult.CREATED
    dead.abort()


def test_a_sweep_that_fails_fails_no_commit(store: PosixStore, caplog: pytest.LogCaptureFixture) -> None:
    class Unswept(FaultyStore):
        def sweep_unfinished(self, *, before_ms: int) -> int:
            raise StoreDenied("cannot sweep")

    run_once(new_backup(Unswept(store)))
    assert Repository.open(store).backup("b").state().seq == 1
    assert 'sweep_failed error=OFF-1703 why="cannot sweep"' in caplog.messages


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "missing", "misplaced"])
def test_damage_to_the_commit_log_is_named(store: PosixStore, damage: str) -> None:
    backup = new_backup(store)
    for _ in range(4):
        run_once(backup)
    path = store.root / backup.layout.commit_key(2)
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        path.write_bytes(data.replace(b'"end":40', b'"end":41', 1))
    elif damage == "swap":
        path.write_bytes((store.root / backup.layout.commit_key(3)).read_bytes())
    elif damage == "missing":
        path.unlink()
    else:
        path.rename(store.root / backup.layout.commit_key(9))
    with pytest.raises(DamagedCommit) as caught:
        backup.state()
    named = "2" if damage == "flip" else f"{2:020}"
    assert named in caught.value.message


def test_every_flipped_bit_of_a_commit_is_found(store: PosixStore) -> None:
    backup = new_backup(store)
    for _ in range(2):
        run_once(backup)
    path = store.root / backup.layout.commit_key(1)
    data = path.read_bytes()
    for position in sampled(range(0, len(data), 7)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises((DamagedCommit, FormatTooNew)):
            backup.state()


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "missing", "grown"])
def test_damage_to_a_segment_is_named_and_the_rest_stays_readable(store: PosixStore, damage: str) -> None:
    backup = new_backup(store)
    run_once(backup)
    state = run_once(backup)
    hurt, other = state.segments[PARTITIONS[0]][0], state.segments[PARTITIONS[1]][0]
    path = store.root / hurt.key
    data = path.read_bytes()
    broken = {
        "cut": data[:-1],
        "flip": data[:70] + bytes([data[70] ^ 4]) + data[71:],
        "swap": (store.root / state.segments[PARTITIONS[0]][1].key).read_bytes(),
        "grown": data + b"x",
    }
    path.unlink() if damage == "missing" else path.write_bytes(broken[damage])
    if damage == "grown":  # found by size (`verify`); what was written is still whole
        found = store.head(hurt.key)
        assert found is not None
        assert found.size_bytes != hurt.stored_bytes
        return
    with pytest.raises(DamagedObject) as caught:
        content(store, state)
    assert hurt.key in caught.value.message
    assert "orders/0 [0, 20)" in caught.value.message
    healthy = replace(state, positions={PARTITIONS[1]: Position(partition_id=PARTITIONS[1], log_start=0, end=40)})
    assert content(store, healthy)[PARTITIONS[1]] == make_log(0, 40)
    assert other.key not in caught.value.message


def test_the_newest_commit_at_a_time_is_searched_among_commits(store: PosixStore) -> None:
    """Also among commits whose restore points were dropped; a commit that is missing counts as young."""
    backup = new_backup(store)
    states = [run_once(backup) for _ in range(4)]
    times = [state.committed_at_ms for state in states]
    for time_ms in (0, *times, times[-1] + 1):
        wanted = sum(committed_ms <= time_ms for committed_ms in times)
        assert backup.log.newest_at(time_ms, after=0, upto=4) == wanted
        assert backup.log.newest_at(time_ms, after=2, upto=3) == min(3, max(2, wanted))
    assert backup.log.newest_at(times[-1], after=0, upto=9) == 4
    assert backup.log.newest_at(times[-1], after=4, upto=4) == 4
