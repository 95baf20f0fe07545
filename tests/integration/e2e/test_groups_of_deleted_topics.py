"""A topic is deleted beside a living group, and the backup goes on: a restore brings its records and its groups. The
page of deleted topics is run in all four ways (`tests/integration/docs`)."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition as Position

from offsite.engine.runner import Runner
from offsite.groups.report import show_groups
from offsite.model.options import OffsetsMode
from offsite.model.selection import ALL_GROUPS, GroupPatterns, parse_selection
from offsite.restore.request import RestoreRequest
from tests.inline_runner import CrossingRunner
from tests.integration.e2e.group_site import (
    Groups,
    commit,
    committed,
    delete_group,
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


def followed_until_deleted(groups: Groups, topic: str) -> None:
    """A run that follows sees the deletion, in whichever of its rounds brokers agree."""
    follower = groups.follower()
    follower.work()
    groups.source.admin.delete_topics([topic])

    def is_seen() -> bool:
        state = follower.work().state
        incarnation = state.incarnation(topic)
        return incarnation is not None and state.topics[incarnation].is_deleted

    wait_until(is_seen)
    follower.close()


@pytest.mark.parametrize(("offsets", "history"), [(OffsetsMode.PRESERVE, True), (OffsetsMode.TRANSLATE, False)])
def test_a_restore_brings_the_records_and_the_group(groups: Groups, offsets: OffsetsMode, history: bool) -> None:
    topic, other = new_topic(groups), new_topic(groups)
    billing, shipping = new_group(), new_group()
    for each in (topic, other):
        groups.site.produce(each, numbered(5))
    commit(groups.source, billing, Position(topic, 0, 3))
    commit(groups.source, shipping, Position(other, 0, 5))
    groups.back_up(topic, other, history=history)
    followed_until_deleted(groups, topic)
    assert committed(groups.source, billing, topic) < 0, "the cluster has forgotten the group"
    result = run_request(groups, RestoreRequest(selection=parse_selection([topic]), offsets=offsets, groups=ALL_GROUPS))
    assert result.groups is not None
    assert (result.records, result.groups.offsets_set, result.groups.absent_topics) == (5, 1, ())
    assert [(each.topic, each.commit) for each in result.groups.earlier] == [(topic, 1)]
    assert next_value(groups.target, billing, topic) == b"value 3"


def test_a_group_that_was_deleted_is_offered_and_can_be_taken(groups: Groups) -> None:
    topic, billing, auditing = new_topic(groups), new_group(), new_group()
    groups.site.produce(topic, numbered(5))
    for group in (billing, auditing):
        commit(groups.source, group, Position(topic, 0, 3))
    groups.back_up(topic)
    delete_group(groups.source, billing)
    groups.back_up()
    (gone,) = show_groups(groups.site.backup, groups=ALL_GROUPS).gone
    assert (gone.group, gone.topic, gone.commit) == (billing, topic, 2)
    request = RestoreRequest(selection=parse_selection([topic]), groups=GroupPatterns(include=("*", billing)))
    result = run_request(groups, request).groups
    assert result is not None
    assert result.offsets_set == 2
    assert next_value(groups.target, billing, topic) == b"value 3"
