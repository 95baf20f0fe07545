"""What a restore plans, writes and says, against clusters that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from offsite.engine.runner import Done, Failed, OnProgress
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    BadOption,
    KafkaNotAuthorized,
    KeylessRecord,
    NoSuchRestorePoint,
    NoSuchTopic,
    ObjectArchived,
    OffsiteError,
    PartitionsFailed,
    RestoreRefused,
    TargetMismatch,
    TargetNotEmpty,
)
from offsite.model.units import format_time
from offsite.reports.point_report import HoleReport
from offsite.repository.commit import CommitChanges
from offsite.repository.layout import parse_segment_key
from offsite.restore.plan_report import RestorePlanReport, report_plan
from offsite.restore.result import RestoreResult
from tests.backups import append_unchecked
from tests.batches import FIRST_TIME_MS, make_batch
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import Site
from tests.faulty_store import FaultyStore
from tests.inline_runner import InlineRunner, ResultT, TaskT
from tests.roll_ups import roll_up

_WRITE, _DELETE = 4, 6
OLD_ENOUGH = "-1"
"""retention.ms of topics that take records of any age."""


def backed_up(site: Site, *values: bytes, topic: str = "orders", **configs: str) -> None:
    site.source.make_topic(topic, partitions=2, **configs)
    site.source.write(topic, values or [b"a", b"b"])
    site.source.write(topic, [b"c"], partition=1)
    site.back_up("*")


def test_a_plan_says_what_will_be_made_and_touches_nothing(site: Site) -> None:
    backed_up(site, retention_ms="-1", min_insync_replicas="3")
    report = report_plan(site.plan_restore(rename=["orders=copy"]))
    (topic,) = report.topics
    assert (topic.source, topic.target, topic.create, topic.partitions, topic.records) == ("orders", "copy", True, 2, 3)
    assert [(each.setting, each.then) for each in topic.settings] == [
        ("min.insync.replicas", "1"),
        ("retention.ms", "-1"),
    ]
    assert report.notes == (
        "copy will not get min.insync.replicas=3: the target has only 1 broker, so the value there is 1",
    )
    assert not report.resumes
    assert site.target.topics == {}


def test_brokers_that_let_clients_only_abort_are_named_and_replay_transactions_themselves(site: Site) -> None:
    """As Redpanda does. The plan says so, and nothing fails."""
    site.source.make_topic("orders", retention_ms="-1")
    site.source.write("orders", [b"a"])
    site.source.write_in_transaction("orders", [b"b"], committed=True)
    site.back_up("*")
    site.target.takes_only_aborts = True
    notes = report_plan(site.plan_restore(offsets="preserve")).notes
    (note,) = [note for note in notes if "let clients only abort" in note]
    assert note.startswith("orders keeps its offsets by transactions of its own: the target lacks brokers that let")
    restored = site.restore(offsets="preserve")
    assert (restored.verified, restored.topics["orders"].same_offsets) == (True, True)


def test_a_plan_says_that_its_figures_are_bounds_where_a_roll_up_has_added_later_records(site: Site) -> None:
    backed_up(site, retention_ms="-1")
    site.source.write("orders", [b"d"])
    site.back_up()
    older = report_plan(site.plan_restore(commit=1))
    assert (older.records, older.notes) == (3, ())
    state = site.backup.state()
    roll_up(site.backup, [tuple(found) for found in state.segments.values()], alone=True)
    report = report_plan(site.plan_restore(commit=1))
    assert report.notes == (
        "the segments also have later records, which are not restored: the figures are upper bounds",
    )
    assert report.cuts == ()
    assert site.restore(commit=1).records == 3


def test_records_come_back_in_their_partitions_with_settings_and_proof(site: Site) -> None:
    backed_up(site, retention_ms="-1", segment_bytes="1000000")
    result = site.restore()
    assert (result.records, result.compared_records, result.verified, result.problem) == (3, 3, True, "")
    assert (site.target.values("orders"), site.target.values("orders", 1)) == ([b"a", b"b"], [b"c"])
    assert site.target.topics["orders"].configs["segment.bytes"] == "1000000"
    assert site.target.topics["orders"].configs["retention.ms"] == "-1"
    assert (result.topics["orders"].same_offsets, result.resumed, result.findings) == (True, False, ())


def test_without_proof_nothing_is_claimed(site: Site) -> None:
    backed_up(site)
    result = site.restore(verify=False)
    assert (result.records, result.verified, result.compared_records) == (3, None, None)


def test_topics_get_new_names_and_others_stay_out(site: Site) -> None:
    site.source.make_topic("users")
    backed_up(site)
    result = site.restore(topics=["orders"], rename=["orders=copy.orders"])
    assert list(result.topics) == ["copy.orders"]
    assert site.target.topics.keys() == {"copy.orders"}


def test_offsets_and_transactions_are_replayed_where_they_are_kept(site: Site) -> None:
    log = site.source.make_topic("orders").partitions[0]
    log.put(make_batch(0))
    log.put(make_batch(10))
    log.delete_before(10)
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.source.write_in_transaction("orders", [b"committed"], committed=True)
    site.back_up("orders")
    result = site.restore(offsets="preserve")
    assert (result.verified, result.records, result.topics["orders"].invisible_records) == (True, 11, 1)
    copy = site.target.topics["orders"].partitions[0]
    assert (copy.start, copy.end) == (10, 24)
    assert [(each.offset, each.value) for each in copy.records()[-2:]] == [(20, b"aborted"), (22, b"committed")]


@pytest.mark.parametrize("target_end", [0, 30, 60])
def test_an_emptied_target_that_ends_before_the_source_begins_keeps_its_offsets(site: Site, target_end: int) -> None:
    """The source begins inside a batch, which begins where the target is already."""
    site.source.make_topic("orders")
    site.source.write("orders", [b"%d" % number for number in range(100)])
    site.source.topics["orders"].partitions[0].delete_before(60)
    site.back_up("orders")
    log = site.target.make_topic("orders", retention_ms=OLD_ENOUGH).partitions[0]
    if target_end:
        site.target.write("orders", [b"theirs"] * target_end)
        log.delete_before(target_end)

    result = site.restore(offsets="preserve")
    assert (result.verified, result.records, result.topics["orders"].same_offsets) == (True, 40, True)
    assert [(each.offset, each.value) for each in log.records()] == [(at, b"%d" % at) for at in range(60, 100)]


def test_an_emptied_target_that_ends_beyond_is_refused_with_both_offsets(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"%d" % number for number in range(100)])
    site.source.topics["orders"].partitions[0].delete_before(60)
    site.back_up("orders")
    site.target.make_topic("orders")
    site.target.write("orders", [b"theirs"] * 61)
    site.target.topics["orders"].partitions[0].delete_before(61)
    with pytest.raises(RestoreRefused, match="of the target already ends at offset 61, but the source begins at 60"):
        site.restore(offsets="preserve")


def test_gaps_that_compaction_left_are_filled_where_offsets_are_kept(site: Site) -> None:
    log = site.source.make_topic("orders", cleanup_policy="compact").partitions[0]
    for base in (0, 13, 40):
        log.put(make_batch(base))
    site.back_up("orders")
    result = site.restore()
    assert (result.verified, result.records, result.topics["orders"].same_offsets) == (True, 30, True)
    offsets = [each.offset for each in site.target.read("orders")]
    assert offsets == [*range(10), *range(13, 23), *range(40, 50)]


def test_offsets_are_translated_without_gaps_and_without_what_was_aborted(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.source.write_in_transaction("orders", [b"committed"], committed=True)
    site.source.write_in_transaction("orders", [b"undecided"], committed=None)
    site.back_up("orders")
    result = site.restore(offsets="translate")
    topic = result.topics["orders"]
    assert (topic.records, topic.invisible_records, topic.undecided_transactions, topic.same_offsets) == (
        1,
        2,
        1,
        False,
    )
    assert [(each.offset, each.value) for each in site.target.read("orders")] == [(0, b"committed")]
    site.restore(offsets="translate", isolation="read_uncommitted", rename=["orders=all"])
    assert site.target.values("all") == [b"aborted", b"committed", b"undecided"]


def test_offsets_that_cannot_be_kept_are_refused_with_the_reason(site: Site) -> None:
    backed_up(site)
    with pytest.raises(RestoreRefused, match="orders cannot keep its offsets: its records go to other partitions"):
        site.plan_restore(offsets="preserve", repartition=["orders=3"])
    with pytest.raises(BadOption, match="aborted records stay aborted"):
        site.plan_restore(offsets="preserve", isolation="read_uncommitted")


def test_a_target_that_holds_records_is_refused(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"theirs"])
    with pytest.raises(TargetNotEmpty, match="orders exists on the target and holds 1 record") as refused:
        site.plan_restore()
    assert "--rename orders=orders-restored" in refused.value.hint
    assert site.target.values("orders") == [b"theirs"]


def test_all_that_is_wrong_with_targets_is_said_at_once(site: Site) -> None:
    backed_up(site)
    backed_up(site, topic="users")
    site.target.make_topic("orders", partitions=1, retention_ms=OLD_ENOUGH)
    site.target.make_topic("users", partitions=2, cleanup_policy="compact")
    with pytest.raises(TargetMismatch) as refused:
        site.plan_restore()
    assert "orders exists with 1 partition, but the restore needs 2" in refused.value.message
    assert "users exists and is compacted, but the source topic is not" in refused.value.message


def test_an_existing_topic_gets_its_own_settings_back(site: Site) -> None:
    backed_up(site, cleanup_policy="compact")
    site.target.make_topic("orders", partitions=2, cleanup_policy="compact", retention_ms="5")
    result = site.restore()
    assert (result.verified, result.notes) == (True, ())
    assert site.target.topics["orders"].configs == {"cleanup.policy": "compact", "retention.ms": "5"}


def test_a_retention_that_would_delete_at_once_is_held_back(site: Site) -> None:
    backed_up(site, retention_ms="1000")
    result = site.restore()
    assert result.held_back == (("orders", "retention.ms", "1000"),)
    assert site.target.topics["orders"].configs["retention.ms"] == "-1"
    site.restore(rename=["orders=over"], retention="override")
    assert site.target.topics["over"].configs["retention.ms"] == "1000"


def test_a_retention_of_an_existing_topic_is_a_reason_to_refuse_unless_it_may_be_overridden(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2, retention_ms="1000")
    with pytest.raises(TargetMismatch, match="deletes records older than"):
        site.plan_restore()
    assert site.restore(retention="override").verified
    assert site.target.topics["orders"].configs == {"retention.ms": "1000"}


def test_settings_that_the_target_refuses_are_left_out_and_named(site: Site) -> None:
    backed_up(site, some_setting="1", retention_ms="-1")
    site.target.refused_settings = {"some.setting"}
    result = site.restore()
    assert result.left_out == (("orders", "some.setting", "the target refuses it: unknown setting some.setting"),)
    assert "some.setting" not in site.target.topics["orders"].configs


def diskless_at_the_source(site: Site) -> None:
    site.source.make_topic("orders", diskless_enable="true")
    site.source.write_in_transaction("orders", [b"a", b"b"], committed=True)
    site.back_up("orders")


def test_a_diskless_topic_keeps_its_offsets_where_the_target_makes_it_a_plain_one(site: Site) -> None:
    """Brokers without KIP-1150 refuse the setting, so the topic takes transactions; `preserve` was refused."""
    diskless_at_the_source(site)
    site.target.refused_settings = {"diskless.enable"}
    result = site.restore(offsets="preserve")
    assert result.topics["orders"].same_offsets
    assert [setting for _, setting, _ in result.left_out] == ["diskless.enable"]


def test_a_diskless_topic_that_exists_or_will_be_made_is_translated_by_name(site: Site) -> None:
    diskless_at_the_source(site)
    refused = "orders cannot keep its offsets: orders is diskless"
    with pytest.raises(RestoreRefused, match=refused):
        site.plan_restore(offsets="preserve")
    site.target.make_topic("orders", diskless_enable="true", retention_ms=OLD_ENOUGH)
    with pytest.raises(RestoreRefused, match=refused):
        site.plan_restore(offsets="preserve")
    assert not site.restore().topics["orders"].same_offsets


def test_missing_rights_are_found_before_the_first_record(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2, retention_ms=OLD_ENOUGH)
    site.target.forbidden["orders"] = {_WRITE}
    with pytest.raises(KafkaNotAuthorized, match="the principal may not WRITE on orders"):
        site.plan_restore()


def test_moving_a_log_start_needs_the_right_to_delete(site: Site) -> None:
    backed_up(site)
    site.source.topics["orders"].partitions[0].delete_before(1)
    site.source.write("orders", [b"d"])
    site.back_up()
    site.target.make_topic("orders", partitions=2, retention_ms=OLD_ENOUGH)
    site.target.forbidden["orders"] = {_DELETE}
    site.source.remake_topic("orders")
    log = site.source.topics["orders"].partitions[0]
    log.put(make_batch(0))
    log.put(make_batch(10))
    log.delete_before(10)
    site.back_up()
    with pytest.raises(KafkaNotAuthorized, match="the principal may not DELETE on orders"):
        site.restore(offsets="preserve")


def test_a_restore_goes_on_after_a_partition_failed(site: Site) -> None:
    backed_up(site)
    site.target.failing[Api.PRODUCE, TopicPartition(topic="orders", partition=1)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        site.restore(offsets="translate")
    assert site.target.values("orders") == [b"a", b"b"]
    assert site.plan_restore(offsets="translate").resumes
    site.target.failing.clear()
    result = site.restore(offsets="translate")
    assert (result.resumed, result.records, result.verified) == (True, 3, True)
    assert (site.target.values("orders"), site.target.values("orders", 1)) == ([b"a", b"b"], [b"c"])
    assert not site.plan_restore(offsets="translate", rename=["orders=next"]).resumes


def test_several_partitions_that_failed_are_named_together(site: Site) -> None:
    backed_up(site)
    backed_up(site, topic="users")
    for partition in (0, 1):
        site.target.failing[Api.PRODUCE, TopicPartition(topic="users", partition=partition)] = DENIED
    with pytest.raises(PartitionsFailed, match="2 of 4 partitions failed"):
        site.restore()
    assert site.target.values("orders") == [b"a", b"b"]


def test_a_begun_restore_goes_on_to_the_commit_it_began_with(site: Site) -> None:
    backed_up(site)
    site.target.failing[Api.PRODUCE, TopicPartition(topic="orders", partition=1)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        site.restore(offsets="translate")
    site.target.failing.clear()
    site.source.write("orders", [b"later"])
    site.back_up()
    result = site.restore(offsets="translate")
    assert (result.commit, result.newer_commit, result.records) == (1, 2, 3)


def test_a_failed_run_gives_an_existing_topic_its_settings_back(site: Site) -> None:
    backed_up(site, cleanup_policy="compact")
    site.target.make_topic("orders", partitions=2, cleanup_policy="compact")
    site.target.failing[Api.PRODUCE, TopicPartition(topic="orders", partition=1)] = DENIED
    with pytest.raises(KafkaNotAuthorized) as failed:
        site.restore(offsets="translate")
    assert "orders got their own settings back" in failed.value.hint
    assert site.target.topics["orders"].configs == {"cleanup.policy": "compact"}


def in_transaction(site: Site) -> None:
    """Partition 0 of `orders`: a transaction around a batch that is in none."""
    log, producer_id = site.source.make_topic("orders").partitions[0], site.source.next_producer_id()
    site.source.write_in_transaction("orders", [b"first"], committed=None, producer_id=producer_id)
    site.source.write("orders", [b"between"])
    log.end_transaction(producer_id, 0, committed=True)
    site.source.write("orders", [b"last"])
    site.back_up("orders")


def test_a_transaction_that_is_open_when_a_run_fails_is_taken_up_by_the_next(site: Site) -> None:
    in_transaction(site)
    key = Api.PRODUCE, TopicPartition(topic="orders", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 1
    with pytest.raises(KafkaNotAuthorized):
        site.restore(offsets="preserve")
    assert site.target.values("orders") == [b"first"]
    site.target.failing.clear()
    result = site.restore(offsets="preserve")
    assert (result.resumed, result.verified) == (True, True)
    assert [(each.offset, each.value) for each in site.target.read("orders")] == [
        (0, b"first"),
        (1, b"between"),
        (3, b"last"),
    ]


def test_a_topic_whose_open_transaction_was_ended_meanwhile_is_made_and_written_again(site: Site) -> None:
    in_transaction(site)
    key = Api.PRODUCE, TopicPartition(topic="orders", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 1
    with pytest.raises(KafkaNotAuthorized):
        site.restore(offsets="preserve")
    made = site.target.topics["orders"].topic_id
    site.target.failing.clear()
    site.target.end_open_transactions()
    result = site.restore(offsets="preserve")
    assert (result.resumed, result.verified) == (True, True)
    assert site.target.topics["orders"].topic_id != made
    assert [each.offset for each in site.target.read("orders")] == [0, 1, 3]


def test_records_of_others_in_a_begun_target_are_never_deleted(site: Site) -> None:
    backed_up(site)
    site.target.failing[Api.PRODUCE, TopicPartition(topic="orders", partition=1)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        site.restore(offsets="translate")
    site.target.failing.clear()
    site.target.write("orders", [b"theirs"])
    with pytest.raises(TargetNotEmpty, match="holds records that this restore did not write, at offset 2"):
        site.restore(offsets="translate")
    assert site.target.values("orders") == [b"a", b"b", b"theirs"]


class _Meddler(InlineRunner):
    """Does something to the target between the copy and the proof."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle = [meddle]

    def run_all(
        self, tasks: Sequence[TaskT], function: Callable[[TaskT], ResultT], *, on_progress: OnProgress | None = None
    ) -> list[Done[ResultT] | Failed]:
        outcomes = super().run_all(tasks, function, on_progress=on_progress)
        if self._meddle:
            self._meddle.pop()()
        return outcomes


