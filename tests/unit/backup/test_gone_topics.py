"""Topics that a source no longer shows, or no longer lets us read: deleted ones are kept and marked, others named."""

from __future__ import annotations

import re

import pytest

from offsite.backup import source
from offsite.kafka import presence
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model import selection
from offsite.model.errors import KafkaNotAuthorized, LeaderUnavailable, NoSuchTopic
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.upkeep.verification.run import verify_quick
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.partition_log import PartitionLog
from tests.fake_cluster.server import serving
from tests.fake_cluster.site import Site

pytestmark = pytest.mark.usefixtures("asked_again_at_once")


@pytest.fixture
def begun(site: Site) -> Site:
    """Two topics, backed up once."""
    for topic in ("orders", "users"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"a", b"b"])
    site.back_up("orders", "users")
    return site


def deleted(site: Site) -> dict[str, bool]:
    return {each.topic_id: shape.is_deleted for each, shape in site.backup.state().topics.items()}


def test_a_deleted_topic_is_marked_once_and_kept(begun: Site) -> None:
    gone = begun.source.topics.pop("users")
    begun.source.write("orders", [b"c"])
    result = begun.back_up()
    assert (result.deleted_topics, result.vanished_topics, result.denied_topics) == (("users",), ("users",), ())
    assert (result.records, result.failed, result.complete) == (1, (), True)
    marked = begun.backup.state()
    assert begun.back_up().deleted_topics == ()
    assert begun.backup.state().topics == marked.topics, "since then, and not since the last run"
    (detail,) = [topic for topic in show_backup(begun.backup).topics if topic.topic == "users"]
    assert detail.deleted_ms == marked.topics[next(i for i in marked.topics if i.topic == "users")].deleted_ms > 0
    (status,) = read_status(begun.repository).backups
    assert status.safe
    assert any("users was deleted at the source at" in note for note in status.notes)
    with serving("empty") as target:
        assert begun.restore(into=target, topics=["users"]).records == 2
    begun.source.topics["users"] = gone
    assert begun.back_up().vanished_topics == ()
    assert not any(deleted(begun).values()), "seen again"
    assert verify_quick(begun.backup).ok


