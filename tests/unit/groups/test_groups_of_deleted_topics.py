"""Groups of topics that were deleted, and groups that are gone: taken from the newest commit that had them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.archives.export.plan import ExportRequest, plan_export
from offsite.archives.export.run import open_target
from offsite.archives.formats import WriteOptions
from offsite.cli.views.restore import render_outlook
from offsite.groups import snapshots
from offsite.groups.groups_as_of import GoneSince
from offsite.groups.report import report_groups, show_groups
from offsite.groups.run import AppliedGroups, GroupsRequest, apply_groups, prepare_groups
from offsite.groups.snapshots import read_groups, save_groups
from offsite.kafka.groups import FetchedGroups, GroupClient, GroupFailure
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.group_fold import GroupPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import DamagedObject, KafkaTimeout, LeaderUnavailable, NoSuchRestorePoint
from offsite.model.selection import ALL_GROUPS, parse_groups, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.model.units import format_time
from offsite.points.restore_point import PointRequest
from offsite.repository.commit import CommitChanges
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import find_record, get_targets, put_record, put_targets
from offsite.repository.snapshots.commit_cut import CommitCut, CutGroup, get_commit_cut, put_commit_cut
from offsite.repository.snapshots.group_snapshot import get_group_snapshot, put_group_snapshot
from offsite.restore.plan_report import report_plan
from offsite.upkeep.collection.leftovers import leftovers_plan_steps
from offsite.upkeep.deletion import run_to_end
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.site import Site
from tests.shown import shown
from tests.unit.log.test_group_records import key, value

pytestmark = pytest.mark.usefixtures("asked_again_at_once")


@pytest.fixture
def begun(site: Site) -> Site:
    """`billing` has read 3 of the 5 records of `orders`, `shipping` all of `users`: backed up once."""
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"0", b"1", b"2", b"3", b"4"])
    site.source.commit_group("billing", "orders", [3])
    site.source.commit_group("shipping", "users", [5])
    site.back_up("orders", "users")
    return site


def test_records_are_backed_up_while_brokers_load_the_groups(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than a run waits. What is known of groups stays, and the result says so."""

    def is_loading(_: GroupClient) -> Sequence[ListedGroup]:
        raise KafkaTimeout("broker 1: COORDINATOR_LOAD_IN_PROGRESS")

    snapshot = get_group_snapshot(begun.backup.store, begun.backup.state().groups or "")
    monkeypatch.setattr(GroupClient, "list", is_loading)
    begun.source.write("orders", [b"5"])
    result = begun.back_up("orders", "users")
    assert result.records == 1
    assert not result.complete
    (failure,) = result.groups.failed if result.groups else ()
    assert (failure.group, "brokers did not list the groups" in failure.message) == ("*", True)
    assert get_group_snapshot(begun.backup.store, begun.backup.state().groups or "") == snapshot


def delete_topic(cluster: FakeCluster, name: str) -> None:
    """As brokers do: the offsets of groups go with it, and groups without any."""
    cluster.topics.pop(name)
    drop_offsets(cluster, name)


def remake_topic(cluster: FakeCluster, name: str) -> None:
    cluster.remake_topic(name)
    drop_offsets(cluster, name)


def drop_offsets(cluster: FakeCluster, topic: str) -> None:
    for name, group in list(cluster.groups.items()):
        group.offsets = {where: offset for where, offset in group.offsets.items() if where.topic != topic}
        if not group.offsets:
            cluster.groups.pop(name)


def deleted_beside_a_living_group(site: Site) -> Site:
    delete_topic(site.source, "orders")
    site.source.write("users", [b"5"])
    site.back_up()
    return site


def applied(site: Site, *, to: FakeCluster | None = None, **request: Any) -> AppliedGroups:
    admin = (to or site.target).admin
    return apply_groups(prepare_groups(site.backup, admin, GroupsRequest(**request)), admin)