def test_a_difference_after_the_copy_is_a_finding_and_leaves_groups_alone(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.source.commit_group("readers", "orders", [1])
    site.back_up("orders")
    runner = _Meddler(lambda: site.target.write("orders", [b"theirs"]))
    result = Site(source=site.source, target=site.target, repository=site.repository, runner=runner).restore(
        groups=["all"]
    )
    assert (result.verified, result.groups) == (False, None)
    (finding,) = result.findings
    assert finding.where == "orders/0, target offset 1"
    assert "readers" not in site.target.groups


def test_groups_come_with_their_records(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write_in_transaction("orders", [b"a"], committed=True)
    site.source.write("orders", [b"b", b"c"])
    site.source.commit_group("readers", "orders", [3])
    site.back_up("orders")
    result = site.restore(offsets="translate", groups=["all"])
    assert result.groups is not None
    assert (result.groups.groups, result.groups.offsets_set) == (1, 1)
    assert site.target.committed("readers", "orders") == {0: 2}
    with pytest.raises(NoSuchRestorePoint, match="has no group missing"):
        site.restore(rename=["orders=other"], groups=["missing"])


def test_a_commit_a_time_and_an_offset_are_points_to_restore(site: Site) -> None:
    backed_up(site)
    site.source.write("orders", [b"later"])
    site.back_up()
    assert site.restore(topics=["orders"], commit=1, rename=["orders=first"]).records == 3
    assert site.restore(before=["topic=orders,partition=0,offset=1"], rename=["orders=cut"]).records == 2
    at = format_time(FIRST_TIME_MS + 1)
    assert site.restore(at=at, rename=["orders=dated"], offsets="translate").records == 3
    assert site.restore(partitions=["orders:1"], rename=["orders=part"]).records == 1
    assert site.target.values("cut") == [b"a"]
    with pytest.raises(NoSuchRestorePoint):
        site.plan_restore(commit=7)
    with pytest.raises(NoSuchTopic):
        site.plan_restore(topics=["missing"])


def test_a_point_that_leaves_everything_out_restores_nothing_and_says_why(site: Site) -> None:
    backed_up(site)
    result = site.restore(at=format_time(FIRST_TIME_MS - 1000), offsets="translate")
    assert (result.records, result.verified) == (0, None)
    assert "left out 3" in result.problem


def test_an_earlier_incarnation_can_be_chosen(site: Site) -> None:
    backed_up(site, b"old")
    site.source.remake_topic("orders")
    site.source.write("orders", [b"new"])
    site.back_up()
    newest = site.restore(rename=["orders=newest"])
    assert site.target.values("newest") == [b"new"]
    assert [(each.number, each.taken) for each in newest.incarnations] == [(1, False), (2, True)]
    site.restore(rename=["orders=oldest"], incarnation=["orders=1"])
    assert site.target.values("oldest") == [b"old"]


def test_records_go_by_their_keys_into_another_number_of_partitions(site: Site) -> None:
    site.source.make_topic("orders")
    for number in range(8):
        site.source.write("orders", [b"%d" % number], key=b"key %d" % number)
    site.back_up("orders")
    result = site.restore(repartition=["orders=3"])
    assert (result.records, result.verified, result.topics["orders"].partitions) == (8, True, 3)
    parts = [site.target.values("orders", number) for number in range(3)]
    assert sorted(value for part in parts for value in part) == [b"%d" % n for n in range(8)]
    assert all(len(part) < 8 for part in parts)


def repartition_notes_of(told: RestorePlanReport | RestoreResult) -> list[str]:
    return [note for note in told.notes if "--repartition" in note]


@pytest.mark.parametrize("counts", [["orders=1"], ["1"], ["1", "users=3"]])
def test_what_has_that_many_partitions_already_is_named_and_so_is_the_size_that_does_not_count_there(
    site: Site, counts: list[str]
) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"a"], key=b"k")
    site.back_up("*")
    topics = ["orders", "users"] if "users=3" in counts else ["orders"]
    asked: dict[str, Any] = {"topics": topics, "repartition": counts}
    (plain,) = repartition_notes_of(report_plan(site.plan_restore(**asked)))
    assert plain == "--repartition leaves orders unchanged: it has 1 partition already"
    expected = f"{plain}; its batches stay as they were at the source, and --batch-bytes has no effect on them"
    assert repartition_notes_of(report_plan(site.plan_restore(**asked, batch_bytes="64kB"))) == [expected]
    assert repartition_notes_of(site.restore(**asked, batch_bytes="64kB")) == [expected]


