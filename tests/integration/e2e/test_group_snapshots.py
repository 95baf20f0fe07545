"""What a backup knows of groups: read in time, kept when it is good, as of any moment when that was asked."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.engine.runner import Runner
from offsite.groups.report import show_groups
from offsite.kafka.groups import FetchedGroups, GroupFailure
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.selection import ALL_GROUPS, NO_GROUPS, GroupPatterns, parse_groups
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.group_site import (
    Groups,
    commit,
    committed,
    delete_group,
    in_transaction,
    new_group,
    new_topic,
    numbered,
    prepared_topics,
)
from tests.integration.kafka.cluster import wait_until


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: groups are the driver's work."""
    return CrossingRunner()


def test_a_commit_between_the_snapshot_and_the_ends_is_not_taken(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is read first: records and commits that come while the rest is planned lie beyond both."""
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 5))
    order: list[str] = []
    offsets, ends = groups.source.admin.groups.offsets, groups.source.admin.bounds
    monkeypatch.setattr(groups.source.admin.groups, "offsets", lambda each: (order.append("groups"), offsets(each))[1])
    monkeypatch.setattr(groups.source.admin, "bounds", lambda each: (order.append("ends"), ends(each))[1])
    plan = groups.plan(topic)
    assert order == ["groups", "ends"]
    groups.site.produce(topic, numbered(5, start=5))
    commit(groups.source, group, Position(topic, 0, 10))
    groups.run(plan)
    assert show_groups(groups.site.backup, groups=ALL_GROUPS).groups[0].topics[0].offsets == {0: 5}
    assert groups.how(group, restore=groups.restore(topic)) == {0: (5, "end")}


def test_an_unchanged_snapshot_is_not_stored_again(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    first = groups.back_up(topic)
    assert first.groups is not None
    assert (first.groups.groups, first.groups.offsets, first.groups.changed) == (1, 1, True)
    key = groups.site.backup.state().groups
    second = groups.back_up()
    assert second.groups is not None
    assert (second.groups.changed, groups.site.backup.state().groups) == (False, key)
    commit(groups.source, group, Position(topic, 0, 4))
    assert groups.back_up().commit == 3
    assert groups.site.backup.state().groups != key
    shown = [show_groups(groups.site.backup, groups=ALL_GROUPS, commit=seq).groups[0] for seq in (2, 3)]
    assert [(each.group, each.topics[0].offsets, each.lag) for each in shown] == [
        (group, {0: 3}, 2),
        (group, {0: 4}, 1),
    ]


def test_an_answer_that_failed_never_replaces_a_good_snapshot(groups: Groups) -> None:
    topic, failing, other = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(5))
    for group in (failing, other):
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    plan = groups.plan()
    nothing = FetchedGroups(groups={}, failed=())
    empty = groups.run(dataclasses.replace(plan, groups=nothing))
    assert empty.groups is not None
    assert (empty.groups.groups, empty.groups.changed) == (2, False)
    assert "kept" in empty.groups.note
    commit(groups.source, other, Position(topic, 0, 4))
    plan = groups.plan()
    assert plan.groups is not None
    failure = GroupFailure(group=failing, error="NOT_COORDINATOR", message="it moved")
    partly = FetchedGroups(groups={other: plan.groups.groups[other]}, failed=(failure,))
    result = groups.run(dataclasses.replace(plan, groups=partly))
    assert not result.complete
    shown = show_groups(groups.site.backup, groups=ALL_GROUPS).groups
    assert {each.group: each.topics[0].offsets for each in shown} == {failing: {0: 3}, other: {0: 4}}


def test_groups_are_chosen_by_patterns_or_left_out(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(5))
    for group in ("bill-a", "bill-b", "ship"):
        commit(groups.source, group, Position(topic, 0, 3))
    assert groups.back_up(topic, groups=NO_GROUPS).groups is None
    with pytest.raises(NoSuchRestorePoint, match="no groups at commit"):
        show_groups(groups.site.backup, groups=ALL_GROUPS)
    groups.back_up(groups=parse_groups(["bill-*", "regex:^sh"]))
    assert [each.group for each in show_groups(groups.site.backup, groups=ALL_GROUPS).groups] == [
        "bill-a",
        "bill-b",
        "ship",
    ]
    assert groups.apply(groups=parse_groups(["bill-a"])).groups == 0, "the topic is not on the target"
    with pytest.raises(NoSuchRestorePoint, match="no group nobody"):
        groups.apply(groups=parse_groups(["nobody"]))


def test_history_knows_deleted_groups_and_transactions_as_of_any_time(groups: Groups) -> None:
    topic, deleted = new_topic(groups), f"history-{new_group()}"
    groups.site.produce(topic, numbered(10))
    commit(groups.source, deleted, Position(topic, 0, 3))
    in_transaction(groups.source, deleted, Position(topic, 0, 7), commit=False)
    before_ms = groups.site.repository.store.now_ms()
    in_transaction(groups.source, deleted, Position(topic, 0, 8), commit=True)
    wait_until(lambda: committed(groups.source, deleted, topic) == 8)
    committed_ms = time.time_ns() // 1_000_000
    wait_until(lambda: groups.site.repository.store.now_ms() > committed_ms)  # it is some ms behind the broker's clock
    between_ms = groups.site.repository.store.now_ms()
    wait_until(lambda: groups.site.repository.store.now_ms() > between_ms)
    delete_group(groups.source, deleted)
    groups.back_up(topic, history=True)
    backup = groups.site.backup
    assert deleted not in {each.group for each in show_groups(backup, groups=ALL_GROUPS).groups}
    only = GroupPatterns(include=(deleted,))
    for time_ms, offset in ((before_ms, 3), (between_ms, 8)):
        shown = show_groups(backup, groups=only, at=str(time_ms))
        assert (shown.origin, shown.groups[0].topics[0].offsets) == ("history", {0: offset})
    with pytest.raises(NoSuchRestorePoint, match="no group history-"):
        show_groups(backup, groups=only, at=str(groups.site.repository.store.now_ms()))
    restore = groups.restore(topic)
    assert "__consumer_offsets" not in dict(prepared_topics(groups, restore)), "never restored as a topic"
    groups.back_up()  # the same backup goes on with its history


def test_verify_finds_a_damaged_or_missing_snapshot_and_the_records_stay_restorable(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    commit(groups.source, group, Position(topic, 0, 4))
    groups.back_up()
    assert verify_quick(groups.site.backup).ok
    assert verify_deep(groups.site.backup, groups.site.spark).ok
    first, second = sorted(Path(groups.site.repository.store.url).glob("backups/*/groups/*"))
    first.write_bytes(first.read_bytes()[:-1] + b"?")
    (found,) = verify_deep(groups.site.backup, groups.site.spark).damaged_snapshots
    assert (found.first_commit, Path(found.key).name) == (1, first.name)
    second.unlink()
    result = verify_quick(groups.site.backup)
    assert (result.ok, [each.first_commit for each in result.damaged_snapshots]) == (False, [2])
    groups.restore(topic)
    saved = groups.back_up().groups
    assert saved is not None
    assert saved.changed, "the next backup has a good one again"
    assert verify_quick(groups.site.backup).ok