def as_of(site: Site, commit: int) -> str:
    line = site.backup.state().history.find(commit)
    assert line is not None
    return f"commit {commit} of {format_time(line.committed_at_ms)}"


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_a_restore_of_a_deleted_topic_takes_its_groups_as_of_the_newest_commit_that_had_it(
    begun: Site, offsets: str
) -> None:
    site = deleted_beside_a_living_group(begun)
    assert "billing" not in site.source.groups
    planned = site.plan_restore(topics=["orders"], groups=["all"], offsets=offsets)
    note = f"orders was deleted at the source: its groups come from {as_of(site, 1)}, the newest commit with it"
    outlook = report_plan(planned).groups
    assert outlook is not None
    assert [(each.group, each.verdict, each.unread) for each in outlook.groups] == [("billing", "goes on", 2)]
    assert outlook.notes == (note,)
    assert [(each.topic, each.group, each.commit, each.gone_since) for each in outlook.earlier] == [
        ("orders", "", 1, 0)
    ]
    result = site.restore(topics=["orders"], groups=["all"], offsets=offsets)
    assert result.groups is not None
    assert (result.records, result.groups.groups, result.groups.offsets_set) == (5, 1, 1)
    assert (result.groups.notes, result.groups.earlier) == ((note,), outlook.earlier)
    assert site.target.committed("billing", "orders") == {0: 3}


def test_groups_show_plan_and_apply_know_them_too(begun: Site) -> None:
    site = deleted_beside_a_living_group(begun)
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    rows = [(each.group, topic.topic, topic.offsets, topic.commit) for each in shown.groups for topic in each.topics]
    assert rows == [("billing", "orders", {0: 3}, 1), ("shipping", "users", {0: 5}, 0)]
    assert [each.commit for each in shown.earlier] == [1]
    restore = site.restore(topics=["orders"], offsets="translate", rename=["orders=copy"]).restore
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest(restore=restore))
    assert [(each.group, len(each.offsets)) for each in report_groups(planned).groups] == [("billing", 1)]
    assert report_groups(planned).earlier == shown.earlier
    assert apply_groups(planned, site.target.admin).earlier == shown.earlier
    assert site.target.committed("billing", "copy") == {0: 3}
    renamed = applied(site, renames=parse_renames(["orders=copy"]), groups=parse_groups(["billing"]))
    assert (renamed.unchanged, renamed.offsets_set) == (1, 0), "offsets as they are"


def test_an_offset_is_never_beyond_the_records_that_come_back(begun: Site) -> None:
    site = deleted_beside_a_living_group(begun)
    words: dict[str, Any] = {
        "topics": ["orders"],
        "groups": ["billing"],
        "before": ["topic=orders,partition=0,offset=2"],
    }
    result = site.restore(offsets="translate", **words)
    assert result.groups is not None
    assert (result.records, result.groups.clamped) == (2, 1)
    assert site.target.committed("billing", "orders") == {0: 2}


def test_groups_are_known_however_much_later_and_whatever_retention_lets_go(begun: Site) -> None:
    """Commits and snapshots of groups stay where they stop being restore points."""
    site = deleted_beside_a_living_group(begun)
    for number in range(3):
        site.source.write("users", [b"%d" % number])
        site.source.commit_group("shipping", "users", [6 + number])
        site.back_up()
    head = site.backup.state()
    site.backup.commit(head.carry_over(CommitChanges(forgotten=((1, 5),))), base=head, writer="retention")
    state = site.backup.state()
    assert [line.seq for line in state.history] == [5, 6]
    plan = run_to_end(leftovers_plan_steps(site.backup, clock=SystemClock(), grace_ms=-(10**9)))
    assert not [each for each in plan.objects if each.kind == "groups"]
    result = site.restore(topics=["orders"], groups=["all"])
    assert site.target.committed("billing", "orders") == {0: 3}
    assert result.groups is not None
    assert [each.commit for each in result.groups.earlier] == [1]