def test_of_many_topics_that_a_count_leaves_as_they_are_some_are_named(site: Site) -> None:
    for number in range(9):
        site.source.make_topic(f"t{number}")
        site.source.write(f"t{number}", [b"a"], key=b"k")
    site.back_up("*")
    result = site.restore(repartition=["1", "t8=2"], batch_bytes="64kB")
    (note,) = repartition_notes_of(result)
    assert note.startswith("--repartition leaves t0, t1, t2, t3, t4 and 3 more topics unchanged: they have that many")
    assert note.endswith("; their batches stay as they were at the source, and --batch-bytes has no effect on them")


def test_a_record_without_a_key_has_no_partition_to_go_to(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b", b"c"], key=None)
    site.back_up("orders")
    with pytest.raises(KeylessRecord, match="has no key, so its partition is undefined"):
        site.restore(repartition=["orders=3"])
    assert site.restore(repartition=["orders=3"], keyless="in-turn").records == 3


def test_holes_of_the_backup_are_lacking_in_what_comes_back(site: Site) -> None:
    backed_up(site)
    site.source.write("orders", [b"d"])
    site.source.write("orders", [b"e"])
    site.source.topics["orders"].partitions[0].delete_before(3)
    site.back_up()
    result = site.restore(offsets="translate")
    assert result.lacking == (HoleReport(topic="orders", partition=0, start=2, end=3, reason="retention"),)
    assert (result.holes, result.verified) == (1, True)


def test_what_a_stranger_had_the_backup_skip_is_lacking_in_what_comes_back(site: Site) -> None:
    """Two records were copied, two are passed over, and the honest run goes on behind them."""
    backed_up(site)
    site.source.write("orders", [b"d", b"e", b"f"])
    base = site.backup.state()
    position = next(at for at in base.positions.values() if at.end == 2)
    forged = CommitChanges(positions=(replace(position, end=4, last_batch=None),))
    append_unchecked(site.backup, base, forged, committed_at_ms=base.committed_at_ms)
    site.back_up()
    result = site.restore(offsets="translate")
    assert result.lacking == (HoleReport(topic="orders", partition=0, start=2, end=4, reason="unaccounted"),)


def test_a_registry_that_is_in_use_keeps_its_schemas(site: Site) -> None:
    site.source.make_topic("_schemas", cleanup_policy="compact")
    site.source.write("_schemas", [b"{}"])
    backed_up(site)
    result = site.restore(into=site.source, rename=["orders=copy"])
    assert result.skipped == (
        ("_schemas", "the schema registry of this cluster uses the topic, and the schemas exist already"),
    )
    assert site.restore().topics.keys() == {"_schemas", "orders"}


def test_rules_limits_and_users_are_compared_and_set_when_asked(site: Site) -> None:
    site.source.acls = [(2, "orders", 3, "User:app", "*", 3, 3)]
    site.source.quotas = {(("user", "app"),): {"producer_byte_rate": 1000.0}}
    site.source.scram_users = {"app": (1, 4096)}
    site.target.acls = []
    backed_up(site)
    planned = site.plan_restore(rename=["orders=copy"])
    assert [str(each) for each in planned.metadata.limits] == ["user app: producer_byte_rate none → 1000"]
    assert [each.name for each in planned.metadata.users_by_hand] == ["app"]
    result = site.restore(rename=["orders=copy"], metadata="all")
    assert (result.metadata.acls, result.metadata.limits, result.metadata.refused) == (1, 1, ())
    assert site.target.acls == [(2, "copy", 3, "User:app", "*", 3, 3)]
    assert site.target.quotas == site.source.quotas


class _Archiving(FaultyStore):
    """Segments from the offset `above` on lie in an archive of the bucket."""

    above = 0

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        found = parse_segment_key(key)
        if found is not None and found.start >= self.above:
            raise ObjectArchived(f"cannot read {key}: a rule of the bucket has moved it to an archive", hint="thaw it")
        return super().get_range(key, start, length)


def test_what_a_rule_has_archived_is_found_before_a_topic_is_made(site: Site) -> None:
    backed_up(site, retention_ms="-1")
    archived = replace(site, repository=replace(site.repository, store=_Archiving(site.repository.store)))
    for act in (archived.plan_restore, archived.restore):
        with pytest.raises(ObjectArchived, match="nothing was started: 2 of 2 tested objects have this problem"):
            act()
    assert site.target.topics == {}
    assert not list(site.repository.store.list(f"{site.backup.layout.prefix}restores/"))


def test_what_is_archived_behind_that_names_the_topics_that_stay(site: Site) -> None:
    backed_up(site, retention_ms="-1")
    site.source.write("orders", [b"d"])
    site.back_up()
    store = _Archiving(site.repository.store)
    store.above = 2
    archived = replace(site, repository=replace(site.repository, store=store))
    with pytest.raises(OffsiteError) as caught:
        archived.restore()
    assert "orders, created by this restore, stay: the same command continues with them" in caught.value.hint
    result = site.restore()
    assert (result.resumed, result.records, result.verified) == (True, 4, True)
