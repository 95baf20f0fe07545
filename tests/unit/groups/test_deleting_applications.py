"""Applications that delete what they have read, beside a backup: what becomes of their groups, and of the alarm."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.plan import make_replan, plan_backup
from offsite.backup.run import run_backup
from offsite.model.errors import KafkaUnreachable, StoreDenied
from offsite.model.selection import ALL_GROUPS, parse_groups, parse_selection
from offsite.overview.status import read_status
from offsite.repository.commit import CONSUMED
from offsite.restore.plan_report import report_plan
from tests.fake_cluster.site import BACKUP, Site
from tests.inline_runner import InlineRunner, StoppedRunner

VALUES = [b"%d" % n for n in range(10)]


def delete(site: Site, offset: int, topic: str = "work", partition: int = 0) -> None:
    site.source.topics[topic].partitions[partition].delete_before(offset)


def problems(site: Site) -> tuple[str, ...]:
    (found,) = read_status(site.repository).backups
    return found.problems


def back_up_while_it_is_deleted(site: Site, offset: int) -> None:
    """Behind the readings; there is no second pass."""
    plan = site.plan_backup()
    delete(site, offset)
    run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner())


def consumed_hole(site: Site) -> None:
    """`work` holds [0, 10) and [15, 20); everybody had read what is missing, as a healthy application does."""
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [3])
    site.back_up("work")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [18])
    delete(site, 15)
    site.back_up()


def refused_hole(site: Site) -> None:
    """The same, and the group is at 3."""
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [3])
    site.back_up("work")
    site.source.write("work", VALUES)
    back_up_while_it_is_deleted(site, 15)


def test_a_hole_behind_the_restored_end_refuses_nobody(site: Site) -> None:
    """--before 8: all of 3 to 7 comes back; the group at 3 is refused because of the hole from 10 to 15."""
    refused_hole(site)
    done = site.restore(before=["topic=work,partition=0,offset=8"], groups=["all"], rename=["work=copy"])
    assert done.groups is not None
    assert done.groups.refused == ()


def test_a_group_is_told_what_is_missing_and_no_more(site: Site) -> None:
    """3 to 9 are there, only 10 to 14 are missing."""
    refused_hole(site)
    done = site.restore(commit=2, groups=["all"], rename=["work=copy"])
    assert done.groups is not None
    (refused,) = done.groups.refused
    assert "10 to 14" in refused.why, refused.why


def test_a_plan_to_a_time_says_what_the_restore_does(site: Site) -> None:
    from offsite.model.units import format_time

    consumed_hole(site)
    when = format_time(site.backup.state().history[0].committed_at_ms + 1)
    words: dict[str, Any] = {"at": when, "groups": ["all"], "rename": ["work=copy"]}
    planned = site.plan_restore(**words)
    outlook = report_plan(planned).groups
    done = site.restore(**words)
    assert outlook is not None
    assert done.groups is not None
    planned_why = [refused.why for group in outlook.groups for refused in group.refused]
    assert planned_why == [each.why for each in done.groups.refused]


def test_a_refused_group_is_left_as_it_is_on_the_target(site: Site) -> None:
    """So the plan says. One offset of three is refused; the two others are set all the same."""
    site.source.make_topic("work", partitions=3, retention_ms="-1")
    for partition in range(3):
        site.source.write("work", VALUES, partition=partition)
    site.source.commit_group("g", "work", [3, 5, 5])
    site.back_up("work")
    site.source.write("work", VALUES)
    back_up_while_it_is_deleted(site, 15)
    done = site.restore(commit=2, groups=["all"], rename=["work=copy"])
    assert done.groups is not None
    assert len(done.groups.refused) == 1
    assert site.target.committed("g", "copy") == {}


def test_a_repartitioned_restore_says_so_of_its_groups(site: Site) -> None:
    site.source.make_topic("work", partitions=2)
    site.source.write("work", VALUES)
    site.source.write("work", VALUES, partition=1)
    site.source.commit_group("g", "work", [3, 5])
    site.back_up("work")
    words: dict[str, Any] = {
        "groups": ["all"],
        "rename": ["work=copy"],
        "repartition": ["work=3"],
        "offsets": "translate",
    }
    outlook = report_plan(site.plan_restore(**words)).groups
    done = site.restore(**words)
    assert done.groups is not None
    assert outlook is not None
    assert [(group.verdict, group.left_out) for group in outlook.groups] == [("in part", 2)]
    assert done.groups.offsets_set == 0


def retention_took_it(site: Site) -> None:
    """The backup was down for longer than the topic keeps its records."""
    site.source.make_topic("orders", retention_ms="604800000")
    site.source.write("orders", VALUES)
    site.back_up("orders")
    site.source.write("orders", VALUES)
    site.source.write("orders", VALUES)
    site.source.commit_group("billing", "orders", [30])
    delete(site, 20, "orders")


def test_what_retention_took_before_the_backup_came_is_a_loss(site: Site) -> None:
    retention_took_it(site)
    result = site.back_up()
    assert not result.complete, result
    assert problems(site)


def test_a_run_that_was_stopped_leaves_no_alarm_for_ever(site: Site) -> None:
    """A follower stopped amid its round, beside an application that empties its topic."""
    site.source.make_topic("work", retention_ms="-1")
    site.source.make_topic("zzz")
    site.source.write("work", VALUES)
    site.source.write("zzz", VALUES)
    site.source.commit_group("g", "work", [10])
    site.back_up("work", "zzz")
    site.source.write("work", VALUES)
    site.source.write("zzz", VALUES)
    site.source.commit_group("g", "work", [15])
    delete(site, 15)
    plan = site.plan_backup()
    with pytest.raises(KeyboardInterrupt):
        run_backup(plan, repository=site.repository, kafka=site.source.config, runner=StoppedRunner())
    site.back_up()
    assert [hole.reason for hole in site.backup.sound_state().holes] == [CONSUMED]
    assert not problems(site)


def test_an_error_between_both_passes_leaves_no_alarm_for_ever(site: Site) -> None:
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [5])
    plan = site.plan_backup("work")
    site.source.commit_group("g", "work", [8])
    delete(site, 8)

    def again(*_: object) -> Any:
        raise KafkaUnreachable("down for a moment")

    with pytest.raises(KafkaUnreachable):
        run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner(), replan=again)
    assert site.backup.sound_state().incomplete, "the early commit"
    site.back_up()
    assert not problems(site)


def test_one_group_that_does_not_answer_once_leaves_no_alarm_for_ever(site: Site) -> None:
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [10])
    site.back_up("work")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [15])
    delete(site, 15)
    site.back_up(groups=parse_groups(["g"]))
    site.back_up()
    assert not problems(site)


def test_declaring_a_topic_later_heals_what_was_recorded_before(site: Site) -> None:
    """Whoever upgrades has thousands of such holes."""
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.back_up("work")
    site.source.write("work", VALUES)
    delete(site, 15)
    site.back_up()
    site.source.write("work", VALUES)
    request = BackupRequest(backup=BACKUP, selection=None, groups=ALL_GROUPS, expect_deletes=parse_selection(["work"]))
    plan = plan_backup(site.repository, site.source.admin, request, slots=2)
    run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner())
    assert not problems(site)


def idle_below(site: Site) -> None:
    """A group that nobody has run for weeks, below what the source deleted before the first backup."""
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("idle", "work", [2])
    delete(site, 5)


def test_the_control_an_idle_group_is_behind(site: Site) -> None:
    idle_below(site)
    site.back_up("work")
    done = site.restore(groups=["all"], rename=["work=copy"])
    assert done.groups is not None
    assert (done.groups.refused, done.groups.behind) == ((), 1)


def test_an_idle_group_is_behind_in_a_restore_to_a_time_too(site: Site) -> None:
    """Between the two commits the source deleted further; the idle group is where it was."""
    from offsite.model.units import format_time

    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("idle", "work", [2])
    delete(site, 5)
    site.back_up("work")
    site.source.write("work", VALUES)
    delete(site, 8)
    site.back_up()
    when = format_time(site.backup.state().committed_at_ms + 1000)
    done = site.restore(groups=["all"], rename=["work=copy"], at=when)
    assert done.groups is not None
    assert done.groups.refused == ()


def test_the_status_tells_of_the_others_where_one_cut_cannot_be_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsite.points import point_cut

    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.back_up("work")

    def denied(*_: object) -> Any:
        raise StoreDenied("s3: 403 on cuts/")

    monkeypatch.setattr(point_cut, "get_commit_cut", denied)
    (found,) = read_status(site.repository).backups
    assert not found.safe


def test_a_topic_that_lost_something_once_is_not_read_by_the_driver_for_ever(site: Site) -> None:
    """Nobody empties `orders`: its retention did once, when the backup was down."""
    retention_took_it(site)
    site.back_up()
    for _ in range(3):
        site.source.write("orders", VALUES)
        site.source.commit_group("billing", "orders", [40])
        plan = site.plan_backup()
        run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner())
    assert not plan.caught


def test_a_group_that_may_not_be_described_makes_no_hole_a_consumed_one(site: Site) -> None:
    """Brokers list only groups that the client may describe, without a word: silence about `billing` is no evidence."""
    site.source.make_topic("orders")
    site.source.write("orders", VALUES)
    site.source.commit_group("dashboard", "orders", [10])
    site.back_up("orders")
    site.source.write("orders", VALUES)
    site.source.commit_group("dashboard", "orders", [20])
    # `billing` is at 5, and may not be described: it is not in the list.
    delete(site, 15, "orders")
    result = site.back_up()
    assert not result.complete


def test_the_hint_after_a_refusal_sends_nobody_else_back(site: Site) -> None:
    """`groups apply --restore ID --groups g --clamp`, as the hint says, when other applications have gone on."""
    from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups

    site.source.make_topic("billing", partitions=1)
    site.source.write("billing", VALUES)
    site.source.commit_group("billing", "billing", [6])
    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [3])
    site.back_up("work", "billing")
    site.source.write("work", VALUES)
    back_up_while_it_is_deleted(site, 15)
    done = site.restore(commit=2, groups=["all"])
    assert done.groups is not None
    assert [each.group for each in done.groups.refused] == ["g"]
    assert site.target.committed("billing", "billing") == {0: 6}
    site.target.commit_group("billing", "billing", [10])  # it has gone on, and rests for a moment
    hinted = GroupsRequest(restore=done.restore, groups=parse_groups(["g"]), clamp=True)
    apply_groups(prepare_groups(site.backup, site.target.admin, hinted), site.target.admin)
    assert site.target.committed("billing", "billing") == {0: 10}


def test_a_declared_topic_is_caught_as_well(site: Site) -> None:
    """With --groups of a pattern no hole is called consumed: then each run needs two passes, and no checkpoint ends."""
    from offsite.backup.plan import _emptied_lately, open_existing_backup

    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    groups = parse_groups(["app-*"])

    def request() -> BackupRequest:
        return BackupRequest(
            backup=BACKUP, selection=parse_selection(["work"]), groups=groups, expect_deletes=parse_selection(["work"])
        )

    def back_up() -> None:
        plan = plan_backup(site.repository, site.source.admin, request(), slots=2)
        run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner())

    back_up()
    site.source.write("work", VALUES)
    delete(site, 15)
    back_up()
    state = site.backup.sound_state()
    assert [hole.reason for hole in state.holes] == ["declared"]
    assert _emptied_lately(open_existing_backup(site.repository, BACKUP))


def test_a_stopped_run_counts_its_commits_where_a_cut_is_of_a_newer_version(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsite.model.errors import FormatTooNew
    from offsite.overview.contents import describe_new_commits
    from offsite.points import point_cut

    site.source.make_topic("work", retention_ms="-1")
    site.source.write("work", VALUES)
    site.back_up("work")

    def newer(*_: object) -> Any:
        raise FormatTooNew("cuts/…: format 9")

    monkeypatch.setattr(point_cut, "get_commit_cut", newer)
    assert describe_new_commits(site.repository, BACKUP, since=0) != "no commit was made"


def test_groups_apply_without_a_restore_refuses_the_same(site: Site) -> None:
    """`restore run` without --groups, then `groups apply`: the group skips 10 to 14, exit 0, without a word."""
    from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups

    refused_hole(site)
    site.restore(commit=2)
    planned = prepare_groups(site.backup, site.target.admin, GroupsRequest(commit=2))
    done = apply_groups(planned, site.target.admin)
    assert not done.complete, done


def test_groups_apply_without_a_restore_goes_by_the_commit_that_restores_go_to(site: Site) -> None:
    """The restore went to commit 1, the newest with a cut; the groups are set as of commit 2."""
    from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups

    site.source.make_topic("work", retention_ms="-1")
    site.source.make_topic("done")
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [8])
    site.source.commit_group("h", "done", [0])
    site.back_up("work", "done")
    site.source.write("work", VALUES)
    site.source.write("done", VALUES)
    site.source.commit_group("g", "work", [18])
    plan = site.plan_backup()
    site.source.topics["done"].partitions[0].delete_before(5)  # h had not read that: the cut is refused
    run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner())
    assert site.restore().commit == 1
    done = apply_groups(prepare_groups(site.backup, site.target.admin, GroupsRequest()), site.target.admin)
    assert (done.commit, site.target.committed("g", "work")) == (1, {0: 8})


def test_a_partial_restore_says_of_which_offsets_it_sets_none(site: Site) -> None:
    """--partitions work:0: the group's other offsets are set nowhere, and the plan says so."""
    site.source.make_topic("work", partitions=3, retention_ms="-1")
    for partition in range(3):
        site.source.write("work", VALUES, partition=partition)
    site.source.commit_group("g", "work", [3, 5, 5])
    site.back_up("work")
    words: dict[str, Any] = {"partitions": ["work:0"], "groups": ["all"], "rename": ["work=copy"]}
    outlook = report_plan(site.plan_restore(**words)).groups
    done = site.restore(**words)
    assert outlook is not None
    assert done.groups is not None
    assert [(group.verdict, group.left_out) for group in outlook.groups] == [("in part", 2)]
    assert (done.groups.offsets_set, done.groups.missing) == (1, 2)


def test_a_topic_made_anew_is_told_as_deleted_also_by_a_run_of_two_passes(site: Site) -> None:
    site.source.make_topic("work", retention_ms="-1")
    site.source.make_topic("other")
    site.source.write("other", VALUES)
    site.source.write("work", VALUES)
    site.source.commit_group("g", "work", [5])
    site.back_up("work", "other")
    site.source.remake_topic("other")
    site.source.write("other", VALUES)
    site.source.write("work", VALUES)
    plan = site.plan_backup()
    site.source.commit_group("g", "work", [15])
    delete(site, 15)
    request = BackupRequest(backup=BACKUP, selection=None)
    again = make_replan(site.repository, site.source.admin, request, slots=2)
    result = run_backup(plan, repository=site.repository, kafka=site.source.config, runner=InlineRunner(), replan=again)
    assert result.commits == 2
    others = [shape for shape in site.backup.sound_state().topics.values() if shape.topic == "other"]
    assert [shape.is_deleted for shape in others] == [True, False]
