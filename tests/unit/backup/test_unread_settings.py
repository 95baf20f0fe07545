"""The right to read the settings of one topic is lost: its records go on, its settings stay the last ones known, and
both are said; a topic whose settings nobody ever knew is left out, and named. Other topics go on."""

from __future__ import annotations

import pytest

from offsite.cli.views.backup import render_result
from offsite.kafka.admin import ClusterAdmin
from offsite.model.errors import KafkaNotAuthorized
from offsite.overview.status import read_status
from offsite.restore.plan_report import report_plan
from tests.fake_cluster.site import Site
from tests.shown import shown

DESCRIBE_CONFIGS = 10


@pytest.fixture
def begun(site: Site) -> Site:
    """Two topics, backed up once; then the settings of one may not be read any more."""
    for topic in ("orders", "users"):
        site.source.make_topic(topic, retention_ms="1000", cleanup_policy="compact" if topic == "users" else "delete")
        site.source.write(topic, [b"a"])
    site.back_up("orders", "users", "more*")
    site.source.forbidden["users"] = {DESCRIBE_CONFIGS}
    for topic in ("orders", "users"):
        site.source.write(topic, [b"b"])
    return site


def test_records_go_on_and_settings_stay_as_they_were_known(begun: Site) -> None:
    before = begun.backup.state().latest_shapes()
    begun.source.topics["users"].configs["retention.ms"] = "1"
    result = begun.back_up()
    assert (result.records, result.failed, result.unread_topics, result.complete) == (2, (), ("users",), False)
    shape = begun.backup.state().latest_shapes()["users"]
    assert (shape.configs, shape.was_compacted, shape.configs_unread) == (before["users"].configs, True, True)
    assert not begun.backup.state().latest_shapes()["orders"].configs_unread
    (status,) = read_status(begun.repository).backups
    assert status.safe
    assert any("the settings of users come from an earlier run" in note for note in status.notes)
    text = shown(render_result(result))
    assert "no permission to read the settings of users: the settings of an earlier run are kept" in text


def test_when_the_right_is_back_the_settings_are_read_again(begun: Site) -> None:
    begun.back_up()
    begun.source.topics["users"].configs["retention.ms"] = "1"
    begun.source.forbidden.clear()
    result = begun.back_up()
    shape = begun.backup.state().latest_shapes()["users"]
    assert (result.unread_topics, result.complete, dict(shape.configs)["retention.ms"]) == ((), True, "1")
    assert not shape.configs_unread
    assert read_status(begun.repository).backups[0].notes == ()


def test_who_restores_is_told_that_the_settings_are_older_than_the_records(begun: Site) -> None:
    begun.back_up()
    told = "the settings of users come from an earlier run"
    notes = {seq: report_plan(begun.plan_restore(commit=seq)).notes for seq in (1, 2)}
    assert [sum(told in note for note in notes[seq]) for seq in (1, 2)] == [0, 1]


@pytest.mark.parametrize("remade", [False, True])
def test_a_topic_whose_settings_were_never_known_is_left_out_and_named(begun: Site, *, remade: bool) -> None:
    if remade:
        begun.source.remake_topic("users")
        topic = "users"
    else:
        topic = "more"
        begun.source.make_topic(topic)
        begun.source.forbidden = {topic: {DESCRIBE_CONFIGS}}
    begun.source.write(topic, [b"x"])
    result = begun.back_up()
    assert [(each.topic, each.partition, each.error) for each in result.failed] == [(topic, 0, KafkaNotAuthorized.id)]
    assert "DESCRIBE_CONFIGS" in result.failed[0].hint
    assert (result.complete, result.vanished_topics, result.unread_topics) == (False, (), ())
    assert result.deleted_topics == (("users",) if remade else ())
    state, new_id = begun.backup.state(), str(begun.source.topics[topic].topic_id)
    assert [each.partition_id.topic_id for each in state.left_behind] == [new_id]
    assert new_id not in {each.topic_id for each in state.topics}
    begun.source.forbidden.clear()
    after = begun.back_up()
    assert (after.records, after.complete) == (1, True)


def test_where_no_topic_is_known_the_reason_is_the_error(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.forbidden["orders"] = {DESCRIBE_CONFIGS}
    with pytest.raises(KafkaNotAuthorized, match="orders"):
        site.back_up("orders")


def test_others_still_learn_that_they_may_not(begun: Site) -> None:
    """Who has to know all settings, as a restore has, is told."""
    with pytest.raises(KafkaNotAuthorized, match="users"):
        ClusterAdmin.topic_configs(begun.source.admin, ["orders", "users"])
