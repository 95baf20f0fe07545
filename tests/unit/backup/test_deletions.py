"""What a source deleted, held against what groups had read: whose records are lost, and what is no loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.backup.cut.deletions import (
    DeletedBelow,
    UnreadDeletion,
    explain_consumed,
    explain_declared,
    judge_by_deletions,
    unread_deletions,
)
from offsite.cut.readings import CutEvidence, EndsReading, LoggedCommit
from offsite.cut.window import GroupCommit
from offsite.log.range import PartitionId
from offsite.model.selection import parse_selection
from offsite.repository.commit import CONSUMED, DECLARED, RecordedHole, TopicShape
from offsite.repository.snapshots.commit_cut import CommitCut

WORK = PartitionId("work", "id", 0)
LOG = PartitionId("__consumer_offsets", "", 3)


KEPT_FOR_EVER = TopicShape(
    topic="work", topic_id="id", partitions=1, replication_factor=1, configs=(("retention.ms", "-1"),)
)
"""As Kafka Streams makes its repartition topics."""


def evidence(*offsets: int, group: str = "g") -> CutEvidence:
    """The group has committed these, one after the other, until the last reading."""
    commits = tuple(
        LoggedCommit(GroupCommit(group=group, partition=WORK, offset=offset, log=LOG, position=position), -1)
        for position, offset in enumerate(offsets)
    )
    return CutEvidence(readings=(EndsReading(before={}, ends={WORK: 500}, after={}),), changes=(), commits=commits)


def unread(offset: int, seen: CutEvidence, *, end: int, told: int) -> list[UnreadDeletion]:
    return list(
        unread_deletions({("g", WORK): offset}, seen, {WORK: DeletedBelow(end=end, log_start=told)}, selected="g")
    )


def test_a_group_at_the_end_of_what_was_deleted_has_read_it() -> None:
    assert unread(120, evidence(120), end=120, told=0) == []


def test_a_deletion_behind_the_readings_takes_what_the_cut_has_not_read() -> None:
    (found,) = unread(100, evidence(100), end=120, told=0)
    assert not found.at_source
    cut = judge_by_deletions(CommitCut(), [found])
    assert (
        cut.refused
        == "C6: group g had read work/0 up to offset 100, but records up to 120 were deleted before the copy"
    )
    assert cut.behind == ()


def test_a_group_that_rests_below_the_log_has_lost_nothing_by_the_backup() -> None:
    (found,) = unread(100, evidence(), end=120, told=120)
    assert found.at_source
    cut = judge_by_deletions(CommitCut(), [found])
    assert cut.refused == ""
    assert [(each.group, each.offset) for each in cut.behind] == [("g", 100)]


def test_a_group_that_committed_meanwhile_did_not_rest_although_the_cut_leaves_that_out() -> None:
    """It committed 120, deleted to there, and the log start was read: the cut goes back to 100."""
    (found,) = unread(100, evidence(100, 120), end=120, told=120)
    assert not found.at_source


def test_a_group_whose_first_commit_the_cut_leaves_out_has_read_nothing() -> None:
    """It committed 12 for the first time after groups were read, and deleted to there before the log start was."""
    deleted = {WORK: DeletedBelow(end=12, log_start=12)}
    (found,) = unread_deletions({}, evidence(12), deleted, selected={"g"})
    assert (found.offset, found.end, found.at_source) == (0, 12, False)
    assert list(unread_deletions({}, evidence(12), deleted, selected=())) == [], "groups that are not backed up"
    assert list(unread_deletions({}, evidence(12, -1), deleted, selected={"g"})) == [], "it has none any more"


def test_a_cut_that_was_refused_before_says_both() -> None:
    (found,) = unread(100, evidence(100), end=120, told=0)
    assert judge_by_deletions(CommitCut(refused="C5: x"), [found]).refused.startswith("C5: x; C6: group g")


def hole(start: int, end: int, reason: str = "retention") -> RecordedHole:
    return RecordedHole(partition_id=WORK, start=start, end=end, reason=reason)


def test_what_all_groups_had_read_is_no_loss() -> None:
    found = explain_consumed([hole(0, 100), hole(100, 130)], {("g", WORK): 120, ("other", WORK): 400}, [KEPT_FOR_EVER])
    assert [(before.end, now.reason) for before, now in found.items()] == [(100, CONSUMED)]


def test_what_nobody_reads_is_a_loss() -> None:
    assert explain_consumed([hole(0, 100)], {}, [KEPT_FOR_EVER]) == {}
    assert explain_consumed([hole(0, 100)], {("g", PartitionId("else", "id", 0)): 500}, [KEPT_FOR_EVER]) == {}


@pytest.mark.parametrize(
    "configs",
    [(), (("retention.ms", "604800000"),), (("cleanup.policy", "compact"), ("retention.ms", "-1"))],
)
def test_what_a_retention_may_have_taken_is_a_loss_whoever_had_read_it(configs: tuple[tuple[str, str], ...]) -> None:
    assert explain_consumed([hole(0, 100)], {("g", WORK): 120}, [replace(KEPT_FOR_EVER, configs=configs)]) == {}


def test_a_slow_group_makes_a_loss_of_it() -> None:
    assert explain_consumed([hole(0, 100)], {("g", WORK): 120, ("slow", WORK): 99}, [KEPT_FOR_EVER]) == {}


def test_a_topic_may_be_declared_as_one_that_is_emptied() -> None:
    found = explain_declared([hole(0, 100), hole(1, 2, CONSUMED)], parse_selection(["wor*"]))
    assert [now.reason for now in found.values()] == [DECLARED]
    assert explain_declared([hole(0, 100)], parse_selection(["else"])) == {}