def test_a_topic_that_is_deleted_while_a_run_is_planned_keeps_no_other_one_back(
    begun: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted_meanwhile(names: list[str], **_: object) -> list[str]:
        begun.source.topics.pop("users", None)  # after topics were listed, before their settings are asked for
        return names

    monkeypatch.setattr(source, "with_history", deleted_meanwhile)
    begun.source.write("orders", [b"c"])
    result = begun.back_up()
    assert (result.records, result.failed, result.deleted_topics) == (1, (), ("users",))


def test_a_topic_whose_settings_a_broker_does_not_know_yet_is_waited_for(
    begun: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reason for a run that follows to end, not even in its first round."""

    def unheard_of(*_: object) -> None:
        raise NoSuchTopic("UNKNOWN_TOPIC_OR_PARTITION")

    monkeypatch.setattr(ClusterAdmin, "readable_topic_configs", unheard_of)
    with pytest.raises(LeaderUnavailable, match="although the topic is listed"):
        begun.back_up()


def test_the_last_topic_may_be_deleted_too(begun: Site) -> None:
    begun.source.topics.clear()
    result = begun.back_up()
    assert (result.deleted_topics, result.topics) == (("orders", "users"), 0)
    assert begun.back_up().vanished_topics == ("orders", "users")


def test_a_topic_that_was_made_anew_marks_the_one_before(begun: Site) -> None:
    old = str(begun.source.topics["users"].topic_id)
    new = str(begun.source.remake_topic("users").topic_id)
    result = begun.back_up()
    assert (result.deleted_topics, result.vanished_topics) == (("users",), ())
    assert {each: is_gone for each, is_gone in deleted(begun).items() if each in {old, new}} == {old: True, new: False}


def test_a_topic_that_is_hidden_from_us_is_not_called_deleted(begun: Site) -> None:
    begun.source.hidden.add("users")
    begun.source.write("orders", [b"c"])
    result = begun.back_up()
    assert (result.denied_topics, result.deleted_topics, result.records) == (("users",), (), 1)
    ((failure,), is_complete) = result.failed, result.complete
    assert (failure.topic, failure.error, is_complete) == ("users", KafkaNotAuthorized.id, False)
    assert [each.partition_id.topic for each in begun.backup.state().left_behind] == ["users"]
    assert not any(deleted(begun).values())
    begun.source.hidden.clear()
    begun.source.write("users", [b"c"])
    assert (begun.back_up().records, begun.back_up().complete) == (1, True)


def test_where_everything_is_hidden_the_reason_is_the_error(begun: Site) -> None:
    begun.source.hidden |= {"orders", "users"}
    with pytest.raises(KafkaNotAuthorized, match="may not describe the topic any more"):
        begun.back_up()


def test_brokers_that_do_not_agree_prove_nothing(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has just started does not know the topic yet, another one does."""
    del begun.source.topics["users"]
    told = iter([{"users": 3}, {"users": 0}])
    monkeypatch.setattr(presence, "_ask", lambda _router, _node, names: next(told) if "users" in names else {})
    result = begun.back_up()
    assert (result.vanished_topics, result.deleted_topics, result.denied_topics) == (("users",), (), ())
    assert not any(deleted(begun).values())


def test_when_nobody_can_say_and_nothing_is_left_the_run_fails(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begun.source.topics.clear()
    monkeypatch.setattr(presence, "_ask", lambda *_: {"orders": 5, "users": 5})
    with pytest.raises(NoSuchTopic):
        begun.back_up()


@pytest.mark.parametrize("api", [Api.LIST_OFFSETS, Api.FETCH, Api.OFFSET_FOR_LEADER_EPOCH])
@pytest.mark.parametrize("others_have_news", [True, False])
def test_a_topic_that_may_not_be_read_any_more_is_listed(begun: Site, api: Api, *, others_have_news: bool) -> None:
    begun.source.write("users", [b"c"])
    if others_have_news:
        begun.source.write("orders", [b"c"])
    here = TopicPartition(topic="users", partition=0)
    begun.source.failing[api, here] = DENIED
    result = begun.back_up()
    (failure,) = result.failed
    assert (failure.topic, failure.error) == ("users", KafkaNotAuthorized.id)
    assert (result.records, result.complete) == (int(others_have_news), False)
    begun.source.failing.clear()
    after = begun.back_up()
    assert (after.records, after.complete) == (1, True)


def test_partitions_that_are_added_join_at_the_next_run(begun: Site) -> None:
    begun.source.topics["users"].partitions.append(PartitionLog())
    begun.source.write("users", [b"c"], partition=1)
    assert begun.back_up().records == 1
    (shape,) = [each for each in begun.backup.state().topics.values() if each.topic == "users"]
    assert shape.partitions == 2


def test_records_that_were_deleted_at_the_source_are_a_hole_or_no_loss(begun: Site) -> None:
    log = begun.source.topics["users"].partitions[0]
    log.delete_before(1)
    assert begun.back_up().holes == (), "what is backed up may go"
    begun.source.write("users", [b"c"])
    begun.source.write("users", [b"d"])
    log.delete_before(3)
    ((hole,), records) = (result := begun.back_up()).holes, result.records
    assert (hole.start, hole.end, hole.reason, records) == (2, 3, "retention", 1)


def test_copies_of_drills_in_an_older_backup_are_shown_and_marked_when_they_are_deleted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = "offsite-drill-f1cd240d-orders"
    for topic in ("orders", copy):
        site.source.make_topic(topic)
        site.source.write(topic, [b"a", b"b"])
    with monkeypatch.context() as before:
        before.setattr(selection, "_DRILL_COPY", re.compile("none"))
        site.back_up("*")
    site.source.write(copy, [b"c"])
    result = site.back_up()
    assert (result.records, result.vanished_topics, result.complete) == (0, (), True)
    assert {each.topic for each in show_backup(site.backup).topics} == {"orders", copy}
    del site.source.topics[copy]
    assert site.back_up().deleted_topics == (copy,)
    with serving("empty") as target:
        assert site.restore(into=target).records == 4, "a backup is restored as it is"
    assert verify_quick(site.backup).ok


def test_topics_that_only_look_like_copies_of_drills_are_copied_by_patterns(site: Site) -> None:
    for topic in ("orders", "offsite-drill-exercises"):
        site.source.make_topic(topic)
        site.source.write(topic, [b"a", b"b"])
    assert site.back_up("offsite-*", "orders").records == 4
    with serving("empty") as target:
        assert site.restore(into=target).records == 4
