"""Groups put where they were: planned, applied, undone, against clusters that are none."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from offsite.cli.commands.groups import _render_plan, render_applied
from offsite.cli.views.restore import render_outlook
from offsite.groups.missing_records import RefusedOffset
from offsite.groups.report import report_groups, show_groups
from offsite.groups.restored_offsets import map_offset
from offsite.groups.run import AppliedGroups, GroupsRequest, PlannedGroups, apply_groups, prepare_groups, restore_groups
from offsite.groups.undo import find_change, undo_groups
from offsite.kafka import group_coordinators
from offsite.kafka.net import connection
from offsite.kafka.protocol.request import Api
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    BackupExists,
    BadOption,
    DamagedObject,
    NoSuchRestore,
    NoSuchRestorePoint,
    OtherCluster,
    StoreDenied,
)
from offsite.model.selection import ALL_GROUPS, NO_GROUPS, parse_groups, split_patterns
from offsite.model.topic_choices import parse_renames
from offsite.model.units import format_time
from offsite.repository.snapshots.group_change import GroupChangeLayout, put_group_change
from offsite.repository.snapshots.group_snapshot import encode_groups
from offsite.stores.store import PutResult
from tests.batches import FIRST_TIME_MS
from tests.denied_store import DeniedStore
from tests.fake_cluster.site import Site
from tests.faulty_store import FaultyStore
from tests.shown import shown
from tests.unit.log.test_group_records import OF, key, value

OFFSET_METADATA_TOO_LARGE = 12


def backed_up(site: Site) -> None:
    """A group of two partitions; partition 0 has an aborted record in front."""
    site.source.make_topic("orders", partitions=2)
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.source.write("orders", [b"a", b"b"])
    site.source.write("orders", [b"c"], partition=1)
    site.source.commit_group("readers", "orders", [3, 1])
    site.back_up("orders")


def planned(site: Site, **request: Any) -> PlannedGroups:
    return prepare_groups(site.backup, site.target.admin, GroupsRequest(**request))


def applied(site: Site, **request: Any) -> AppliedGroups:
    return apply_groups(planned(site, **request), site.target.admin)


def test_a_backup_shows_its_groups_with_their_lag(site: Site) -> None:
    backed_up(site)
    (group,) = show_groups(site.backup, groups=ALL_GROUPS).groups
    assert (group.group, group.kind, group.state, group.lag) == ("readers", "classic", "Empty", 1)
    assert group.topics[0].offsets == {0: 3, 1: 1}
    with pytest.raises(NoSuchRestorePoint, match="has no group others"):
        show_groups(site.backup, groups=parse_groups(["others"]))


def test_offsets_are_translated_by_the_maps_of_a_restore(site: Site) -> None:
    backed_up(site)
    restore = site.restore(offsets="translate", rename=["orders=copy"]).restore
    plan = planned(site, restore=restore)
    (group,) = report_groups(plan).groups
    rows = [(each.target, each.partition, each.source, each.current, each.new, each.how) for each in group.offsets]
    assert rows == [("copy", 0, 3, -1, 1, "exact"), ("copy", 1, 1, -1, 1, "end")]
    assert "readers" not in site.target.groups
    result = apply_groups(plan, site.target.admin)
    assert (result.groups, result.offsets_set, result.unchanged, result.failed) == (1, 2, 0, ())
    assert site.target.committed("readers", "copy") == {0: 1, 1: 1}


def test_a_single_offset_can_be_looked_up(site: Site) -> None:
    backed_up(site)
    restore = site.restore(offsets="translate", rename=["orders=copy"]).restore
    found = map_offset(site.backup, restore, TopicPartition(topic="orders", partition=0), 3)
    assert (found.target_topic, found.target_offset, found.match) == ("copy", 1, "exact")


def test_the_same_offsets_are_kept_within_the_log(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    result = applied(site)
    assert (result.offsets_set, result.clamped) == (2, 1)
    assert site.target.committed("readers", "orders") == {0: 3, 1: 0}
    assert "READS AGAIN: readers: orders/1 from 0 on: it had read to 1, but the log ends earlier" in shown(
        render_applied(result)
    )


@pytest.mark.parametrize("rules", [["orders=copy", "payments=copy"], ["orders=payments"], ["regex:.*=copy"]])
def test_offsets_of_two_topics_are_not_put_into_one(site: Site, rules: list[str]) -> None:
    """Those of one of them would be lost, and the group would go on where the other one was."""
    for name in ("orders", "payments"):
        site.source.make_topic(name)
        site.source.write(name, [b"a", b"b"])
        site.source.commit_group("readers", name, [1])
    site.back_up("orders", "payments")
    for name in ("copy", "payments"):
        site.target.make_topic(name, partitions=2)
    with pytest.raises(BadOption, match="under the same name: orders and payments"):
        planned(site, renames=parse_renames(rules))


@pytest.mark.parametrize("rule", ["ordrs=copy", "ordrs-*=copy-*"])
def test_a_rule_for_no_topic_of_the_backup_is_refused(site: Site, rule: str) -> None:
    """Else the offsets would be set in the topic that was to be left alone."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    with pytest.raises(BadOption, match="--rename names ordrs"):
        planned(site, renames=parse_renames([rule]))


