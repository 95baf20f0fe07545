"""Share groups in a plan: their positions, where they have none, and what an undo must know."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.archives.export.plan import committing_groups
from offsite.cli.commands.groups import _render_plan, _render_undone, render_applied
from offsite.cli.views.backup import render_result
from offsite.cli.views.repository import render_kinds, render_share_positions
from offsite.cli.views.restore import render_outlook
from offsite.groups.missing_records import AvailableRecords
from offsite.groups.plan import GroupPlan, SharePositions, plan_groups
from offsite.groups.report import report_groups, show_groups
from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups
from offsite.groups.translation import SameOffsets, translate
from offsite.groups.undo import find_change, undo_groups
from offsite.kafka import groups as groups_module
from offsite.kafka.groups import GroupClient
from offsite.kafka.protocol.request import Api
from offsite.log.group_fold import GroupPartition
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, GroupOnTopic, TopicOffsets
from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import KafkaNotAuthorized, KafkaTooOld
from offsite.model.selection import ALL_GROUPS, parse_groups
from offsite.model.units import format_time
from offsite.restore.plan_report import report_plan
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.cluster import FakeCluster, FakeGroup
from tests.fake_cluster.site import Site
from tests.shown import shown
from tests.unit.log.test_group_records import key, value

UNKNOWN_SERVER_ERROR = -1
BOUNDS = {TopicPartition(topic="jobs", partition=number): (10, 100) for number in range(3)}


def share(*positions: int, reset: str = "latest", kind: str = "share") -> GroupOffsets:
    rows = [CommittedOffset(partition, position) for partition, position in enumerate(positions)]
    return GroupOffsets(group="workers", kind=kind, state="Empty", topics=(TopicOffsets.of("jobs", rows),), reset=reset)


def planned(group: GroupOffsets, *current: int, available: AvailableRecords | None = None) -> GroupPlan:
    mapping = SameOffsets(bounds=BOUNDS, names={}, available=available)
    groups = {group.group: group}
    return plan_groups(groups, translate(groups, mapping), {group.group: share(*current)} if current else {})


def hows(plan: GroupPlan) -> list[tuple[int, str]]:
    return [(row.new, row.how) for row in plan.groups[0].topics[0].rows()]


def test_positions_are_moved_into_the_log_of_the_target() -> None:
    assert hows(planned(share(40, 5, 400))) == [(40, "exact"), (10, "below"), (100, "above")]


def test_without_a_position_nothing_is_set_unless_the_group_began_at_the_first_record() -> None:
    plan = planned(share(40, -1))
    assert hows(plan) == [(40, "exact"), (-1, "no position")]
    counts = plan.counts()
    assert (counts.offsets, counts.to_set, counts.unchanged, counts.without_position) == (2, 1, 0, 1)
    assert hows(planned(share(40, -1, reset="earliest"))) == [(40, "exact"), (10, "start")]
    assert hows(planned(share(40, -1, reset=""))) == [(40, "exact"), (-1, "no position")]


def test_a_group_that_would_begin_in_front_of_missing_records_is_refused() -> None:
    lost = PartitionId(topic="jobs", topic_id="", partition=1)
    available = AvailableRecords(begins={lost: 10}, holes={lost: [(10, 20)]})
    plan = planned(share(40, -1, reset="earliest"), available=available)
    assert hows(plan) == [(-1, "refused"), (-1, "refused")]
    assert plan.share_positions() == ()
    assert planned(share(40, -1), available=available).refused == ()


def test_a_plan_names_what_is_delivered_again_and_where_there_is_no_position() -> None:
    plan = planned(share(40, -1, 7), 40, -1)
    (positions,) = plan.share_positions()
    assert positions == SharePositions(
        group="workers", topic="jobs", positions={0: 40, 2: 10}, without=(1,), reset="latest"
    )
    assert plan.share_positions(left_out=["workers"]) == ()
    delivers, begins = map(str, render_share_positions([positions]))
    assert "DELIVERS AGAIN: workers: what was in flight, done out of order, or done last: " in delivers
    assert delivers.endswith("jobs/0 from 40 on, jobs/2 from 10 on")
    assert "NO POSITION: workers in jobs/1: it begins there where" in begins
    assert "(at the source: latest)" in begins


def test_other_groups_deliver_nothing_again() -> None:
    plan = planned(share(40, kind="classic"))
    assert plan.share_positions() == ()
    assert plan.kinds() == {"workers": "classic"}
    assert render_kinds(["classic", "share", "", "share"]) == "1 classic, 2 share, 1 unknown"


def test_an_undo_knows_all_positions_on_a_topic_because_they_are_removed_together() -> None:
    plan = planned(share(40, 50, 60), 40, 30, -1)
    assert [list(topic) for topic in plan.changes()["workers"].topics] == [
        [CommittedOffset(1, 50), CommittedOffset(2, 60)]
    ]
    assert [list(topic) for topic in plan.before()["workers"].topics] == [
        [CommittedOffset(0, 40), CommittedOffset(1, 30), CommittedOffset(2, -1)]
    ]
    assert planned(share(40), 40, 30).before() == {}


def test_an_undo_that_removes_nothing_knows_only_what_changes() -> None:
    """It set the other positions of the topic back too, and jobs done since were delivered again."""
    plan = planned(share(40, 50, 60), 40, 30, 60)
    assert [list(topic) for topic in plan.before()["workers"].topics] == [[CommittedOffset(1, 30)]]


def backed_up(site: Site, *positions: int, reset: str = "latest", is_complete: bool = True, **options: Any) -> None:
    """A share group on two partitions of three records, with positions; -1 for none."""
    site.source.has_share_groups = site.source.sets_positions = True
    site.source.make_topic("jobs", partitions=2)
    for partition in range(2):
        site.source.write("jobs", [b"a", b"b", b"c"], partition=partition)
    site.source.groups["workers"] = FakeGroup(kind="share", reset=reset)
    site.source.commit_group("workers", "jobs", positions)
    site.source.commit_group("readers", "jobs", [1, 1])
    assert site.back_up("jobs", **options).complete == is_complete


def with_share_groups(cluster: FakeCluster, *, sets_positions: bool = True) -> None:
    cluster.has_share_groups, cluster.sets_positions = True, sets_positions


def test_positions_are_backed_up_with_the_reset_and_restored_with_the_topic(site: Site) -> None:
    backed_up(site, 1, 2)
    listed = {group.group: group for group in show_groups(site.backup, groups=ALL_GROUPS).groups}
    assert (listed["workers"].kind, listed["workers"].reset, listed["workers"].lag) == ("share", "latest", 3)
    assert (listed["readers"].kind, listed["readers"].reset) == ("classic", "")
    with_share_groups(site.target)
    plan = site.plan_restore(groups=["all"])
    assert plan.outlook is not None
    foreseen = {group.group: group for group in plan.outlook.groups}
    assert foreseen["workers"].verdict == "delivers again"
    assert dict(foreseen["workers"].share_positions[0].positions) == {0: 1, 1: 2}
    assert (foreseen["readers"].verdict, foreseen["readers"].share_positions) == ("goes on", ())
    text = "\n".join(map(str, render_outlook(plan.outlook, backup="nightly")))
    assert "groups: 2 in all: 1 continues where it was, 1 delivers again what was in flight\n" in text
    assert "types: 1 classic, 1 share" in text
    result = site.restore(groups=["all"])
    assert result.groups is not None
    assert result.groups.complete
    assert site.target.groups["workers"].kind == "share"
    assert site.target.committed("workers", "jobs") == {0: 1, 1: 2}
    assert dict(result.groups.kinds) == {"readers": "classic", "workers": "share"}
    assert "DELIVERS AGAIN: workers" in "\n".join(map(str, render_applied(result.groups)))


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_positions_follow_a_topic_with_another_name(site: Site, offsets: str) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    result = site.restore(groups=["workers"], rename=["jobs=jobs-back"], offsets=offsets)
    assert result.groups is not None
    assert site.target.committed("workers", "jobs-back") == {0: 1, 1: 2}
    assert result.groups.share_positions[0].topic == "jobs-back"


def test_an_undo_removes_positions_and_sets_the_former_ones_again(site: Site) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    site.target.groups["workers"] = FakeGroup(kind="share", offsets={TopicPartition(topic="jobs", partition=0): 3})
    apply_groups(prepare_groups(site.backup, site.target.admin, GroupsRequest()), site.target.admin)
    assert site.target.committed("workers", "jobs") == {0: 1, 1: 2}
    change = find_change(site.backup, site.target.admin, None)
    assert undo_groups(site.backup, site.target.admin, change).failed == ()
    assert site.target.committed("workers", "jobs") == {0: 3}


def test_an_undo_removes_no_positions_where_brokers_may_have_failed_to_read_the_ones_before(site: Site) -> None:
    """Kafka's coordinator answers -1 without an error where it cannot read a position. The undo removed the new ones,
    and the group began at the end."""
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    jobs = [TopicPartition(topic="jobs", partition=number) for number in range(2)]
    site.target.groups["workers"] = FakeGroup(kind="share", offsets={jobs[0]: 3, jobs[1]: -1})
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest())
    unknown = "UNKNOWN BEFORE: workers on jobs: brokers tell no position in some partitions"
    assert unknown in shown(_render_plan(report_groups(planned)))
    applied = apply_groups(planned, site.target.admin)
    assert applied.untold == (GroupOnTopic(group="workers", topic="jobs"),)
    assert unknown in shown(render_applied(applied))
    undone = undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, None))
    assert site.target.committed("workers", "jobs") == {0: 3, 1: 2}
    assert (undone.failed, undone.untold, undone.complete) == ((), applied.untold, False)
    text = shown(_render_undone(undone))
    assert "1 group is back to the state before" in text  # the readers
    assert "NOT REMOVED: workers on jobs" in text
    assert "kafka-share-groups.sh --delete-offsets --group workers --topic jobs" in text


def test_a_cluster_that_sets_no_positions_is_told_before_and_after(site: Site) -> None:
    """Kafka 4.1 answers that all is well."""
    backed_up(site, 1, 2)
    with_share_groups(site.target, sets_positions=False)
    outlook = site.plan_restore(groups=["all"]).outlook
    assert outlook is not None
    assert ([failure.error for failure in outlook.unsettable], outlook.exit_code) == (["NOT_SET"], 3)
    assert {group.group: group.verdict for group in outlook.groups}["workers"] == "not set"
    assert "NOT SET: workers: the brokers set no positions" in "\n".join(
        map(str, render_outlook(outlook, backup="nightly"))
    )
    result = site.restore(groups=["all"]).groups
    assert result is not None
    assert not result.complete
    assert [(failure.group, failure.error, failure.kind) for failure in result.failed] == [
        ("workers", "NOT_SET", "share")
    ]
    assert site.target.committed("readers", "jobs") == {0: 1, 1: 1}


def test_positions_are_read_again_after_they_are_set(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    monkeypatch.setattr(GroupClient, "unsettable", lambda *_: ())
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest())
    site.target.sets_positions = False
    applied = apply_groups(planned, site.target.admin)
    (failure,) = applied.failed
    assert (failure.group, failure.error) == ("workers", "OTHER_POSITION")
    text = "\n".join(map(str, render_applied(applied)))
    assert "  types: 1 classic\n" in text  # those that are set


def test_positions_that_brokers_cannot_read_after_they_were_set_are_no_fault_of_their_release(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest(groups=parse_groups(["workers"])))
    monkeypatch.setattr(GroupClient, "_change", lambda *_: ())
    applied = apply_groups(planned, site.target.admin)
    (failure,) = applied.failed
    assert failure.message.startswith("after its positions were set, brokers tell other ones, or none")
    assert "group workers may not be as planned: after its positions were set" in shown(render_applied(applied))


def test_an_older_cluster_is_told_by_the_name_of_the_request(site: Site) -> None:
    backed_up(site, 1, 2)
    result = site.restore(groups=["all"]).groups
    assert result is not None
    (failure,) = result.failed
    assert (failure.group, failure.error) == ("workers", "OFF-1508")
    assert "DescribeShareGroupOffsets" in failure.message
    assert "4.1" in failure.message


def test_positions_that_a_source_does_not_tell_are_not_carried(site: Site) -> None:
    site.source.make_topic("jobs")
    site.source.groups["workers"] = FakeGroup(kind="share")
    site.source.commit_group("workers", "jobs", [0])
    assert "1 share group: workers" in site.back_up("jobs").not_carried


def test_a_restore_without_groups_names_the_share_groups_of_its_topics(site: Site) -> None:
    backed_up(site, 1, 2)
    note = "1 share group not requested (workers): a share group without positions begins at the end"
    assert [text for text in report_plan(site.plan_restore()).notes if text.startswith(note)]
    assert [text for text in site.restore().notes if text.startswith(note)]


def test_a_restore_of_other_groups_names_the_share_groups_that_it_leaves_out(site: Site) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    note = "1 share group not requested (workers)"
    assert note in site.plan_restore(groups=["readers"]).group_note
    assert site.plan_restore(groups=["work*"]).group_note == ""
    assert [text for text in site.restore(groups=["readers"]).notes if text.startswith(note)]


def test_a_group_without_a_position_is_told_in_plan_and_result(site: Site) -> None:
    backed_up(site, 1, -1)
    with_share_groups(site.target)
    outlook = site.plan_restore(groups=["workers"]).outlook
    assert outlook is not None
    assert outlook.groups[0].verdict == "no position"
    (workers,) = show_groups(site.backup, groups=parse_groups(["workers"])).groups
    assert workers.lag is None  # it is unknown, and not 2
    result = site.restore(groups=["workers"]).groups
    assert result is not None
    assert result.share_positions[0].without == (1,)
    assert "NO POSITION: workers in jobs/1: it begins there where" in "\n".join(map(str, render_applied(result)))


UNREADABLE = (Api.DESCRIBE_SHARE_GROUP_OFFSETS, TopicPartition(topic="jobs", partition=1))


def positions_of(site: Site) -> dict[int, int]:
    (workers,) = [group for group in show_groups(site.backup, groups=ALL_GROUPS).groups if group.group == "workers"]
    return dict(workers.topics[0].offsets)


def test_a_position_that_cannot_be_read_stays_as_it_was_and_is_named(site: Site) -> None:
    backed_up(site, 1, 2)
    site.source.commit_group("workers", "jobs", [3, 3])
    site.source.failing[UNREADABLE] = UNKNOWN_SERVER_ERROR
    result = site.back_up()
    assert result.groups is not None
    assert not result.complete
    (failure,) = result.groups.failed
    assert (failure.group, failure.kind, failure.partitions) == ("workers", "share", (UNREADABLE[1],))
    assert failure.message == "reading its position in jobs/1: UNKNOWN_SERVER_ERROR"
    assert "group workers was read only in part: reading its position in jobs/1" in "\n".join(
        map(str, render_result(result))
    )
    assert positions_of(site) == {0: 3, 1: 2}
    site.source.failing.clear()
    assert site.back_up().complete
    assert positions_of(site) == {0: 3, 1: 3}


def test_a_position_that_brokers_fail_to_read_without_an_error_stays_as_it_was(site: Site) -> None:
    """Kafka's coordinator answers -1 without an error where the state of a share-partition cannot be read. Jobs were
    never delivered after a restore: the group had no position, and began at the end."""
    backed_up(site, 1, 2)
    site.source.commit_group("workers", "jobs", [3, -1])
    result = site.back_up()
    assert result.groups is not None
    assert positions_of(site) == {0: 3, 1: 2}
    assert "brokers tell no position of share groups any more (workers on jobs/1)" in result.groups.note
    site.source.commit_group("workers", "jobs", [3, 3])
    result = site.back_up()
    assert result.groups is not None
    assert (positions_of(site), result.groups.note) == ({0: 3, 1: 3}, "")


def test_where_a_group_begins_stays_known_when_it_cannot_be_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that passed replaced `earliest` by nothing: the group began at the end after a restore."""
    backed_up(site, 1, -1, reset="earliest")

    def refused(*_: object) -> None:
        raise KafkaNotAuthorized("CLUSTER_AUTHORIZATION_FAILED")

    with monkeypatch.context() as patched:
        patched.setattr(groups_module, "group_values_request", refused)
        site.source.write("jobs", [b"d"])
        result = site.back_up()
    assert result.groups is not None
    assert not result.groups.changed
    site.source.groups["workers"].reset = ""  # the answer leaves the group out
    site.source.commit_group("workers", "jobs", [2, -1])
    site.back_up()
    (workers,) = show_groups(site.backup, groups=parse_groups(["workers"])).groups
    assert (workers.reset, dict(workers.topics[0].offsets)) == ("earliest", {0: 2, 1: -1})
    site.source.groups["workers"].reset = "latest"
    site.back_up()
    (workers,) = show_groups(site.backup, groups=parse_groups(["workers"])).groups
    assert workers.reset == "latest"


