"""Groups go on where they were: on another cluster, by the maps of a restore, judged by an independent client."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from offsite.engine.runner import Runner
from offsite.groups.report import report_groups
from offsite.groups.restored_offsets import map_offset
from offsite.groups.run import GroupsRequest, apply_groups, prepare_groups
from offsite.groups.undo import find_change, undo_groups
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.range import TopicPartition
from offsite.model.errors import NoSuchRestore, OtherCluster
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.group_site import (
    Groups,
    client,
    commit,
    committed,
    new_group,
    new_topic,
    next_value,
    numbered,
)
from tests.integration.e2e.site import new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import wait_until


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: groups are the driver's work."""
    return CrossingRunner()


def test_a_consumer_of_each_group_goes_on_at_the_same_record(groups: Groups) -> None:
    """The log starts late and has gaps of transactions, so that offsets differ on the two clusters."""
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(10))
    with_transaction(groups.site, topic, numbered(3, start=10), commit=False)
    with_transaction(groups.site, topic, numbered(3, start=13), commit=True)
    groups.site.delete_before(topic, 4)
    places = {new_group(): offset for offset in (4, 7, 14, 15, 16)}
    for group, offset in places.items():
        commit(groups.source, group, Position(topic, 0, offset))
    groups.back_up(topic)
    restore = groups.restore(topic)
    result = groups.apply(restore=restore)
    assert (result.groups, result.offsets_set, result.failed) == (5, 5, ())
    for group in places:
        assert next_value(groups.target, group, topic) == next_value(groups.source, group, topic)
    assert committed(groups.target, list(places)[1], topic) == 3


def test_every_place_of_a_committed_offset_has_its_rule(groups: Groups) -> None:
    topic = new_topic(groups, partitions=6)
    for partition in range(6):
        groups.site.produce(topic, numbered(10, partition=partition))
    with_transaction(groups.site, topic, numbered(1, start=10), commit=True)
    groups.site.produce(topic, numbered(1, start=11))
    for partition in (1, 2):
        groups.site.delete_before(topic, 5, partition=partition)
    group, without = new_group(), new_group()
    offsets = {0: 11, 1: 0, 2: 5, 3: 10, 4: 9, 5: 99}  # a marker, below the start, at it, the end, inside, beyond
    commit(groups.source, group, *(Position(topic, partition, offset) for partition, offset in offsets.items()))
    client(groups.source, without).close()
    groups.back_up(topic)
    restore = groups.restore(topic)
    assert groups.how(group, restore=restore) == {
        0: (11, "gap"),
        1: (0, "behind"),  # at the source as well
        2: (0, "exact"),
        3: (10, "end"),
        4: (9, "exact"),
        5: (10, "above"),
    }
    result = groups.apply(restore=restore)
    assert (result.groups, result.clamped, result.behind) == (1, 1, 1), "a group without commits has nothing to set"


def test_every_place_of_a_committed_offset_is_valid_unchanged_where_offsets_are_kept(groups: Groups) -> None:
    """Only an offset that no record was ever at is clamped."""
    topic = new_topic(groups, partitions=4)
    for partition in range(4):
        groups.site.produce(topic, numbered(10, partition=partition))
    with_transaction(groups.site, topic, numbered(1, start=10), commit=True)
    groups.site.produce(topic, numbered(1, start=11))
    groups.site.delete_before(topic, 5, partition=1)
    offsets, group = {0: 11, 1: 5, 2: 10, 3: 99}, new_group()  # a marker, the start, the end, beyond
    commit(groups.source, group, *(Position(topic, partition, offset) for partition, offset in offsets.items()))
    groups.back_up(topic)
    result = groups.apply(restore=groups.restore(topic, offsets="preserve"))
    assert (result.offsets_set, result.clamped) == (4, 1)
    assert [committed(groups.target, group, topic, partition) for partition in range(4)] == [11, 5, 10, 10]
    for partition in (0, 1):
        both = [next_value(cluster, group, topic, partition) for cluster in (groups.source, groups.target)]
        assert both[0] == both[1]


def test_metadata_is_kept_and_renames_are_followed(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3, "checkpoint 7"))
    groups.back_up(topic)
    target = new_name(topic)
    restore = groups.restore(topic, rename=f"{topic}={target}")
    groups.apply(restore=restore)
    listed = [each for each in groups.target.admin.groups.list() if each.group == group]
    (row,) = groups.target.admin.groups.offsets(listed).groups[group].topics[0]
    assert (row.offset, row.leader_epoch, row.metadata.rstrip("\0")) == (3, -1, "checkpoint 7")
    assert groups.target.admin.groups.offsets(listed).groups[group].topics[0].topic == target


def test_a_group_with_members_is_reported_and_the_others_are_set(groups: Groups) -> None:
    topic, active, idle = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(5))
    for group in (active, idle):
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    restore = groups.restore(topic)
    member = client(groups.target, active)
    member.subscribe([topic])
    wait_until(lambda: (member.poll(0.1), bool(member.assignment()))[1])
    planned = prepare_groups(groups.site.backup, groups.target.admin, GroupsRequest(restore=restore))
    result = apply_groups(planned, groups.target.admin)
    member.close()
    assert [each.active for each in report_groups(planned).groups] == [True, False]
    assert [(each.group, "active members" in each.message) for each in result.failed] == [(active, True)]
    assert (result.groups, committed(groups.target, idle, topic)) == (1, 3)
    again = groups.apply(restore=restore)
    assert (again.failed, again.offsets_set, again.unchanged) == ((), 1, 1), "the rest, once it has no members"