def test_offsets_of_the_source_are_not_set_on_a_topic_that_a_restore_translated(site: Site) -> None:
    """The command without --restore set the group to the end, behind two records that it had not read, and said that
    it reads again."""
    site.source.make_topic("orders")
    site.source.write_in_transaction("orders", [b"aborted"] * 5, committed=False)
    site.source.write("orders", [b"a", b"b", b"c"])
    site.source.commit_group("readers", "orders", [7])
    site.back_up("orders")
    restore = site.restore(offsets="translate").restore
    result = applied(site)
    assert (result.offsets_set, site.target.committed("readers", "orders")) == (0, {})
    assert result.notes == (f"orders was created by restore {restore}: set its groups with --restore {restore}",)
    assert applied(site, restore=restore).offsets_set == 1
    assert site.target.committed("readers", "orders") == {0: 1}


def test_a_topic_that_is_not_there_is_named_and_nothing_is_committed(site: Site) -> None:
    backed_up(site)
    result = applied(site)
    assert (result.groups, result.offsets_set, result.absent_topics, result.change) == (0, 0, ("orders",), "")
    site.target.make_topic("copy", partitions=2)
    assert applied(site, renames=parse_renames(["orders=copy"])).offsets_set == 2


def test_groups_whose_answers_are_too_large_together_are_asked_for_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each application chooses the text beside its offsets, of up to 4 KB for each partition. A hundred groups are in
    one answer: no backup was made, after a minute."""
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a"])
    for number in range(50):
        site.source.commit_group(f"readers-{number}", "orders", [1, 0])
    monkeypatch.setattr(group_coordinators, "COORDINATOR_MAX_S", 1.0)
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 3_000)
    saved = site.back_up("orders").groups
    assert saved is not None
    assert (saved.groups, saved.failed) == (50, ())


def test_a_group_with_members_is_left_alone_and_told_of(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    site.target.commit_group("readers", "orders", [0, 0], state="Stable")
    plan = planned(site)
    assert [each.active for each in report_groups(plan).groups] == [True]
    result = apply_groups(plan, site.target.admin)
    (failure,) = result.failed
    assert (failure.group, failure.message) == ("readers", "it has active members: stop them first")
    assert result.groups == 0


def test_numbers_of_a_result_leave_out_groups_that_were_refused(site: Site) -> None:
    """An offset of a group with members was "outside the log, and set to the nearest end of the log"."""
    backed_up(site)
    site.source.commit_group("ahead", "orders", [9, 9])
    site.back_up()
    restore = site.restore().restore
    site.target.commit_group("ahead", "orders", [0, 1], state="Stable")
    result = applied(site, restore=restore, clamp=True)
    assert [failure.group for failure in result.failed] == ["ahead"]
    assert (result.groups, result.offsets_set, result.unchanged, result.clamped, result.reads_again) == (1, 2, 0, 0, ())
    assert "warning" not in shown(render_applied(result))


def test_the_plan_of_a_restore_says_that_a_group_has_members(site: Site) -> None:
    """It said that the group continues where it was. The restore ended with exit code 3, and its application went on
    elsewhere."""
    backed_up(site)
    site.target.commit_group("readers", "others", [0], state="Stable")
    outlook = site.plan_restore(groups=["all"]).outlook
    assert outlook is not None
    assert (outlook.exit_code, [group.verdict for group in outlook.groups]) == (3, ["not set"])
    text = shown(render_outlook(outlook, backup="nightly"))
    assert "NOT SET: readers: it has active members: stop them first" in text


def test_a_plan_says_why_a_group_is_refused(site: Site) -> None:
    """It said that offsets are refused, and `apply` why."""
    backed_up(site)
    refused = RefusedOffset(group="readers", topic="orders", partition=0, offset=3, why="1 unread offset is missing")
    plan = planned(site, restore=site.restore().restore)
    report = report_groups(replace(plan, plan=replace(plan.plan, refused=(refused,))))
    assert "  NOT SET: readers: at 3 of orders/0: 1 unread offset is missing\n" in shown(_render_plan(report))


def test_what_was_there_is_put_back(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    site.target.commit_group("readers", "orders", [1])
    change = applied(site).change
    assert site.target.committed("readers", "orders") == {0: 3, 1: 0}
    found = find_change(site.backup, site.target.admin, None)
    assert found.change == change
    undone = undo_groups(site.backup, site.target.admin, found)
    assert (undone.groups, undone.offsets_put_back, undone.offsets_removed, undone.failed) == (1, 1, 1, ())
    assert site.target.committed("readers", "orders") == {0: 1}
    with pytest.raises(NoSuchRestore, match="no change of groups on this cluster to undo"):
        find_change(site.backup, site.target.admin, None)


def test_a_change_that_somebody_else_wrote_is_undone_only_where_it_is_named(site: Site) -> None:
    """Whoever may put objects there could have groups skip or repeat work, with the credentials of who undoes."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    own = find_change(site.backup, site.target.admin, applied(site).change)
    forged = replace(own, change="20991231-000000-0123abcd", created_at_ms=own.created_at_ms + 1)
    store, layout = site.backup.store, site.backup.layout
    put_group_change(store, layout, forged, {"readers": GroupOffsets(group="readers")})
    data = store.get(GroupChangeLayout(backup=layout, change=own.change).record_key) or b""
    store.put_if_absent(f"{layout.group_changes_prefix}copy/change.json", data)
    assert find_change(site.backup, site.target.admin, None) == own
    assert find_change(site.backup, site.target.admin, forged.change).change == forged.change
    undo_groups(site.backup, site.target.admin, own)
    with pytest.raises(NoSuchRestore) as caught:
        find_change(site.backup, site.target.admin, None)
    assert (
        f"there are: {forged.change}, but this machine did not record them: choose one with --change"
        in caught.value.hint
    )


