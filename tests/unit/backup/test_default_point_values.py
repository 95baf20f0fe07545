"""Hostile tests of part A: values and decisions, no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.backup.pass_commits import PreviousCut
from offsite.points.point_cut import default_point
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Pin
from offsite.repository.snapshots.commit_cut import CommitCut
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup, run_once
from tests.cuts import commit_amid, commit_cut

HOUR_MS = 3_600_000


class StoreClock:
    now_ms = 1_700_000_000_000


class Machine:
    """The machine's clock is the store's."""

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return self._clock.now_ms

    def monotonic_s(self) -> float:
        return self._clock.now_ms / 1000

    def sleep(self, duration_s: float) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoreClock:
    found = StoreClock()
    monkeypatch.setattr(PosixStore, "now_ms", lambda _: found.now_ms)
    return found


@pytest.fixture
def backup(tmp_path: Path, clock: StoreClock) -> Backup:
    return new_backup(open_folder(tmp_path))


def test_exactly_once_groups_are_remembered_over_a_commit_without_a_cut(backup: Backup) -> None:
    """A follower that was stopped amid its round; the application rests when it goes on."""
    run_once(backup)
    commit_cut(backup, CommitCut(exactly_once=("payers",)))
    amid = commit_amid(backup)
    assert PreviousCut().exactly_once(backup, amid) == {"payers"}


def test_a_pin_three_hours_later_has_at_most_three_hours_more(backup: Backup, clock: StoreClock) -> None:
    run_once(backup)
    commit_cut(backup, CommitCut())
    clock.now_ms += 1200
    amid = commit_amid(backup)
    clock.now_ms += 3 * HOUR_MS
    backup.commit(CommitChanges(pinned=(Pin(seq=amid.seq, reason="keep"),)), base=backup.state(), writer="pin")
    newer = default_point(backup.store, backup.sound_state()).newer
    assert newer is not None
    assert "has up to 3 h 00 min more" in str(newer)


def test_retention_keeps_the_commit_that_restores_go_to(backup: Backup, clock: StoreClock) -> None:
    from offsite.upkeep.retention.apply import apply_retention, plan_retention
    from offsite.upkeep.retention.policy import parse_policy

    run_once(backup)
    cut = commit_cut(backup, CommitCut())
    clock.now_ms += 60_000
    run_once(backup)  # complete, and without a cut: a partition had no leader
    clock.now_ms += 60_000
    commit_amid(backup)
    assert default_point(backup.store, backup.sound_state()).commit == cut.seq
    plan = plan_retention(backup, parse_policy(keep_hourly=1), clock=Machine(clock))
    apply_retention(backup, plan, clock=Machine(clock), force=True)
    assert default_point(backup.store, backup.sound_state()).commit == cut.seq


def test_one_partition_that_does_not_fit_leaves_the_others_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heavy partition is dropped, and what it had taken of the bound is never given back: nobody is caught."""
    from typing import Any, cast

    from offsite.backup.copy_plan import CopyTask, PartitionBounds
    from offsite.backup.cut import caught_records
    from offsite.backup.cut.caught_records import CaughtRecords
    from offsite.log.range import LogRange, PartitionId
    from tests.batches import chunk_of, make_log

    monkeypatch.setattr(caught_records, "BYTES_MAX", 10_000)

    class Reader:
        def read_task(self, task: Any) -> Any:
            yield chunk_of(make_log(task.range.start, task.range.end))

    class Admin:
        def reader(self, **_: object) -> Reader:
            return Reader()

    def bounds(topic: str, end: int) -> PartitionBounds:
        return PartitionBounds(topic=topic, topic_id="", partition=0, log_start=0, end=end, size_bytes=end)

    keys = {PartitionId(topic=topic, topic_id="", partition=0): 0 for topic in ("a-heavy", "small")}
    caught = CaughtRecords(cast("Any", Admin()), keys)
    caught.begin([bounds("a-heavy", 10), bounds("small", 2)])
    caught.read_to({PartitionId("a-heavy", "", 0): 5000, PartitionId("small", "", 0): 4})
    small = LogRange(topic="small", partition=0, start=0, end=4)
    task = CopyTask(range=small, topic_id="", estimated_bytes=1)
    assert 0 in caught.of([task])


def test_refused_cuts_do_not_push_out_the_newest_that_may_be_used(backup: Backup, clock: StoreClock) -> None:
    """A follower of 5 s whose application deletes faster than five passes: after 80 s nobody knows the good cut."""
    run_once(backup)
    good = commit_cut(backup, CommitCut())
    for number in range(17):
        clock.now_ms += 5_000
        run_once(backup)
        commit_cut(backup, CommitCut(refused=f"C6: group app had read work/0 to {number}"))
    assert default_point(backup.store, backup.sound_state()).commit == good.seq