def test_positions_stay_while_a_broker_of_an_earlier_release_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group counted as gone, and a restore of all groups left it out without a word."""
    backed_up(site, 1, 2)
    monkeypatch.setattr(GroupClient, "_not_offered", lambda *_: KafkaTooOld("no such request"))
    result = site.back_up()
    assert result.groups is not None
    assert [(failure.group, failure.error) for failure in result.groups.failed] == [("workers", "NOT_TOLD")]
    assert positions_of(site) == {0: 1, 1: 2}
    assert show_groups(site.backup, groups=ALL_GROUPS).gone == ()


def test_a_backup_counts_positions_apart_from_committed_offsets(site: Site) -> None:
    """A partition without a position was a committed offset."""
    backed_up(site, 1, -1)
    site.source.write("jobs", [b"d"])
    result = site.back_up()
    assert result.groups is not None
    assert (result.groups.groups, result.groups.offsets, result.groups.positions) == (2, 2, 1)
    assert "2 groups with 2 committed offsets and 1 position of share groups, as before" in shown(render_result(result))


def test_a_position_that_could_never_be_read_is_none(site: Site) -> None:
    site.source.failing[UNREADABLE] = UNKNOWN_SERVER_ERROR
    backed_up(site, 1, 2, is_complete=False)
    assert positions_of(site) == {0: 1, 1: -1}
    with_share_groups(site.target)
    outlook = site.plan_restore(groups=["workers"]).outlook
    assert outlook is not None
    assert outlook.groups[0].verdict == "no position"


def test_a_group_of_the_target_whose_positions_are_read_in_part_is_left_alone(site: Site) -> None:
    """An undo would not know all of them."""
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    positions = {TopicPartition(topic="jobs", partition=number): 3 for number in range(2)}
    site.target.groups["workers"] = FakeGroup(kind="share", offsets=dict(positions))
    site.target.failing[UNREADABLE] = UNKNOWN_SERVER_ERROR
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest())
    why = "reading its position in jobs/1: UNKNOWN_SERVER_ERROR"
    assert f"  group workers will not be changed: {why}\n" in shown(_render_plan(report_groups(planned)))
    applied = apply_groups(planned, site.target.admin)
    (failure,) = applied.failed
    assert (failure.group, failure.partitions) == ("workers", ())
    assert f"  group workers was not changed: {why}\n" in shown(render_applied(applied))
    assert site.target.groups["workers"].offsets == positions
    assert applied.share_positions == ()


def test_a_group_that_begins_at_the_first_record_does_so_after_a_restore(site: Site) -> None:
    backed_up(site, 1, -1, reset="earliest")
    with_share_groups(site.target)
    site.restore(groups=["workers"])
    assert site.target.committed("workers", "jobs") == {0: 1, 1: 0}


def test_a_partition_that_is_not_restored_one_to_one_has_no_position(site: Site) -> None:
    """Plan and result said that offsets are left out, and not that the group begins at the end."""
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    words: dict[str, Any] = {"groups": ["workers"], "repartition": ["jobs=3"], "keyless": "in-turn"}
    outlook = site.plan_restore(**words).outlook
    assert outlook is not None
    (foreseen,) = outlook.groups
    assert (foreseen.verdict, foreseen.left_out) == ("in part", 2)
    assert [(share.without, dict(share.positions)) for share in foreseen.share_positions] == [((0, 1), {})]
    plan = planned(share(40, 50, 60, 70))
    assert (plan.share_positions()[0].without, plan.counts().missing) == ((3,), 1)


def test_a_group_of_another_kind_is_left_alone(site: Site) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.target.groups["readers"] = FakeGroup(kind="share")
    site.target.groups["workers"] = FakeGroup(kind="consumer")
    outlook = site.plan_restore(groups=["all"]).outlook
    assert outlook is not None
    assert {failure.error for failure in outlook.unsettable} == {"OTHER_KIND"}
    assert ([group.verdict for group in outlook.groups], outlook.exit_code) == (["not set", "not set"], 3)
    assert "DELIVERS AGAIN" not in "\n".join(map(str, render_outlook(outlook, backup="nightly")))
    result = site.restore(groups=["all"]).groups
    assert result is not None
    assert {failure.group: failure.error for failure in result.failed} == {
        "readers": "OTHER_KIND",
        "workers": "OTHER_KIND",
    }
    assert "it is a consumer group on the cluster, and a share group in the backup" in result.failed[-1].message
    assert (site.target.committed("readers", "jobs"), site.target.committed("workers", "jobs")) == ({}, {})


def test_members_keep_the_positions_of_their_group(site: Site) -> None:
    backed_up(site, 1, 2)
    with_share_groups(site.target)
    site.restore()
    site.target.groups["workers"] = FakeGroup(kind="share", state="Stable")
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest(groups=parse_groups(["workers"])))
    assert planned.plan.groups[0].is_active
    (failure,) = apply_groups(planned, site.target.admin).failed
    assert (failure.error, failure.message) == ("NON_EMPTY_GROUP", "it has active members: stop them first")


def test_as_of_a_time_positions_come_from_the_commit_before(site: Site) -> None:
    """The history of consumer groups has none."""
    site.source.make_topic("__consumer_offsets")
    backed_up(site, 1, 2, history=True)
    site.source.write("__consumer_offsets", [value(1)], key=key())
    site.source.commit_group("workers", "jobs", [3, 3])
    site.back_up(history=True)
    at = format_time(site.backup.sound_state().committed_at_ms)
    listed = show_groups(site.backup, groups=ALL_GROUPS, at=at)
    assert listed.origin == "history"
    assert [(group.group, group.kind) for group in listed.groups if group.group == "workers"] == [("workers", "share")]
    assert any("positions of share groups are not in the history" in note for note in listed.notes)


def test_offsets_of_before_are_no_positions_of_a_share_group_that_took_the_name(site: Site) -> None:
    """The kind is of the commit, the offsets of the history before: they would be set as positions."""
    with_share_groups(site.source)
    site.source.make_topic("__consumer_offsets")
    site.source.make_topic("jobs")
    site.source.write("jobs", [b"a", b"b"])
    site.source.write("__consumer_offsets", [value(1)], key=key(GroupPartition("workers", "jobs", 0)))
    site.back_up("jobs", history=True)
    at = format_time(site.backup.sound_state().committed_at_ms)
    site.source.groups["workers"] = FakeGroup(kind="share")
    site.source.commit_group("workers", "jobs", [0])
    site.source.write("__consumer_offsets", [b"of a later release"], key=b"\x00\x63")
    site.back_up(history=True)
    for time in (at, format_time(FIRST_TIME_MS)):  # the second one is before all commits
        listed = show_groups(site.backup, groups=ALL_GROUPS, at=time)
        assert listed.commit == 2
        assert [(group.kind, dict(group.topics[0].offsets)) for group in listed.groups] == [("", {0: 1})]


def test_no_archive_gets_positions() -> None:
    groups, notes = committing_groups({"workers": share(1), "readers": GroupOffsets(group="readers")})
    assert list(groups) == ["readers"]
    assert notes == ("1 share group left out, because archives cannot hold positions: workers",)
