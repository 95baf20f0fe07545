"""Groups that a restore may not put in place: they would skip records that are missing, or repeat their work."""

from __future__ import annotations

from offsite.groups.missing_records import AvailableRecords, find_available_records
from offsite.groups.plan import GroupPlan, plan_groups
from offsite.groups.translation import translate
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import PartitionId
from offsite.repository.commit import CONSUMED, Position, RecordedHole
from offsite.repository.snapshots.commit_cut import COMMIT_CUT, CommitCut, CutGroup
from offsite.repository.state import BackupState

WORK = PartitionId(topic="work", topic_id="id", partition=0)


class Restored:
    """`work` with its offsets from 100 to 200."""

    def __init__(self, available: AvailableRecords | None) -> None:
        self.available = available

    def target(self, topic: str) -> str | None:
        return topic

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:  # there is one
        builder = OffsetMapBuilder(source_start=100, target_start=100)
        builder.add(100, 100, 100)
        return builder.build()


def point(*holes: RecordedHole, log_start: int = 0) -> BackupState:
    return BackupState(
        backup="b",
        positions={WORK: Position(partition_id=WORK, log_start=log_start, end=200)},
        holes=holes,
    )


def hole(end: int) -> RecordedHole:
    return RecordedHole(partition_id=WORK, start=0, end=end, reason=CONSUMED)


def plan(held: AvailableRecords | None, **offsets: int) -> GroupPlan:
    groups = {
        name: GroupOffsets(group=name, topics=(TopicOffsets.of("work", [CommittedOffset(0, at)], topic_id="id"),))
        for name, at in offsets.items()
    }
    translation = translate(groups, Restored(held))
    return plan_groups(groups, translation, {})


def test_a_group_below_records_that_are_missing_is_refused_by_name() -> None:
    planned = plan(find_available_records(point(hole(150)), [WORK], None), late=120, there=150)
    assert [(each.group, each.offset, each.why) for each in planned.refused] == [
        ("late", 120, "30 unread offsets are missing, from 120 to 149")
    ]
    assert list(planned.changes()) == ["there"]
    assert (planned.counts().refused, planned.counts().to_set) == (1, 1)


def test_so_is_one_below_where_the_backup_begins() -> None:
    planned = plan(find_available_records(point(log_start=130), [WORK], None), late=120)
    assert [each.why for each in planned.refused] == ["10 unread offsets are missing, from 120 to 129"]


def test_one_that_the_source_itself_had_left_behind_is_not() -> None:
    cut = CommitCut(behind=(CutGroup(group="idle", partition_id=WORK, offset=120),))
    planned = plan(find_available_records(point(hole(150)), [WORK], cut), idle=120, other=120)
    assert [each.group for each in planned.refused] == ["other"]
    assert planned.counts().behind == 1
    assert [row.how for move in planned.groups for topic in move.topics for row in topic.rows()] == [
        "behind",
        "refused",
    ]


def test_an_exactly_once_group_is_not_moved_back_and_a_plain_one_is() -> None:
    cut = CommitCut(exactly_once=("payers",))
    planned = plan(find_available_records(point(), [WORK], cut), payers=250, plain=250)
    assert [(each.group, each.offset) for each in planned.refused] == [("payers", 250)]
    assert planned.counts().clamped == 1


def test_all_are_set_where_a_person_asks_for_it() -> None:
    planned = plan(None, late=50, payers=250)
    assert (planned.counts().refused, planned.counts().to_set, planned.counts().clamped) == (0, 2, 2)


def test_a_cut_tells_again_what_was_stored() -> None:
    cut = CommitCut(
        groups=(CutGroup(group="g", partition_id=WORK, offset=7, metadata="stream time"),),
        behind=(CutGroup(group="idle", partition_id=WORK, offset=1),),
        exactly_once=("g",),
    )
    assert COMMIT_CUT.decode(COMMIT_CUT.encode(cut), key="cut") == cut
