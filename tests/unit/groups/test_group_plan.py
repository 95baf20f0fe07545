from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.groups.missing_records import AvailableRecords
from offsite.groups.plan import GroupPlan, plan_groups
from offsite.groups.translation import SameOffsets, translate
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.topic_choices import parse_renames


def group(name: str, topic: str, *rows: CommittedOffset, state: str = "Empty") -> GroupOffsets:
    return GroupOffsets(group=name, kind="classic", state=state, topics=(TopicOffsets.of(topic, rows),))


def shifted(by: int, start: int = 0, end: int = 1000) -> OffsetMap:
    builder = OffsetMapBuilder(source_start=start, target_start=start - by)
    builder.add(start, start - by, end - start)
    return builder.build()


@dataclass
class Shifted:
    """Source offsets of partition N are N lower on the target; maps are counted as they are read."""

    read: int = 0
    available: AvailableRecords | None = None

    def target(self, topic: str) -> str | None:
        return None if topic == "absent" else f"{topic}-back"

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        self.read += 1
        return shifted(partition, start=partition) if partition < 5 else None


def planned(groups: dict[str, GroupOffsets], current: dict[str, GroupOffsets] | None = None) -> GroupPlan:
    return plan_groups(groups, translate(groups, Shifted()), current or {})


def test_each_map_is_read_once_for_all_groups() -> None:
    groups = {f"g{n}": group(f"g{n}", "t", *(CommittedOffset(p, 10) for p in range(5))) for n in range(20)}
    mapping = Shifted()
    moved = translate(groups, mapping).moved
    assert mapping.read == 5
    assert all(each[0].offsets.tolist() == [10, 9, 8, 7, 6] for each in moved.values())


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1200)), unique_by=lambda row: row[0], min_size=1))
def test_every_offset_goes_by_the_map_of_its_partition(rows: list[tuple[int, int]]) -> None:
    mapping = Shifted()
    moved = translate({"g": group("g", "t", *(CommittedOffset(*row) for row in rows))}, mapping).moved
    for row, new in zip(moved["g"][0].source, moved["g"][0].offsets, strict=True):
        known = mapping.offset_map("t", row.partition)
        assert new == (-1 if known is None else known.lookup(row.offset).target)


def test_the_plan_tells_each_row_and_counts_them() -> None:
    rows = (CommittedOffset(0, 1), CommittedOffset(1, 5000), CommittedOffset(2, 0), CommittedOffset(6, 1))
    plan = planned({"g": group("g", "t", *rows)}, {"g": group("g", "t-back", CommittedOffset(0, 1))})
    rows = plan.groups[0].topics[0].rows()
    assert [(row.partition, row.source, row.current, row.new, row.how) for row in rows] == [
        (0, 1, 1, 1, "exact"),
        (1, 5000, -1, 999, "above"),
        (2, 0, -1, 0, "below"),
        (6, 1, -1, -1, "missing"),
    ]
    counts = plan.counts()
    assert (counts.offsets, counts.unchanged, counts.to_set) == (4, 1, 2)
    assert (counts.clamped, counts.missing) == (2, 1)
    (again,) = plan.reads_again()
    assert str(again) == "g: t-back/1 from 999 on: it had read to 5,000, but the log ends earlier"
    assert plan.reads_again(left_out=["g"]) == ()


def test_what_stands_is_left_alone_and_what_will_be_replaced_is_known() -> None:
    wanted = group("g", "t", CommittedOffset(0, 1, 9, "a"), CommittedOffset(1, 3, 9, "b"), CommittedOffset(2, 4, 9))
    now = group("g", "t-back", CommittedOffset(0, 1, 7, "other"), CommittedOffset(1, 2, 7, "b"))
    plan = planned({"g": wanted}, {"g": now})
    assert [list(topic) for topic in plan.changes()["g"].topics] == [
        [CommittedOffset(0, 1, -1, "a"), CommittedOffset(2, 2, -1, "")]
    ]
    assert [list(topic) for topic in plan.before()["g"].topics] == [
        [CommittedOffset(0, 1, 7, "other"), CommittedOffset(2, -1, -1, "")]
    ]


def test_a_topic_that_is_not_on_the_target_is_named_and_its_group_left_out() -> None:
    groups = {"a": group("a", "absent", CommittedOffset(0, 1)), "b": group("b", "t", CommittedOffset(0, 1))}
    plan = planned(groups)
    assert [each.group for each in plan.groups] == ["b"]
    assert plan.absent_topics == ("absent",)


def test_a_group_is_active_by_its_state_on_the_target_even_without_offsets_there() -> None:
    groups = {name: group(name, "t", CommittedOffset(0, 1)) for name in ("busy", "idle", "new")}
    current = {name: GroupOffsets(group=name, state=state) for name, state in (("busy", "Stable"), ("idle", "Empty"))}
    plan = planned(groups, current)
    assert {each.group: each.is_active for each in plan.groups} == {"busy": True, "idle": False, "new": False}


def test_unchanged_offsets_are_kept_within_the_log_of_the_target() -> None:
    bounds = {TopicPartition(topic="new", partition=0): (10, 20)}
    mapping = SameOffsets(bounds=bounds, names={"old": parse_renames(["old=new"]).target_name("old")})
    found = [mapping.offset_map("old", 0).lookup(offset) for offset in (5, 10, 15, 20, 25)]  # type: ignore[union-attr]
    assert [(each.target, each.match) for each in found] == [
        (10, "below"),
        (10, "exact"),
        (15, "exact"),
        (20, "end"),
        (20, "above"),
    ]
    assert (mapping.target("old"), mapping.target("gone"), mapping.offset_map("old", 1)) == ("new", None, None)


def test_offsets_that_had_to_be_moved_into_the_log_are_a_line_for_each_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    rows = {"a": (0, 1), "b": (0, 1), "c": (10, 2000)}
    groups = {
        name: group(name, "t", CommittedOffset(1, below), CommittedOffset(2, above))
        for name, (below, above) in rows.items()
    }
    translate(groups, Shifted())
    below, above = (f"committed {how} the restored records: set to the" for how in ("below", "above"))
    assert caplog.messages == [
        f'clamp topic=t partition=1 groups=2 how=below why="{below} start"',
        f'clamp topic=t partition=2 groups=2 how=below why="{below} start"',
        f'clamp topic=t partition=2 groups=1 how=above why="{above} end"',
    ]
