"""Which cut a restore point is read by."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import NoConsistentCut
from offsite.model.options import CutChoice
from offsite.points.restore_point import FixedPoint, PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition
from offsite.stores.posix_store import open_folder
from tests.backups import PARTITIONS, new_backup, run_once
from tests.cuts import commit_cut


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    made = new_backup(open_folder(tmp_path))
    run_once(made)
    return made


def _cut(backup: Backup, *, refused: str = "") -> CommitCut:
    end = backup.sound_state().positions[PARTITIONS[0]].end
    return CommitCut(partitions=(CutPartition(partition_id=PARTITIONS[0], end=end, floor=end - 1),), refused=refused)


def test_readers_that_ask_for_no_cut_read_what_was_copied(backup: Backup) -> None:
    commit_cut(backup, _cut(backup))
    assert find_point(backup, PointRequest()).cut.left_out(PARTITIONS[0]) is None


def test_a_commit_that_has_a_cut_is_read_by_it(backup: Backup) -> None:
    commit_cut(backup, _cut(backup))
    point = find_point(backup, PointRequest(), cut=CutChoice.AUTO)
    assert point.cut.choice is CutChoice.CONSISTENT
    assert [point.cut.left_out(each) for each in PARTITIONS[:2]] == [(), ()]


def test_what_was_fixed_before_stays(backup: Backup) -> None:
    """A restore that an earlier version began is gone on with as it began."""
    state = commit_cut(backup, _cut(backup))
    old = FixedPoint(commit=state.seq, cut=CutChoice.AS_COPIED)
    found = find_point(backup, PointRequest(), old, cut=CutChoice.AUTO).cut
    assert (found.used, found.why) == (None, "the unfinished restore began without a cut")
    new = FixedPoint(commit=state.seq, cut=CutChoice.CONSISTENT)
    assert find_point(backup, PointRequest(), new, cut=CutChoice.AUTO).cut.used == _cut(backup)


def test_a_cut_that_was_refused_is_not_read(backup: Backup) -> None:
    commit_cut(backup, _cut(backup, refused="its window is too short"))
    found = find_point(backup, PointRequest(), cut=CutChoice.AUTO).cut
    assert (found.used, found.refused) == (None, "its window is too short")
    with pytest.raises(NoConsistentCut) as told:
        find_point(backup, PointRequest(), cut=CutChoice.CONSISTENT)
    assert told.value.id == "OFF-0216"
    assert "--cut as-copied" in told.value.hint