def test_a_damaged_record_of_a_change_stops_only_who_names_it(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    change = applied(site).change
    site.backup.store.put_if_absent(
        f"{site.backup.layout.group_changes_prefix}20991231-000000-damaged/change.json", b"{"
    )
    with caplog.at_level("WARNING", logger="offsite.journal"):
        assert find_change(site.backup, site.target.admin, None).change == change
    assert "change_unreadable change=20991231-000000-damaged" in caplog.text
    assert find_change(site.backup, site.target.admin, change).change == change
    with pytest.raises(DamagedObject, match=r"20991231-000000-damaged/change\.json"):
        find_change(site.backup, site.target.admin, "20991231-000000-damaged")


def test_nothing_is_undone_where_that_cannot_be_recorded(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    site.target.commit_group("readers", "orders", [1])
    change = find_change(site.backup, site.target.admin, applied(site).change)
    now = site.target.committed("readers", "orders")
    denied = replace(site.backup, store=DeniedStore(site.backup.store))
    with pytest.raises(StoreDenied) as caught:
        undo_groups(denied, site.target.admin, change)
    assert "--records FOLDER or URL" in caught.value.hint
    assert site.target.committed("readers", "orders") == now


def test_nothing_is_applied_where_what_was_there_cannot_be_recorded(site: Site) -> None:
    """Also where the store tells its time, and denies one prefix alone."""

    class OnePrefix(FaultyStore):
        def put_if_absent(self, key: str, data: Any) -> PutResult:
            if "/group-changes/" in key:
                raise StoreDenied(f"cannot write {key}")
            return super().put_if_absent(key, data)

    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    site.target.commit_group("readers", "orders", [1])
    for store in (DeniedStore(site.backup.store), OnePrefix(site.backup.store)):
        denied = replace(site.backup, store=store)
        with pytest.raises(StoreDenied):
            apply_groups(prepare_groups(denied, site.target.admin, GroupsRequest()), site.target.admin)
        assert site.target.committed("readers", "orders") == {0: 1}


def test_a_change_that_could_not_be_undone_whole_stays_open(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    change = applied(site).change
    site.target.groups["readers"].state = "Stable"
    undone = undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, change))
    assert [each.group for each in undone.failed] == ["readers"]
    assert find_change(site.backup, site.target.admin, change).change == change


def test_nothing_is_committed_again_that_stands(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    applied(site)
    again = applied(site)
    assert (again.offsets_set, again.unchanged, again.change) == (0, 2, "")


def test_a_restore_belongs_to_its_cluster_and_names_its_own_point(site: Site) -> None:
    backed_up(site)
    restore = site.restore(offsets="translate").restore
    with pytest.raises(BadOption, match="--restore already sets the restore point and the topic names"):
        planned(site, restore=restore, commit=1)
    with pytest.raises(NoSuchRestore):
        planned(site, restore="missing")
    with pytest.raises(OtherCluster, match="was made on cluster target, but this cluster is source"):
        prepare_groups(site.backup, site.source.admin, GroupsRequest(restore=restore))


def test_a_backup_without_groups_knows_none(site: Site) -> None:
    site.source.make_topic("orders")
    site.back_up("orders", groups=NO_GROUPS)
    with pytest.raises(NoSuchRestorePoint, match="has no groups at commit 1"):
        planned(site)


@pytest.mark.parametrize("at", [None, "1h-ago"])
def test_of_a_backup_without_a_commit_is_said_that_one_is_to_be_made(site: Site, at: str | None) -> None:
    backed_up(site)
    backup = site.backup
    for info in list(backup.store.list(backup.layout.commits_prefix)):
        backup.store.delete(info.key)
    with pytest.raises(NoSuchRestorePoint, match="has no groups at commit 0") as refused:
        show_groups(backup, groups=ALL_GROUPS, at=at)
    assert "run offsite backup run" in str(refused.value.hint)


def test_as_of_a_time_they_are_those_of_the_commit_before(site: Site) -> None:
    backed_up(site)
    shown = show_groups(site.backup, groups=ALL_GROUPS, at="2020-01-01T00:00:00Z")
    assert shown.notes == ("no commit is as old as 2020-01-01T00:00:00.000Z: the groups come from commit 1",)
    later = show_groups(site.backup, groups=ALL_GROUPS, at="2100-01-01T00:00:00Z")
    assert "the groups come from commit 1, the newest before" in later.notes[0]


def test_from_their_own_history_groups_are_known_as_of_any_moment(site: Site) -> None:
    site.source.make_topic("orders", partitions=8)
    site.source.make_topic("__consumer_offsets", partitions=2)
    site.source.write("orders", [b"a", b"b"], partition=OF.partition)
    for offset in (1, 2):
        site.source.write("__consumer_offsets", [value(offset)], key=key(OF), partition=1)
    assert site.back_up("orders", history=True).topics == 2
    assert site.back_up().topics == 2
    then, later = (show_groups(site.backup, groups=ALL_GROUPS, at=format_time(FIRST_TIME_MS + at)) for at in (0, 1))
    assert (then.origin, then.groups[0].topics[0].offsets) == ("history", {OF.partition: 1})
    assert later.groups[0].topics[0].offsets == {OF.partition: 2}


def test_the_history_of_groups_cannot_begin_later(site: Site) -> None:
    site.source.make_topic("orders")
    site.back_up("orders")
    with pytest.raises(BackupExists, match="exists without the history of groups"):
        site.plan_backup(history=True)


def test_a_restore_that_goes_on_with_other_groups_is_undone_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first attempt remembered says nothing of the groups that came later: their offsets were lost."""
    backed_up(site)
    site.source.commit_group("writers", "orders", [4, 1])
    site.back_up()
    for name in ("readers", "writers"):
        site.target.commit_group(name, "copy", [0, 0])

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    words: dict[str, Any] = {"topics": ["orders"], "rename": ["orders=copy"], "offsets": "translate"}
    with monkeypatch.context() as patch:
        patch.setattr("offsite.kafka.groups.GroupClient.commit", killed)
        with pytest.raises(KeyboardInterrupt):
            site.restore(groups=["readers"], **words)
    result = site.restore(groups=["all"], **words)
    assert result.resumed
    assert result.groups is not None
    change = find_change(site.backup, site.target.admin, result.groups.change)
    undone = undo_groups(site.backup, site.target.admin, change)
    assert (undone.groups, site.target.committed("readers", "copy"), site.target.committed("writers", "copy")) == (
        2,
        {0: 0, 1: 0},
        {0: 0, 1: 0},
    )


def test_a_restore_that_goes_on_with_other_settings_of_the_cluster_is_the_same_restore(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--metadata all` meant less to earlier versions: their unfinished restores were not found any more, and the
    topics were refused as not empty."""
    backed_up(site)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("offsite.restore.run.apply_metadata", killed)
        with pytest.raises(KeyboardInterrupt):
            site.restore(metadata="acls,quotas", topics=["orders"])
    assert site.restore(metadata="all", topics=["orders"]).resumed


def test_what_others_put_where_a_restore_remembers_its_groups_is_never_gone_back_to(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may create objects sees the id of a restore long before it comes to its groups."""
    backed_up(site)
    site.target.commit_group("readers", "copy", [0, 0])
    seen: list[str] = []

    def forged(backup: Any, admin: Any, record: Any, groups: Any) -> Any:
        layout = GroupChangeLayout(backup=backup.layout, change=record.restore)
        of = {
            "readers": GroupOffsets(
                group="readers", topics=(TopicOffsets.of("copy", [CommittedOffset(partition=0, offset=1)]),)
            )
        }
        backup.store.put_if_absent(layout.before_key, encode_groups(of))
        seen.append(record.restore)
        return restore_groups(backup, admin, record, groups)

    monkeypatch.setattr("offsite.restore.run.restore_groups", forged)
    site.restore(topics=["orders"], rename=["orders=copy"], offsets="translate", groups=["all"])
    assert seen
    undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, None))
    assert site.target.committed("readers", "copy") == {0: 0, 1: 0}


def test_a_rename_of_one_topic_says_nothing_of_the_others(site: Site) -> None:
    """On the backup's own cluster, where one of these was made anew: its offsets were set in the new one."""
    for name in ("orders", "payments"):
        site.source.make_topic(name)
        site.source.write(name, [b"a", b"b", b"c"])
        site.source.commit_group("readers", name, [3])
    site.back_up("orders", "payments")
    for name in ("copy", "payments"):
        site.source.remake_topic(name) if name in site.source.topics else site.source.make_topic(name)
        site.source.write(name, [b"x"] * 9)
    site.source.commit_group("readers", "payments", [0])
    request = GroupsRequest(renames=parse_renames(["orders=copy"]))
    done = apply_groups(prepare_groups(site.backup, site.source.admin, request), site.source.admin)
    assert site.source.committed("readers", "copy") == {0: 3}
    assert site.source.committed("readers", "payments") == {0: 0}
    assert "payments on the cluster is another topic" in done.notes[0]


def test_offsets_of_a_group_that_brokers_did_not_list_are_put_back(site: Site) -> None:
    """Lists leave out a group that moves to another coordinator meanwhile. The undo removed its offsets: it took them
    for new ones."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    site.target.commit_group("readers", "orders", [2, 0])
    site.target.unlisted = {"readers"}
    plan = planned(site)
    assert [offset.current for offset in report_groups(plan).groups[0].offsets] == [2, 0]
    apply_groups(plan, site.target.admin)
    undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, None))
    assert site.target.committed("readers", "orders") == {0: 2, 1: 0}


def test_a_group_that_is_set_in_part_is_not_called_unchanged(site: Site) -> None:
    """Brokers judge each partition of a commit alone."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b", b"c", b"d"])
    refused = TopicPartition(topic="orders", partition=1)
    site.target.failing[Api.OFFSET_COMMIT, refused] = OFFSET_METADATA_TOO_LARGE
    result = applied(site)
    assert site.target.committed("readers", "orders") == {0: 3}
    (failure,) = result.failed
    assert (failure.error, failure.partitions) == ("OFFSET_METADATA_TOO_LARGE", (refused,))
    text = shown(render_applied(result))
    assert "group readers may not be as planned: committing offsets in orders/1: OFFSET_METADATA_TOO_LARGE" in text
    assert f"to go back: offsite groups undo --backup nightly --change {result.change}" in text


def test_a_group_that_is_gone_has_nothing_to_be_removed(site: Site) -> None:
    """Brokers drop a group without offsets and members. An undo that was repeated found no such group, failed, and
    stayed open for ever."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    change = applied(site).change
    del site.target.groups["readers"]
    undone = undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, change))
    assert (undone.failed, undone.complete) == ((), True)
    with pytest.raises(NoSuchRestore):
        find_change(site.backup, site.target.admin, change)


@pytest.mark.parametrize("is_left", [False, True])
def test_offsets_on_a_topic_that_is_gone_are_removed_where_they_are_seen_to_be(site: Site, *, is_left: bool) -> None:
    """A restore gone wrong: its topic is deleted first, then its groups are undone. Brokers remove offsets on a topic
    that is deleted, and then refuse to remove them."""
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    change = applied(site).change
    del site.target.topics["orders"]
    if not is_left:
        site.target.groups["readers"].offsets.clear()
    undone = undo_groups(site.backup, site.target.admin, find_change(site.backup, site.target.admin, change))
    assert [failure.error for failure in undone.failed] == ["UNKNOWN_TOPIC_OR_PARTITION"] * is_left


def test_names_of_groups_in_a_command_are_names_to_the_shell_and_to_offsite(site: Site) -> None:
    """Whoever commits offsets chooses the name. A command to copy ran it, or set all groups."""
    backed_up(site)
    names = ["*", "all", "a,b", "x; touch /tmp/harm"]
    refused = tuple(RefusedOffset(group=name, topic="orders", partition=0, offset=3, why="missing") for name in names)
    text = shown(render_applied(replace(applied(site), refused=refused)))
    command = next(line for line in text.splitlines() if "offsite groups apply" in line).rpartition("anyway: ")[2]
    words = shlex.split(command)
    assert words[:4] == ["offsite", "groups", "apply", "--backup"]
    assert words[-3:-1] == ["--groups", words[-2]]
    chosen = parse_groups(split_patterns(words[-2]))
    assert chosen.select([*names, "readers", "a", "b", "x"]) == tuple(sorted(names))
