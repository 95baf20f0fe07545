"""What is left of a backup of which retention let something go: which restore point is served by what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.errors import DamagedCommit, NoSuchRestorePoint
from offsite.model.plain import plain
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, CompactedRange, CutBack, ExpiredRange, Pin, Position, RecordedHole
from offsite.repository.fold import fold
from offsite.repository.partition_history import join_spans, split_spans
from offsite.repository.state import BackupState
from tests.backups import PARTITIONS, SHAPES, STEP, content, new_backup, write_segment
from tests.memory_store import MemoryStore

ORDERS = PARTITIONS[0]


@pytest.fixture
def backup() -> Backup:
    """Five commits of 20 offsets each, [0, 100); a topic holds the last 20."""
    made = new_backup(MemoryStore())  # type: ignore[arg-type]
    for _ in range(5):
        run_on(made)
    return made


def run_on(backup: Backup) -> BackupState:
    """The topic holds what this commit brings."""
    base = backup.state()
    ends = {known: base.positions[known].end if known in base.positions else 0 for known in PARTITIONS}
    segments = [write_segment(backup.store, backup, known, end, end + STEP) for known, end in ends.items()]
    positions = [Position(partition_id=known, log_start=end, end=end + STEP) for known, end in ends.items()]
    changes = CommitChanges(segments=tuple(segments), positions=tuple(positions), topics=SHAPES)
    return backup.commit(changes, base=base, writer="w")


def expired(start: int, end: int, *, branch: int = 0) -> ExpiredRange:
    return ExpiredRange(partition_id=ORDERS, start=start, end=end, branch=branch)


def let_go(backup: Backup, *ranges: ExpiredRange, forgotten: tuple[tuple[int, int], ...] = ()) -> BackupState:
    return backup.commit(CommitChanges(expired=ranges, forgotten=forgotten), base=backup.state(), writer="w")


def spans_of(state: BackupState) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in state.segments.get(ORDERS, ())]


def test_spans_are_joined_and_parted() -> None:
    assert join_spans([(5, 7), (0, 2), (2, 4), (6, 9)]) == ((0, 4), (5, 9))
    assert split_spans(((0, 4), (5, 9)), 6) == (((0, 4), (5, 6)), ((6, 9),))
    assert split_spans(((0, 4),), 4) == (((0, 4),), ())


def test_the_newest_point_begins_behind_what_was_let_go(backup: Backup) -> None:
    before = content(backup.store, backup.state())
    state = let_go(backup, expired(0, 40), forgotten=((1, 3),))
    assert state.expired == {ORDERS: ((0, 40),)}
    assert spans_of(state) == [(40, 60), (60, 80), (80, 100)]
    point = backup.state_at(5)
    assert point.holes == ()
    assert content(backup.store, point)[ORDERS] in before[ORDERS]
    assert state.held_range(ORDERS) == (40, 100)
    with pytest.raises(NoSuchRestorePoint, match=r"commit 2 of backup .* is no longer a restore point"):
        backup.state_at(2)
    with pytest.raises(NoSuchRestorePoint, match=f"has no commit {state.seq + 1} "):
        backup.state_at(state.seq + 1)


def test_each_point_is_served_by_its_own_island(backup: Backup) -> None:
    """Commit 2 is kept with [20, 40), what lies between it and the newest is not."""
    hole = RecordedHole(partition_id=ORDERS, start=25, end=26, reason="retention")
    backup.commit(CommitChanges(holes=(hole,)), base=backup.state(), writer="w")
    let_go(backup, expired(0, 20), expired(40, 80), forgotten=((1, 2), (3, 5)))
    head = backup.state()
    assert spans_of(head) == [(20, 40), (80, 100)]
    assert spans_of(backup.state_at(2)) == [(20, 40)]
    for seq in (5, 6, head.seq):
        assert spans_of(backup.state_at(seq)) == [(80, 100)], seq
        assert backup.state_at(seq).holes == ()
    assert backup.state_at(2).holes == ()
    run_on(backup)
    assert spans_of(backup.state_at(backup.state().seq)) == [(80, 100), (100, 120)]


def test_what_was_let_go_of_what_a_point_needs_is_a_hole_of_it(backup: Backup) -> None:
    """Nobody but a faulty writer does so: it must not go unseen."""
    let_go(backup, expired(20, 40), expired(60, 100))
    backup.commit(CommitChanges(), base=backup.state(), writer="w")
    for seq, lost in ((1, []), (2, [(20, 40)]), (3, []), (5, [(80, 100)]), (7, [(80, 100)])):
        assert [(hole.start, hole.end) for hole in backup.state_at(seq).holes] == lost, seq


@pytest.mark.parametrize(("low", "high"), [(0, 30), (10, 40), (25, 35)])
def test_no_segment_is_let_go_in_part(backup: Backup, low: int, high: int) -> None:
    with pytest.raises(DamagedCommit, match="to the remaining range"):
        let_go(backup, expired(low, high))


def test_nothing_is_let_go_that_was_never_there(backup: Backup) -> None:
    with pytest.raises(DamagedCommit, match="the backup ends before that offset"):
        let_go(backup, expired(80, 120))
    with pytest.raises(DamagedCommit, match="there is no branch 1"):
        let_go(backup, expired(80, 100, branch=1))


def test_nothing_comes_back_to_where_it_was_let_go(backup: Backup) -> None:
    base = let_go(backup, expired(0, 20))
    with pytest.raises(DamagedCommit, match="is in a deleted range"):
        backup.commit(
            CommitChanges(segments=(write_segment(backup.store, backup, ORDERS, 0, 20),)), base=base, writer="w"
        )


def test_holes_inside_what_was_let_go_are_none_any_more(backup: Backup) -> None:
    for start, end in ((5, 6), (30, 45), (90, 91)):
        hole = RecordedHole(partition_id=ORDERS, start=start, end=end, reason="retention")
        backup.commit(CommitChanges(holes=(hole,)), base=backup.state(), writer="w")
    let_go(backup, expired(0, 20))
    assert [hole.start for hole in backup.state().holes] == [30, 90]
    let_go(backup, expired(20, 60))
    assert [hole.start for hole in backup.state().holes] == [90]


def test_a_log_that_is_cut_back_takes_what_was_let_go_behind_the_cut_into_its_old_history(backup: Backup) -> None:
    let_go(backup, expired(0, 40))
    cut = CutBack(partition_id=ORDERS, at=20, end=100, epoch=0, leader_epoch=1)
    backup.commit(CommitChanges(cut_back=(cut,)), base=backup.state(), writer="w")
    state = run_on(backup)
    assert state.expired == {ORDERS: ((0, 20),)}
    (branch,) = state.branches
    assert branch.expired == ((20, 40),)
    assert spans_of(backup.state_at(5)) == [(40, 60), (60, 80), (80, 100)]
    assert spans_of(backup.state_at(state.seq)) == [(20, 40)]
    let_go(backup, expired(40, 60, branch=1), expired(80, 100, branch=1))
    head = backup.state()
    assert head.branches[0].expired == ((20, 60), (80, 100))
    assert [(each.start, each.end) for each in head.branches[0].segments] == [(60, 80)]
    assert spans_of(backup.state_at(4)) == [(60, 80)]
    assert head.expired == {ORDERS: ((0, 20),)}


def test_a_point_that_is_pinned_cannot_be_dropped(backup: Backup) -> None:
    pin = Pin(seq=2, reason="month end", until_ms=7)
    state = backup.commit(CommitChanges(pinned=(pin, Pin(seq=4, reason="x"))), base=backup.state(), writer="w")
    assert state.pins == (pin, Pin(seq=4, reason="x"))
    with pytest.raises(DamagedCommit, match="drops commit 2, which is pinned"):
        let_go(backup, forgotten=((1, 3),))
    state = backup.commit(CommitChanges(unpinned=(2,), forgotten=((1, 3),)), base=backup.state(), writer="w")
    assert [each.seq for each in state.history] == [3, 4, 5, 6, 7]
    assert [each.seq for each in state.pins] == [4]
    with pytest.raises(DamagedCommit, match="pins 2, which is not a restore point"):
        backup.commit(CommitChanges(pinned=(pin,)), base=backup.state(), writer="w")


def test_what_a_compaction_found_superseded_is_no_hole(backup: Backup) -> None:
    state = backup.state()
    old = state.segments[ORDERS][:2]
    made = write_segment(backup.store, backup, ORDERS, 0, 30)
    done = CompactedRange(partition_id=ORDERS, start=0, end=40)
    changes = CommitChanges(segments=(made,), removed=tuple(each.key for each in old), compacted=(done,))
    state = backup.commit(changes, base=state, writer="w")
    assert state.compacted == {ORDERS: ((0, 40),)}
    assert backup.state_at(5).holes == ()


def test_catalogs_say_the_same_as_commits(backup: Backup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    cut = CutBack(partition_id=ORDERS, at=80, end=100, epoch=0, leader_epoch=1)
    backup.commit(CommitChanges(cut_back=(cut,), pinned=(Pin(seq=3, reason="r"),)), base=backup.state(), writer="w")
    let_go(backup, expired(0, 20), expired(40, 60), expired(80, 100, branch=1), forgotten=((1, 2),))
    done = CompactedRange(partition_id=ORDERS, start=60, end=80)
    backup.commit(CommitChanges(compacted=(done,)), base=backup.state(), writer="w")
    run_on(backup)
    folded = fold(BackupState(backup=backup.descriptor.name), backup.log.read(after=0))
    read = backup.catalog.read(folded.seq - 1)
    assert replace(folded, history=read.history, loose_commits=0) == backup.state() or backup.state() == folded
    assert (read.expired, read.compacted, read.pins) == (folded.expired, folded.compacted, folded.pins)
    assert read.branches == folded.branches


def test_a_pin_is_printed_in_the_order_that_scripts_know() -> None:
    assert plain(Pin(seq=2, reason="month end")) == {"seq": 2, "reason": "month end", "until_ms": 0}
    assert list(plain(Pin(seq=2, reason="month end"))) == ["seq", "reason", "until_ms"]  # type: ignore[arg-type]
