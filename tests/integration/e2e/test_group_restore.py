"""Groups as the last step of a restore: asked for beforehand, finished after a crash, as of the restore's own time."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.demo.data import DemoMessage
from offsite.engine.runner import Runner
from offsite.groups.undo import find_change, undo_groups
from offsite.kafka.groups import GroupFailure
from offsite.log.group_offsets import GroupTable
from offsite.log.offset_vector import parse_before
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.selection import ALL_GROUPS, NO_GROUPS, GroupPatterns, parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_renames
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.group_site import (
    Groups,
    commit,
    committed,
    new_group,
    new_topic,
    next_value,
    numbered,
    run_request,
)
from tests.integration.kafka.cluster import wait_until


@pytest.fixture(scope="module")
def spark() -> Runner:
    """None: groups are the driver's work."""
    return CrossingRunner()


def test_a_restore_puts_its_groups_in_place_when_it_is_asked(groups: Groups) -> None:
    topic, group = new_topic(groups), new_group()
    groups.site.produce(topic, numbered(5))
    commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={topic}-back"]),
        groups=GroupPatterns(include=(group,)),
    )
    prepared = prepare_restore(groups.site.backup, groups.target.admin, request)
    result = run_restore(prepared, cluster=groups.target, runner=groups.site.spark)
    assert result.groups is not None
    assert (result.groups.offsets_set, result.groups.change) == (1, result.restore)
    assert next_value(groups.target, group, f"{topic}-back") == b"value 3"
    undo_groups(groups.site.backup, groups.target.admin, find_change(groups.site.backup, groups.target.admin, None))
    assert committed(groups.target, group, f"{topic}-back") < 0


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


def test_a_restore_killed_while_it_commits_groups_goes_on_and_can_be_undone(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(groups)
    target = f"{topic}-killed"
    groups.site.produce(topic, numbered(5))
    names = sorted(new_group() for _ in range(4))
    for group in names:
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    client = groups.target.admin.groups
    whole = client.commit

    def half(table: GroupTable) -> tuple[GroupFailure, ...]:
        whole({name: table[name] for name in names[:2]})
        raise Killed

    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={target}"]),
        groups=GroupPatterns(include=tuple(names)),
    )
    monkeypatch.setattr(client, "commit", half)
    with pytest.raises(Killed):
        run_request(groups, request)
    monkeypatch.undo()
    result = run_request(groups, request)
    assert (result.resumed, result.records) == (True, 5)
    assert result.groups is not None
    assert (result.groups.offsets_set, result.groups.unchanged) == (2, 2)
    assert [committed(groups.target, group, target) for group in names] == [3] * 4
    change = find_change(groups.site.backup, groups.target.admin, None)
    undone = undo_groups(groups.site.backup, groups.target.admin, change)
    assert (undone.change, undone.offsets_removed) == (result.restore, 4), "also what the first attempt had set"


def test_a_restore_as_of_a_time_puts_groups_where_they_stood_then(groups: Groups) -> None:
    topic, group = new_topic(groups), f"timed-{new_group()}"
    now_ms = groups.site.repository.store.now_ms()
    groups.site.produce(topic, [DemoMessage(key=b"k", value=b"%d" % n, timestamp_ms=now_ms) for n in range(5)])
    commit(groups.source, group, Position(topic, 0, 2))
    then_ms = groups.site.repository.store.now_ms() + 1
    wait_until(lambda: groups.site.repository.store.now_ms() > then_ms)
    commit(groups.source, group, Position(topic, 0, 5))
    groups.site.produce(topic, [DemoMessage(key=b"k", value=b"late", timestamp_ms=then_ms + 1000)])
    groups.back_up(topic, history=True)
    target = f"{topic}-then"
    request = RestoreRequest(
        selection=parse_selection([topic]),
        renames=parse_renames([f"{topic}={target}"]),
        groups=GroupPatterns(include=(group,)),
        at=str(then_ms),
    )
    result = run_request(groups, request)
    assert result.groups is not None
    assert (result.records, result.groups.origin) == (5, "history")
    assert committed(groups.target, group, target) == 2


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_groups_beyond_the_point_of_a_restore_stand_at_its_end(groups: Groups, offsets: str) -> None:
    topic, inside, beyond = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(10))
    commit(groups.source, inside, Position(topic, 0, 3))
    commit(groups.source, beyond, Position(topic, 0, 7))
    groups.back_up(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        offsets=offsets,
        before=parse_before([f"topic={topic},partition=0,offset=5"]),
        groups=GroupPatterns(include=(inside, beyond)),
    )
    result = run_request(groups, request).groups
    assert result is not None
    assert (result.offsets_set, result.clamped) == (2, 1)
    assert [committed(groups.target, group, topic) for group in (inside, beyond)] == [3, 5]
    assert next_value(groups.target, inside, topic) == b"value 3"


def test_groups_are_asked_for_before_anything_is_written(groups: Groups) -> None:
    topic = new_topic(groups)
    groups.site.produce(topic, numbered(5))
    groups.back_up(topic, groups=NO_GROUPS)
    request = RestoreRequest(selection=parse_selection([topic]), groups=ALL_GROUPS)
    with pytest.raises(NoSuchRestorePoint, match="no groups at commit"):
        prepare_restore(groups.site.backup, groups.target.admin, request)


def test_offsets_are_valid_unchanged_where_a_restore_keeps_them(groups: Groups) -> None:
    """Also in a partition whose records are all gone."""
    topic, group = new_topic(groups, partitions=2), new_group()
    for partition, start in ((0, 4), (1, 10)):
        groups.site.produce(topic, numbered(10, partition=partition))
        groups.site.delete_before(topic, start, partition=partition)
    commit(groups.source, group, Position(topic, 0, 7), Position(topic, 1, 10))
    groups.back_up(topic)
    restore = groups.restore(topic, offsets="preserve")
    assert groups.how(group, restore=restore) == {0: (7, "exact"), 1: (groups.target.end(topic, 1), "end")}
    groups.apply(restore=restore)
    assert next_value(groups.target, group, topic) == next_value(groups.source, group, topic) == b"value 7"


def test_groups_of_a_topic_in_other_partitions_are_named_and_left_out(groups: Groups) -> None:
    topic, group = new_topic(groups, partitions=2), new_group()
    groups.site.produce(topic, numbered(10))
    commit(groups.source, group, Position(topic, 0, 7))
    groups.back_up(topic)
    request = RestoreRequest(
        selection=parse_selection([topic]),
        repartition=parse_partition_counts(["3"]),
        groups=GroupPatterns(include=(group,)),
    )
    result = run_request(groups, request).groups
    assert result is not None
    assert (result.missing, result.offsets_set) == (1, 0)
    assert "3 partitions on the target instead of 2" in result.notes[0]