def test_a_mark_that_no_time_leads_to_is_found_by_what_commits_say(begun: Site) -> None:
    """As where a clock was put back, or an earlier version wrote no mark."""
    site = deleted_beside_a_living_group(begun)
    head = site.backup.state()
    (shape,) = (shape for shape in head.topics.values() if shape.is_deleted)
    state = site.backup.commit(
        head.carry_over(CommitChanges(topics=(replace(shape, deleted_ms=1),))), base=head, writer="strange"
    )
    assert state.seq == 3
    assert [each.commit for each in show_groups(site.backup, groups=ALL_GROUPS).earlier] == [1]


def test_offsets_of_one_incarnation_never_go_to_another(begun: Site) -> None:
    site = begun
    remake_topic(site.source, "orders")
    site.source.write("orders", [b"new"])
    site.source.commit_group("auditing", "orders", [1])
    site.back_up()
    new = site.restore(topics=["orders"], groups=["all"], rename=["orders=new"]).groups
    assert new is not None
    assert new.earlier == ()
    assert (site.target.committed("auditing", "new"), site.target.committed("billing", "new")) == ({0: 1}, {})
    old = site.restore(topics=["orders"], groups=["all"], rename=["orders=old"], incarnation=["orders=1"]).groups
    assert old is not None
    assert [(each.topic, each.commit) for each in old.earlier] == [("orders", 1)]
    assert (site.target.committed("auditing", "old"), site.target.committed("billing", "old")) == ({}, {0: 3})
    delete_topic(site.source, "orders")
    site.back_up()
    last = site.restore(topics=["orders"], groups=["all"], rename=["orders=last"]).groups
    assert last is not None
    assert [each.commit for each in last.earlier] == [2]
    assert (site.target.committed("auditing", "last"), site.target.committed("billing", "last")) == ({0: 1}, {})


def test_on_its_own_cluster_a_topic_that_was_made_anew_gets_nothing_of_the_old_one(begun: Site) -> None:
    site = deleted_beside_a_living_group(begun)
    site.source.make_topic("orders")
    site.source.write("orders", [b"somebody else's"] * 9)
    done = applied(site, to=site.source, groups=parse_groups(["billing"]))
    assert (done.offsets_set, done.earlier) == (0, ())
    assert "orders on the cluster is another topic" in done.notes[0]
    assert "billing" not in site.source.groups


@pytest.mark.parametrize(("offsets", "set_"), [("preserve", 1), ("translate", 0)])
def test_on_its_own_cluster_a_restored_topic_is_known_by_its_restore(begun: Site, offsets: str, set_: int) -> None:
    """As they are, offsets hold only where they were kept."""
    site = deleted_beside_a_living_group(begun)
    restore = site.restore(into=site.source, topics=["orders"], offsets=offsets).restore
    done = applied(site, to=site.source, groups=parse_groups(["billing"]))
    assert done.offsets_set == set_
    assert bool(set_) or f"--restore {restore}" in done.notes[0]
    assert applied(site, to=site.source, groups=parse_groups(["billing"]), restore=restore).refused == ()
    assert site.source.committed("billing", "orders") == {0: 3}


def test_an_exactly_once_group_that_may_have_read_on_is_refused(begun: Site) -> None:
    """Its outputs may be there: nobody knows what it did between the last commit and the deletion."""
    site = begun
    cut = replace(_cut(site), exactly_once=("billing",))
    _commit_cut(site, cut)
    site = deleted_beside_a_living_group(site)
    outlook = report_plan(site.plan_restore(topics=["orders"], groups=["all"])).groups
    assert outlook is not None
    (group,) = outlook.groups
    assert (group.verdict, outlook.exit_code) == ("cannot go on", 3)
    assert "may have read more before it disappeared" in group.refused[0].why
    result = site.restore(topics=["orders"], groups=["all"]).groups
    assert result is not None
    assert (result.offsets_set, [each.group for each in result.refused]) == (0, ["billing"])


