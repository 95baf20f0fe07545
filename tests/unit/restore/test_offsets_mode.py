from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from offsite.log.range import TopicPartition
from offsite.model.errors import RestoreRefused
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_partitions, parse_renames
from offsite.points.point_in_time import PartitionChain, point_in_time, select_chains
from offsite.repository.commit import Position
from offsite.repository.restores.record import RestoreRecord, RestoreTargets
from offsite.repository.segments.segment import SegmentList
from offsite.repository.state import BackupState
from offsite.restore.offsets import (
    BY_COORDINATOR,
    DIRECT,
    FindSlow,
    OffsetsRules,
    OffsetsVerdict,
    ReplayWay,
    SlowTransaction,
)
from offsite.restore.plan_report import offsets_notes
from offsite.restore.request import RestoreRequest
from offsite.restore.write.plan import RestorePlan, TargetTopic, plan_restore
from offsite.restore.write.preserve import PreserveTask
from offsite.restore.write.translate import RestoreTask
from offsite.restore.write_jobs import restore_tasks
from tests.unit.restore.test_restore_plan import backup, partition, segment, shape, target


def planned(
    state: BackupState, request: RestoreRequest, *, until_ms: int | None = None, existing: tuple[TargetTopic, ...] = ()
) -> RestorePlan:
    point = point_in_time(state, until_ms=until_ms, partitions=request.partitions)
    return plan_restore(
        select_chains(point, request.selection).copyable(),
        renames=request.renames,
        existing={target.topic for target in existing},
        counts=request.repartition,
    )


def decided(  # most by keyword
    state: BackupState,
    offsets: str = "auto",
    *,
    until_ms: int | None = None,
    existing: tuple[TargetTopic, ...] = (),
    unfinished: RestoreRecord | None = None,
    find_slow: FindSlow = lambda _: None,
    cannot_replay: str = "",
    way: ReplayWay = BY_COORDINATOR,
    diskless: tuple[str, ...] = (),
    **more: object,
) -> tuple[OffsetsVerdict, ...]:
    request = RestoreRequest(selection=parse_selection(["*"]), offsets=offsets, **more)  # type: ignore[arg-type]
    rules = OffsetsRules(
        point=point_in_time(state, until_ms=until_ms, partitions=request.partitions),
        request=request,
        existing=existing,
        unfinished=unfinished,
        find_slow=find_slow,
        cannot_replay=cannot_replay,
        way=way,
        diskless=diskless,
    )
    return rules.decide(planned(state, request, until_ms=until_ms, existing=existing))


def reason(state: BackupState, **more: object) -> str:
    (verdict,) = decided(state, **more)  # type: ignore[arg-type]
    assert verdict.preserve == (not verdict.reason)
    return verdict.reason


def test_offsets_are_kept_where_nothing_speaks_against_it() -> None:
    assert [verdict.preserve for verdict in decided(backup(shape("t"), shape("u")))] == [True, True]


def test_who_asks_for_new_offsets_gets_them_without_a_reason() -> None:
    (verdict,) = decided(backup(shape("t")), "translate")
    assert (verdict.preserve, verdict.reason) == (False, "")


def test_what_is_asked_for_may_not_go_with_old_offsets() -> None:
    state = backup(shape("t"))
    assert "as plain records" in reason(state, isolation="read_uncommitted")
    assert "other partitions" in reason(state, repartition=parse_partition_counts(["t=3"]))
    assert "selected by timestamp" in reason(state, until_ms=5)
    assert reason(state, until_ms=6) == ""


def test_falling_back_to_new_offsets_is_a_line_with_the_reason_and_asking_for_them_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="offsite")
    decided(backup(shape("t")), until_ms=5)
    decided(backup(shape("t")), "translate")
    why = "records are selected by timestamp, so offsets have gaps"
    assert caplog.messages == [f'fall_back to=translate topic=t target=t why="{why}"']


def one_segment(end: int, *, records: int, outcomes: int) -> BackupState:
    """Topic `t` with all of its offsets up to `end` in one segment."""
    source = partition("t", 0)
    held = replace(segment(source, 0, end), records=records, control_batches=outcomes)
    positions = {source: Position(partition_id=source, log_start=0, end=end)}
    return replace(backup(shape("t")), segments={source: SegmentList([held])}, positions=positions)


def test_transactions_that_would_take_hours_are_replayed_only_when_asked_for() -> None:
    state = one_segment(1_000_000, records=500_000, outcomes=500_000)
    assert "longer; use --offsets preserve to keep the offsets anyway" in reason(state)
    (asked_for,) = decided(state, "preserve")
    assert asked_for.preserve
    assert "ClusterAction on the cluster it is fast" in offsets_notes(asked_for)[0]
    assert "ClusterAction on the cluster it is fast" in reason(state)


