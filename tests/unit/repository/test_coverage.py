"""A commit accounts for every offset it moves a position past, or is not written; verify reckons it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.range import PartitionId, Span
from offsite.model.errors import Bug
from offsite.overview.status import read_status
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import UNACCOUNTED, CommitChanges, LeftBehindPartition, Position, ProvenGap, RecordedHole
from offsite.repository.coverage import find_unaccounted, frontier
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from offsite.upkeep.verification.history import check_history
from offsite.upkeep.verification.run import verify_quick
from tests.backups import PARTITIONS, SHAPES, append_unchecked, commit_next, new_backup, write_segment

WHERE = PARTITIONS[0]


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    return new_backup(open_folder(tmp_path / "repository"))


def moved(start: int, end: int, *, holes: tuple[Span, ...] = (), gaps: tuple[Span, ...] = ()) -> CommitChanges:
    return CommitChanges(
        positions=(Position(partition_id=WHERE, log_start=start, end=end),),
        holes=tuple(RecordedHole(partition_id=WHERE, start=low, end=high, reason="retention") for low, high in holes),
        gaps=tuple(gap(*span) for span in gaps),
        accounted=True,
        topics=SHAPES,
    )


def gap(start: int, end: int) -> ProvenGap:
    return ProvenGap(partition_id=WHERE, start=start, end=end, evidence="batch", seen_at=end)


def left_over(changes: CommitChanges, before: dict[PartitionId, int] | None = None) -> list[Span]:
    return [(each.start, each.end) for each in find_unaccounted(changes, before or {})]


def test_what_lies_between_holes_and_gaps_is_left_over() -> None:
    changes = moved(0, 100, holes=((10, 20), (30, 40)), gaps=((20, 25), (60, 90)))
    assert left_over(changes) == [(0, 10), (25, 30), (40, 60), (90, 100)]


def test_a_partition_goes_on_where_its_position_stood() -> None:
    assert left_over(moved(0, 100, gaps=((60, 100),)), {WHERE: 60}) == []


def test_a_batch_that_reached_over_a_position_is_accounted_for(backup: Backup) -> None:
    """As earlier versions left it where a range failed that began inside a batch."""
    segment = replace(write_segment(backup.store, backup, WHERE, 0, 30), end=25)
    changes = CommitChanges(
        segments=(segment,), positions=(Position(partition_id=WHERE, log_start=0, end=25),), topics=SHAPES
    )
    base = backup.commit(changes, base=backup.state(), writer="w")
    assert base.accounted_ends() == {WHERE: 30}
    assert backup.commit(moved(0, 40, gaps=((30, 40),)), base=base, writer="w").seq == 2
    assert verify_quick(backup).ok


def test_a_segment_accounts_for_its_batches_and_not_for_its_range(backup: Backup) -> None:
    segment = replace(write_segment(backup.store, backup, WHERE, 20, 40), start=10, end=50)
    changes = replace(moved(10, 50), segments=(segment,))
    assert left_over(changes) == [(10, 20), (40, 50)]
    assert left_over(replace(changes, gaps=(gap(10, 20), gap(40, 50)))) == []


def test_a_commit_that_passes_over_offsets_is_not_written(backup: Backup) -> None:
    base = backup.state()
    with pytest.raises(Bug, match=r"orders/0 \[25, 30\)"):
        backup.commit(moved(0, 30, gaps=((0, 25),)), base=base, writer="w")
    assert backup.state() == base
    assert backup.commit(moved(0, 30, gaps=((0, 30),)), base=base, writer="w").seq == 1


@pytest.mark.parametrize("promises", [True, False], ids=["says that it accounts for all", "does not say so"])
def test_what_a_commit_passed_over_is_a_hole_and_told(backup: Backup, *, promises: bool) -> None:
    """A segment that ends before its range does is no excuse, and commits of earlier versions come before others."""
    first = backup.commit(moved(0, 30, gaps=((0, 30),)), base=backup.state(), writer="w")
    segment = replace(write_segment(backup.store, backup, WHERE, 30, 40), end=50)
    forged = replace(moved(0, 50), segments=(segment,), accounted=promises)
    append_unchecked(backup, first, forged, committed_at_ms=first.committed_at_ms)
    state = backup.state()
    assert state.holes == (RecordedHole(partition_id=WHERE, start=40, end=50, reason=UNACCOUNTED),)
    result = verify_quick(backup)
    assert not result.ok
    assert [
        (passed.topic, passed.partition, passed.start, passed.end, passed.commit) for passed in result.unaccounted
    ] == [("orders", 0, 40, 50, 2)]
    (status,) = read_status(Repository.open(backup.store)).backups
    assert not status.safe
    assert status.problems[0].startswith("10 offsets of orders are in no segment")
    later = backup.commit(moved(0, 60, gaps=((50, 60),)), base=state, writer="w")
    assert later.holes == state.holes


def test_a_catalog_does_not_forget_that_commits_account_for_all(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    state = backup.commit(moved(0, 30, gaps=((0, 30),)), base=backup.state(), writer="w")
    state = backup.commit(moved(0, 40, gaps=((30, 40),)), base=state, writer="w")
    append_unchecked(backup, state, replace(moved(0, 50), accounted=False), committed_at_ms=state.committed_at_ms)
    assert backup.catalog.read(1).accounted
    assert [(hole.start, hole.end, hole.reason) for hole in backup.state().holes] == [(40, 50, UNACCOUNTED)]


def test_commits_of_earlier_versions_are_told_apart_and_stay_sound(backup: Backup) -> None:
    state = commit_next(backup, backup.state())
    later = CommitChanges(positions=(Position(partition_id=WHERE, log_start=0, end=50),))
    backup.commit(later, base=state, writer="w")
    passed_over = check_history(backup).passed_over
    assert [(each.start, each.end, promised) for each, promised in passed_over] == [(20, 50, False)]
    result = verify_quick(backup)
    assert (result.ok, result.unaccounted, len(result.unproven)) == (True, (), 1)


@given(spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12), start=st.integers(0, 30))
def test_the_frontier_is_the_first_offset_that_is_left_over(spans: list[Span], start: int) -> None:
    given_spans = [(low, low + length) for low, length in spans]
    end = 100
    left = left_over(moved(start, end, gaps=tuple(given_spans)))
    assert min(end, frontier(start, given_spans)) == (left[0][0] if left else end)


def test_a_partition_that_the_newest_run_left_behind_is_not_safe_until_a_run_takes_it(backup: Backup) -> None:
    left = LeftBehindPartition(partition_id=WHERE, error="OFF-1503")
    base = backup.commit(replace(moved(0, 30, gaps=((0, 30),)), left_behind=(left,)), base=backup.state(), writer="w")
    assert backup.state().left_behind == (left,)
    (status,) = read_status(Repository.open(backup.store)).backups
    assert (status.safe, status.problems) == (False, ("the newest run could not back up orders/0 (OFF-1503)",))
    backup.commit(moved(0, 40, gaps=((30, 40),)), base=base, writer="w")
    (status,) = read_status(Repository.open(backup.store)).backups
    assert status.safe