def test_an_exactly_once_group_that_had_read_everything_goes_on(begun: Site) -> None:
    site = begun
    site.source.commit_group("billing", "orders", [5])
    site.back_up()
    _commit_cut(site, replace(_cut(site), exactly_once=("billing",)))
    deleted_beside_a_living_group(site)
    result = site.restore(topics=["orders"], groups=["all"]).groups
    assert result is not None
    assert (result.offsets_set, result.refused) == (1, ())


@pytest.mark.parametrize(("cut", "offset"), [("auto", 1), ("as-copied", 3)])
def test_the_cut_of_the_commit_that_had_the_topic_counts(begun: Site, cut: str, offset: int) -> None:
    site = begun
    (partition,) = (each for each in site.backup.state().positions if each.topic == "orders")
    wanted = CutGroup(group="billing", partition_id=partition, offset=1)
    _commit_cut(site, replace(_cut(site), groups=(wanted,)))
    deleted_beside_a_living_group(site)
    site.restore(topics=["orders"], groups=["all"], cut=cut)
    assert site.target.committed("billing", "orders") == {0: offset}


def _cut(site: Site) -> CommitCut:
    ref = site.backup.state().cut
    return CommitCut() if ref is None else get_commit_cut(site.backup.store, ref)


def _commit_cut(site: Site, cut: CommitCut) -> None:
    head = site.backup.state()
    ref = put_commit_cut(site.backup.store, head, cut)
    site.backup.commit(head.carry_over(CommitChanges(cut=ref, accounted=True)), base=head, writer="cut")


def test_a_time_after_the_deletion_has_them_as_well(begun: Site) -> None:
    site = deleted_beside_a_living_group(begun)
    shown = show_groups(site.backup, groups=ALL_GROUPS, at=format_time(site.backup.state().committed_at_ms))
    assert [each.group for each in shown.groups] == ["billing", "shipping"]
    assert [each.commit for each in shown.earlier] == [1]


def test_where_the_history_of_groups_has_lost_them_the_commits_have_them(site: Site) -> None:
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"0", b"1"])
    site.source.make_topic("__consumer_offsets")
    of = GroupPartition("billing", "orders", 0)
    site.source.write("__consumer_offsets", [value(2)], key=key(of))
    site.source.commit_group("billing", "orders", [2])
    site.source.commit_group("shipping", "users", [1])
    site.back_up("orders", "users", history=True)
    site.source.write("__consumer_offsets", [None], key=key(of))
    deleted_beside_a_living_group(site)
    now = format_time(site.backup.state().committed_at_ms)
    shown = show_groups(site.backup, groups=parse_groups(["billing"]), at=now)
    assert (shown.origin, [each.commit for each in shown.earlier]) == ("history", [1])
    assert shown.groups[0].topics[0].offsets == {0: 2}
    result = site.restore(topics=["orders"], groups=["all"], at=now).groups
    assert result is not None
    assert (result.origin, result.offsets_set) == ("history", 1)
    assert site.target.committed("billing", "orders") == {0: 2}


def test_a_group_that_is_gone_although_its_topic_lives_is_kept_and_offered(begun: Site) -> None:
    site = begun
    del site.source.groups["billing"]
    site.back_up()
    site.source.commit_group("shipping", "users", [4])
    site.back_up()
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    (gone,) = shown.gone
    line = site.backup.state().history.find(2)
    assert line is not None
    assert gone == GoneSince(group="billing", topic="orders", commit=2, since_ms=line.committed_at_ms)
    assert [each.group for each in shown.groups] == ["shipping"]
    outlook = report_plan(site.plan_restore(topics=["orders"], groups=["all"])).groups
    assert outlook is not None
    assert (outlook.groups, outlook.gone) == ((), (gone,))
    result = site.restore(topics=["orders"], groups=["*", "billing"])
    assert result.groups is not None
    assert (result.groups.offsets_set, result.groups.gone) == (1, ())
    (earlier,) = result.groups.earlier
    assert (earlier.group, earlier.commit, earlier.gone_since) == ("billing", 1, 2)
    assert (
        f"billing has no offsets on orders since commit 2: its offsets on that topic come from {as_of(site, 1)}"
        in result.groups.notes
    )
    assert site.target.committed("billing", "orders") == {0: 3}