def test_a_diskless_topic_takes_no_transactions_and_is_translated_by_name() -> None:
    state, diskless = one_segment(20, records=10, outcomes=10), ("t",)
    assert reason(state, diskless=diskless) == "t is diskless (diskless.enable=true), so it takes no transactions"
    with pytest.raises(RestoreRefused, match="t cannot keep its offsets: t is diskless"):
        decided(state, "preserve", diskless=diskless)
    assert reason(one_segment(20, records=20, outcomes=0), diskless=diskless) == ""


def test_with_the_right_to_write_outcomes_they_keep_their_offsets() -> None:
    state = one_segment(100_000, records=10_000, outcomes=50_000)
    assert "ClusterAction" in reason(state)
    (direct,) = decided(state, way=DIRECT)
    assert (direct.preserve, offsets_notes(direct)) == (True, [])


def test_a_transaction_that_brokers_would_end_is_translated_by_auto_and_tried_with_a_warning_when_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def find_slow(chain: PartitionChain) -> SlowTransaction | None:
        if chain.source.topic == "u":
            return None
        return SlowTransaction(producer_id=7, start=0, end=9, open_s=3600)

    state = backup(shape("t"), shape("u"))
    with caplog.at_level(logging.INFO):
        slow, quick = decided(state, find_slow=find_slow)
    assert (slow.preserve, quick.preserve) == (False, True)
    assert "at offsets 0 to 9 that takes about 1 h 00 min to write; brokers abort" in slow.reason
    assert "fall_back to=translate topic=t" in caplog.text
    slow, quick = decided(state, "preserve", find_slow=find_slow)
    assert (slow.preserve, quick.preserve) == (True, True)
    assert [len(offsets_notes(each)) for each in (slow, quick)] == [1, 0]
    assert "t may not keep its offsets" in offsets_notes(slow)[0]
    assert decided(state, "translate", find_slow=find_slow)[0].reason == ""


def test_a_log_with_transactions_is_translated_where_brokers_cannot_replay_them() -> None:
    state, source = backup(shape("t"), shape("u")), partition("t", 0)
    with_marker = replace(segment(source, 0, 10), records=9, control_batches=1)
    state = replace(state, segments={**state.segments, source: SegmentList([with_marker])})
    first, second = decided(state, cannot_replay="brokers have no DescribeTransactions")
    assert (first.preserve, first.reason) == (False, "brokers have no DescribeTransactions")
    assert second.preserve
    with pytest.raises(RestoreRefused, match="DescribeTransactions"):
        decided(state, "preserve", cannot_replay="brokers have no DescribeTransactions")


def test_all_topics_that_cannot_be_preserved_are_named_at_once() -> None:
    state = backup(shape("t"), shape("u"), shape("v"))
    existing = tuple(replace(target(), topic=name, ends=(1, 0)) for name in ("t", "v"))
    with pytest.raises(RestoreRefused, match=r"t cannot keep its offsets: .*; v cannot keep its offsets: "):
        decided(state, "preserve", existing=existing)
    assert [verdict.preserve for verdict in decided(state, existing=existing)] == [False, True, False]


def test_a_continued_restore_does_what_it_began() -> None:
    record = RestoreRecord(
        restore="r",
        commit=3,
        cluster_id="c",
        request=(),
        isolation="read_committed",
        offsets="auto",
        created_at_ms=0,
        topics=(),
        created=(),
        preserved=("u",),
    )
    verdicts = decided(backup(shape("t"), shape("u")), unfinished=record)
    assert [verdict.preserve for verdict in verdicts] == [False, True]


def test_an_emptied_partition_gets_a_task_only_where_offsets_are_kept() -> None:
    state, emptied = backup(shape("t"), shape("u")), partition("t", 1)
    position = Position(partition_id=emptied, log_start=70, end=70)
    state = replace(state, positions={**state.positions, emptied: position})
    starts = {TopicPartition(topic=topic, partition=number): 0 for topic in ("t", "u") for number in (0, 1)}
    request = RestoreRequest(selection=parse_selection(["*"]), renames=parse_renames([]))
    plan = planned(state, request)
    first, second = decided(state)
    targets = RestoreTargets(topic_ids=(), starts=tuple(starts.items()))
    tasks = restore_tasks(plan, [first, replace(second, preserve=False)], targets)
    assert [(type(task), str(task.partition.target), task.partition.chain.end) for task in tasks] == [
        (PreserveTask, "t/0", 10),
        (PreserveTask, "t/1", 70),
        (RestoreTask, "u/0", 10),
    ]
    assert [len(verdict.partitions) for verdict in decided(state, partitions=parse_partitions(["t:0"]))] == [1, 1]