def test_undo_puts_back_what_was_there_and_removes_what_was_not(groups: Groups) -> None:
    topic, known, unknown = new_topic(groups, partitions=2), new_group(), new_group()
    groups.site.produce(topic, [*numbered(5), *numbered(5, partition=1)])
    for group in (known, unknown):
        commit(groups.source, group, Position(topic, 0, 3), Position(topic, 1, 4))
    groups.back_up(topic)
    restore = groups.restore(topic)
    commit(groups.target, known, Position(topic, 0, 1, "mine"))
    first = groups.apply(restore=restore)
    commit(groups.target, known, Position(topic, 0, 5))
    change = find_change(groups.site.backup, groups.target.admin, None)
    assert change.change == first.change
    undone = undo_groups(groups.site.backup, groups.target.admin, change)
    assert (undone.groups, undone.offsets_put_back, undone.offsets_removed, undone.failed) == (2, 1, 3, ())
    assert committed(groups.target, known, topic) == 1
    assert committed(groups.target, known, topic, 1) < 0
    assert committed(groups.target, unknown, topic) < 0
    with pytest.raises(NoSuchRestore, match="to undo"):
        find_change(groups.site.backup, groups.target.admin, first.change)


def test_an_undo_behind_the_deletion_of_its_topic_has_nothing_to_remove(groups: Groups) -> None:
    """A restore gone wrong: its topic is deleted first, and then its groups are undone."""
    topic, other, group = new_topic(groups), new_topic(groups), new_group()
    for name in (topic, other):
        groups.site.produce(name, numbered(5))
        commit(groups.source, group, Position(name, 0, 3))
    groups.back_up(topic, other)
    change = groups.apply(restore=groups.restore(topic, other)).change
    groups.target.admin.delete_topics([topic])
    listed = ListedGroup(group=group, kind="classic", state="Empty")

    def read() -> list[str]:
        return [row.topic for row in groups.target.admin.groups.offsets([listed]).groups[group].topics]

    wait_until(lambda: read() == [other])  # the coordinator removes offsets a little later
    opened = find_change(groups.site.backup, groups.target.admin, change)
    undone = undo_groups(groups.site.backup, groups.target.admin, opened)
    assert (undone.failed, undone.offsets_removed) == ((), 2)
    assert committed(groups.target, group, other) < 0
    kafka = AdminClient({"bootstrap.servers": groups.target.bootstrap})
    kafka.delete_consumer_groups([group])[group].result(timeout=30)
    assert undo_groups(groups.site.backup, groups.target.admin, opened).failed == (), "the group is gone, too"


def test_offsets_go_unchanged_onto_a_cluster_without_a_restore(groups: Groups) -> None:
    """The same cluster: a bad deploy has moved a group, and the backup knows where it was."""
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(10))
    commit(groups.source, group, Position(topic, 0, 3))
    first = groups.back_up(topic).commit
    commit(groups.source, group, Position(topic, 0, 9))
    groups.back_up()
    groups.target = groups.source
    assert groups.apply(commit=first).offsets_set == 1
    assert committed(groups.source, group, topic) == 3
    groups.site.delete_before(topic, 5)
    assert groups.how(group, commit=first) == {0: (-1, "refused")}, "it would skip 3 and 4"
    assert groups.apply().offsets_set == 1
    assert committed(groups.source, group, topic) == 9


def test_what_is_not_on_the_target_any_more_is_listed_and_what_was_not_asked_for_is_not(groups: Groups) -> None:
    kept, other, group = new_topic(groups, partitions=2), new_topic(groups), new_group()
    for topic in (kept, other):
        groups.site.produce(topic, numbered(5))
    commit(groups.source, group, *(Position(topic, 0, 3) for topic in (kept, other)), Position(kept, 1, 0))
    groups.back_up(kept, other)
    restore = groups.restore(kept)
    result = groups.apply(restore=restore)
    assert (result.absent_topics, result.offsets_set, result.failed) == ((), 2, ())
    groups.target.admin.delete_topics([kept])
    assert groups.apply(restore=restore).absent_topics == (kept,)


def test_the_map_of_a_restore_answers_for_single_offsets(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(10))
    groups.site.delete_before(topic, 4)
    groups.back_up(topic)
    restore = groups.restore(topic)
    where = TopicPartition(topic=topic, partition=0)
    answers = {offset: map_offset(groups.site.backup, restore, where, offset) for offset in (0, 4, 9, 10, 11)}
    assert {offset: (each.target_offset, each.match) for offset, each in answers.items()} == {
        0: (0, "below"),
        4: (0, "exact"),
        9: (5, "exact"),
        10: (6, "end"),
        11: (6, "above"),
    }
    with pytest.raises(NoSuchRestore):
        map_offset(groups.site.backup, "20200101-000000-00000000", where, 0)
    groups.target = groups.source
    with pytest.raises(OtherCluster):
        groups.apply(restore=restore)