def test_a_group_that_no_commit_with_a_cut_knew_is_taken_from_the_last_that_did(begun: Site) -> None:
    site, backup = begun, begun.backup
    head = backup.state()
    site.source.commit_group("late", "orders", [2])
    key, _ = save_groups(backup, head, read_groups(site.source.admin.groups, ALL_GROUPS), head.topics.values())
    backup.commit(head.carry_over(CommitChanges(groups=key, accounted=True)), base=head, writer="amid a run")
    del site.source.groups["late"]
    site.back_up()
    assert [each.group for each in show_groups(backup, groups=ALL_GROUPS).gone] == ["late"]
    result = site.restore(topics=["orders"], groups=["late"]).groups
    assert result is not None
    assert [(each.group, each.commit) for each in result.earlier] == [("late", 2)]
    assert site.target.committed("late", "orders") == {0: 2}


def test_people_are_told_how_to_take_one_that_is_gone(begun: Site) -> None:
    del begun.source.groups["billing"]
    begun.back_up()
    outlook = report_plan(begun.plan_restore(topics=["orders"], groups=["all"])).groups
    assert outlook is not None
    text = shown(render_outlook(outlook, backup="nightly"))
    assert "billing has no offsets on orders since commit 2 of " in text
    assert "--groups '*,billing'" in text


def test_the_newest_that_are_gone_are_remembered(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "GONE_MAX", 2)
    site = begun
    for number in range(3):
        site.source.commit_group(f"console-{number}", "users", [number])
    site.back_up()
    for number in range(3):
        del site.source.groups[f"console-{number}"]
        site.back_up()
    gone = show_groups(site.backup, groups=ALL_GROUPS).gone
    assert [(each.group, each.commit) for each in gone] == [("console-1", 4), ("console-2", 5)]


def test_a_group_that_comes_back_is_not_gone(begun: Site) -> None:
    site = begun
    del site.source.groups["billing"]
    site.back_up()
    site.source.commit_group("billing", "orders", [4])
    site.back_up()
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    assert (shown.gone, [each.group for each in shown.groups]) == ((), ["billing", "shipping"])


def test_a_group_that_was_gone_before_its_topic_is_offered_and_not_taken(begun: Site) -> None:
    site = begun
    site.source.commit_group("auditing", "orders", [1])
    site.back_up()
    del site.source.groups["billing"]
    site.back_up()
    deleted_beside_a_living_group(site)
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    assert [each.group for each in shown.groups] == ["auditing", "shipping"]
    assert [(each.group, each.topic, each.commit) for each in shown.gone] == [("billing", "orders", 3)]
    result = site.restore(topics=["orders"], groups=["*", "billing"]).groups
    assert result is not None
    assert [(each.group, each.commit) for each in result.earlier] == [("", 3), ("billing", 2)]
    assert (site.target.committed("auditing", "orders"), site.target.committed("billing", "orders")) == ({0: 1}, {0: 3})


def test_nobody_is_called_gone_who_was_not_looked_for_or_could_not_be_seen(begun: Site) -> None:
    site = begun
    site.source.commit_group("shipping", "users", [4])
    site.back_up(groups=parse_groups(["ship*"]))
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    assert ([each.group for each in shown.groups], shown.gone) == (["shipping"], ())


def test_groups_keep_what_they_had_on_a_topic_that_cannot_be_seen(begun: Site) -> None:
    site = begun
    site.source.hidden.add("orders")
    drop_offsets(site.source, "orders")
    site.source.commit_group("shipping", "users", [4])
    site.back_up()
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    rows = {each.group: each.topics[0].offsets for each in shown.groups}
    assert (rows, shown.gone, shown.earlier) == ({"billing": {0: 3}, "shipping": {0: 4}}, (), ())


def test_a_name_that_nobody_knows_is_refused_before_anything_is_written(begun: Site) -> None:
    site = begun
    for act in (site.plan_restore, site.restore):
        with pytest.raises(NoSuchRestorePoint, match="has no group biling") as refused:
            act(topics=["orders"], groups=["biling"])
        assert refused.value.hint.startswith("did you mean billing? ")
    assert site.target.topics == {}
    assert not list(site.backup.store.list(f"{site.backup.layout.prefix}restores/"))


def test_a_group_that_reads_none_of_what_comes_back_is_no_unknown_name(begun: Site) -> None:
    result = begun.restore(topics=["orders"], groups=["shipping"]).groups
    assert result is not None
    assert (result.groups, result.offsets_set, result.absent_topics) == (0, 0, ())


def test_a_topic_that_nobody_asked_for_is_not_missed(begun: Site) -> None:
    result = begun.restore(topics=["orders"], groups=["all"]).groups
    assert result is not None
    assert (result.groups, result.absent_topics) == (1, ())


def test_a_restore_that_stands_there_goes_on_with_other_groups(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after one of an earlier version, which wrote all records before it looked at the names."""
    site = begun

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("offsite.restore.run.restore_groups", killed)
        with pytest.raises(KilledError):
            site.restore(topics=["orders"], groups=["shipping"])
    result = site.restore(topics=["orders"], groups=["billing"])
    assert (result.resumed, result.records) == (True, 5)
    assert site.target.committed("billing", "orders") == {0: 3}


def test_an_export_of_a_deleted_topic_has_its_groups(begun: Site, tmp_path: Path) -> None:
    lost = begun.backup.state().groups
    assert lost is not None
    site = deleted_beside_a_living_group(begun)
    target = open_target("jsonl", str(tmp_path / "archive"), WriteOptions())
    request = ExportRequest(point=PointRequest(selection=parse_selection(["orders"])))
    assert list(plan_export(site.backup, target.writer, request).groups) == ["billing"]
    site.backup.store.delete(lost)
    with pytest.raises(DamagedObject):  # an archive that has them already would lose them
        plan_export(site.backup, target.writer, request)


def test_a_group_that_the_cut_still_has_is_taken_once(begun: Site) -> None:
    """It was gone when its commit was made, and was there at the cut of that."""
    site = begun
    site.source.commit_group("auditing", "orders", [1])
    site.back_up()
    del site.source.groups["billing"]
    site.back_up()
    (partition,) = (each for each in site.backup.state().positions if each.topic == "orders")
    wanted = CutGroup(group="billing", partition_id=partition, offset=2)
    _commit_cut(site, replace(_cut(site), groups=(wanted,)))
    deleted_beside_a_living_group(site)
    result = site.restore(topics=["orders"], groups=["*", "billing"], cut="auto").groups
    assert result is not None
    assert (result.offsets_set, result.gone) == (2, ())
    assert site.target.committed("billing", "orders") == {0: 2}


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_others_say_of_who_made_a_topic_counts_for_no_more_than_that(begun: Site, is_ours: bool) -> None:
    """A forged record hides not the true one, and is not recommended as if it were one."""
    site = deleted_beside_a_living_group(begun)
    restore = site.restore(into=site.source, topics=["orders"], offsets="preserve").restore
    store, own = site.backup.store, RestoreLayout(backup=site.backup.layout, restore=restore)
    forged = RestoreLayout(backup=site.backup.layout, restore="20000101-000000-0123abcd")
    record, targets = find_record(store, own), get_targets(store, own)
    assert record is not None
    assert targets is not None
    put_record(store, forged, replace(record, restore=forged.restore))
    put_targets(store, forged, targets, number=1)
    if not is_ours:
        store.delete(own.record_key)
    done = applied(site, to=site.source, groups=parse_groups(["billing"]))
    assert done.offsets_set == is_ours
    told = f"orders was created by restore {forged.restore}, according to a record that this machine did not write; "
    assert is_ours or done.notes[0].startswith(told)


@pytest.mark.parametrize("is_restored", [False, True])
def test_damage_of_an_earlier_commit_takes_the_groups_of_its_topic_alone(begun: Site, is_restored: bool) -> None:
    """One object of years ago was in the way of all groups."""
    site = begun
    lost = site.backup.state().groups
    assert lost is not None
    deleted_beside_a_living_group(site)
    site.backup.store.delete(lost)
    why = f"the groups of orders are left out: {lost} is missing"
    with pytest.raises(DamagedObject):
        show_groups(site.backup, groups=parse_groups(["billing"]))
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    assert ([each.group for each in shown.groups], list(shown.notes)) == (["shipping"], [why])
    if is_restored:
        result = site.restore(topics=["orders", "users"], groups=["all"]).groups
        assert result is not None
        assert (result.offsets_set, result.notes, result.complete) == (1, (why,), False)
    else:
        site.target.make_topic("users")
        site.target.write("users", [b"0"] * 6)
        assert applied(site).offsets_set == 1
    assert site.target.committed("shipping", "users") == {0: 5}


def test_a_group_that_is_gone_and_was_not_there_yet_at_the_cut_is_told_all_the_same(begun: Site) -> None:
    site = begun
    (partition,) = (each for each in site.backup.state().positions if each.topic == "orders")
    _commit_cut(site, replace(_cut(site), groups=(CutGroup(group="billing", partition_id=partition, offset=-1),)))
    del site.source.groups["billing"]
    site.back_up()
    result = site.restore(topics=["orders"], groups=["billing"]).groups
    assert result is not None
    assert result.offsets_set == 0
    (note,) = result.notes
    assert note.startswith("billing has no offsets on orders since commit 3 of ")
    assert note.endswith(": a restore of the commit before would not have set the group on that topic either")


@pytest.mark.parametrize("since", [0, 1])
def test_a_stranger_who_says_that_groups_are_gone_stops_nobody(begun: Site, since: int) -> None:
    site, head = begun, begun.backup.state()
    (orders,) = (each for each in head.topics if each.topic == "orders")
    forged = snapshots.GoneGroup(group="forged", topic="orders", topic_id=orders.topic_id, since=since)
    groups = site.backup.store, site.backup.layout
    assert head.groups is not None
    key = put_group_snapshot(*groups, 2, get_group_snapshot(site.backup.store, head.groups), [forged])
    site.backup.commit(head.carry_over(CommitChanges(groups=key, accounted=True)), base=head, writer="forged")
    result = site.restore(topics=["orders"], groups=["forged", "billing"], commit=2).groups
    assert result is not None
    assert result.offsets_set == 1
    assert f"forged has no offsets on orders since commit {since}" in result.notes[0]


@pytest.mark.parametrize("answer", ["it has offsets", "it may not be described", "nobody answers"])
def test_a_group_that_no_broker_lists_is_not_gone_for_that(
    begun: Site, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Lists leave out what may not be described, and what moves to another coordinator meanwhile."""
    site, offsets, listed = begun, GroupClient.offsets, GroupClient.list

    def asked(client: GroupClient, groups: Iterable[ListedGroup]) -> FetchedGroups:
        groups = list(groups)
        names = [each.group for each in groups]
        if "billing" in names and answer == "nobody answers":
            raise LeaderUnavailable("no coordinator")
        if "billing" in names and answer == "it may not be described":
            return FetchedGroups(groups={}, failed=(GroupFailure(group="billing", error="DENIED", message="denied"),))
        return offsets(client, groups)

    monkeypatch.setattr(
        GroupClient, "list", lambda client: [each for each in listed(client) if each.group != "billing"]
    )
    monkeypatch.setattr(GroupClient, "offsets", asked)
    site.source.commit_group("shipping", "users", [4])
    result = site.back_up()
    assert result.groups is not None
    assert [each.group for each in result.groups.failed] == ["billing"]
    shown = show_groups(site.backup, groups=ALL_GROUPS)
    assert ([each.group for each in shown.groups], shown.gone) == (["billing", "shipping"], ())
