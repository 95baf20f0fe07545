"""What a run of a backup commits, leaves behind, and says of it, against a cluster that is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.backup.source import MissingTopics
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.model.errors import (
    BackupExists,
    BackupNotFound,
    BadOption,
    DamagedBatch,
    KafkaNotAuthorized,
    NoSuchTopic,
    OtherCluster,
    SparkFailed,
)
from offsite.model.selection import NO_GROUPS
from offsite.reports.point_report import HoleReport
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from tests.batches import make_batch
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import BACKUP, Site
from tests.inline_runner import InlineRunner


def test_a_first_run_copies_every_partition_and_counts_what_it_took(site: Site) -> None:
    site.source.make_topic("orders", partitions=2, retention_ms="1000")
    site.source.write("orders", [b"a", b"b"])
    site.source.write("orders", [b"c"], partition=1)
    result = site.back_up("orders")
    assert (result.commit, result.topics, result.partitions, result.segments, result.records) == (1, 1, 2, 2, 3)
    assert result.complete
    assert result.bytes == sum(log.size_bytes for log in site.source.topics["orders"].partitions)
    state = site.backup.state()
    assert [(each.partition, position.end) for each, position in state.positions.items()] == [(0, 2), (1, 1)]
    (shape,) = state.topics.values()
    assert (shape.topic, shape.partitions, dict(shape.configs)) == ("orders", 2, {"retention.ms": "1000"})
    assert shape.topic_id == str(site.source.topics["orders"].topic_id)


def test_a_plan_changes_nothing(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    plan = site.plan_backup("orders")
    assert len(plan.copy.tasks) == 1
    with pytest.raises(BackupNotFound):
        site.repository.backup(BACKUP)


def test_a_runner_that_does_not_start_leaves_no_backup(site: Site) -> None:
    """As Spark with a word that its JVM does not know."""

    class Failing(InlineRunner):
        def await_start(self) -> None:
            raise SparkFailed("Unrecognized VM option")

        def run_each(self, *_: object, **__: object) -> None:
            self.await_start()

    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    with pytest.raises(SparkFailed):
        replace(site, runner=Failing()).back_up("orders")
    assert site.repository.backups() == ()
    site.back_up("orders")
    site.source.write("orders", [b"b"])
    with pytest.raises(SparkFailed):
        replace(site, runner=Failing()).back_up()
    assert site.backup.state().seq == 1


def test_a_second_run_takes_what_is_new(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b"])
    site.back_up("orders")
    site.source.write("orders", [b"c"])
    result = site.back_up()
    assert (result.commit, result.records, result.complete) == (2, 1, True)
    (segments,) = site.backup.state().segments.values()
    assert [(each.start, each.end) for each in segments] == [(0, 2), (2, 3)]


def test_a_run_without_news_makes_a_commit_without_segments(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("orders")
    result = site.back_up()
    assert (result.commit, result.segments, result.records, result.complete) == (2, 0, 0, True)


def test_an_empty_topic_is_backed_up_as_it_is(site: Site) -> None:
    site.source.make_topic("orders", partitions=3)
    result = site.back_up("orders")
    assert (result.topics, result.partitions, result.segments, result.complete) == (1, 3, 0, True)


def test_a_topic_made_anew_is_another_incarnation_beside_the_old_one(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"old 1", b"old 2"])
    site.back_up("orders")
    site.source.remake_topic("orders")
    site.source.write("orders", [b"new"])
    result = site.back_up()
    assert (result.records, result.complete) == (1, True)
    ends = sorted(position.end for position in site.backup.state().positions.values())
    assert ends == [1, 2]
    assert len(site.backup.state().topics) == 2


def test_what_retention_took_between_two_runs_is_a_hole(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a", b"b"])
    site.back_up("orders")
    for value in (b"c", b"d", b"e"):
        site.source.write("orders", [value])
    site.source.topics["orders"].partitions[0].delete_before(4)
    result = site.back_up()
    assert result.holes == (HoleReport(topic="orders", partition=0, start=2, end=4, reason="retention"),)
    assert (result.records, result.complete) == (1, False)
    assert site.back_up().holes == ()


def test_a_log_that_never_began_at_zero_has_no_hole(site: Site) -> None:
    log = site.source.make_topic("orders").partitions[0]
    log.put(make_batch(0))
    log.put(make_batch(10))
    log.delete_before(10)
    result = site.back_up("orders")
    assert (result.holes, result.records) == ((), 10)
    (position,) = site.backup.state().positions.values()
    assert (position.log_start, position.end) == (10, 20)


def test_offsets_that_compaction_took_are_gaps_and_no_holes(site: Site) -> None:
    log = site.source.make_topic("orders", cleanup_policy="compact").partitions[0]
    log.put(make_batch(0))
    log.put(make_batch(30))
    result = site.back_up("orders")
    assert (result.holes, result.records, result.complete) == ((), 20, True)


def test_a_damaged_partition_is_left_behind_and_taken_up_later(site: Site) -> None:
    topic = site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"sound"])
    site.source.write("orders", [b"damaged"], partition=1)
    topic.partitions[1].damage(0)
    result = site.back_up("orders")
    (failure,) = result.failed
    assert (failure.topic, failure.partition, failure.start, failure.error) == ("orders", 1, 0, DamagedBatch.id)
    assert (result.records, result.complete) == (1, False)
    assert [each.partition_id.partition for each in site.backup.state().left_behind] == [1]
    topic.partitions[1].damage(0)  # the same bit back
    after = site.back_up()
    assert (after.failed, after.records, after.complete) == ((), 1, True)


def test_a_partition_whose_leader_refuses_does_not_hold_others_back(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a"])
    site.source.write("orders", [b"b"], partition=1)
    site.source.failing[Api.LIST_OFFSETS, TopicPartition(topic="orders", partition=1)] = DENIED
    result = site.back_up("orders")
    (failure,) = result.failed
    assert (failure.partition, failure.start) == (1, -1)
    assert "TOPIC_AUTHORIZATION_FAILED" in failure.message
    assert result.records == 1


def test_where_nothing_can_be_read_the_reason_is_the_error(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.source.failing[Api.LIST_OFFSETS, TopicPartition(topic="orders", partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        site.back_up("orders")


def test_a_new_leader_with_the_same_log_is_continued(site: Site) -> None:
    topic = site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("orders")
    topic.partitions[0].elect()
    site.source.write("orders", [b"b"])
    result = site.back_up()
    assert (result.records, result.complete) == (1, True)


def test_a_missing_topic_fails_unless_it_may_be_missing(site: Site) -> None:
    site.source.make_topic("orders")
    with pytest.raises(NoSuchTopic, match="payments does not exist"):
        site.back_up("orders", "payments")
    result = site.back_up("orders", "payments", missing=MissingTopics.WARN)
    assert (result.missing_topics, result.topics) == (("payments",), 1)


def test_a_topic_that_is_gone_is_told_of_and_kept(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.make_topic("users")
    site.source.write("users", [b"a"])
    site.back_up("*")
    del site.source.topics["users"]
    result = site.back_up()
    assert (result.vanished_topics, result.topics, result.complete) == (("users",), 1, True)
    assert {each.topic for each in site.backup.state().topics} == {"orders", "users"}


@pytest.mark.parametrize(("chosen", "taken"), [(("*",), ["orders"]), (("*", "__internal"), ["__internal", "orders"])])
def test_internal_topics_are_taken_only_by_name(site: Site, chosen: tuple[str, ...], taken: list[str]) -> None:
    site.source.make_topic("orders")
    site.source.make_topic("__internal")
    site.back_up(*chosen)
    assert sorted(each.topic for each in site.backup.state().topics) == taken


def test_the_schemas_topic_is_taken_along(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.make_topic("_schemas", cleanup_policy="compact")
    result = site.back_up("orders")
    assert result.topics == 2
    assert [each.topic for each in site.backup.state().topics.values() if each.holds_schemas] == ["_schemas"]


def test_a_backup_goes_on_with_its_own_cluster_and_selection_only(site: Site) -> None:
    with pytest.raises(BadOption, match="is new: name its topics"):
        site.plan_backup()
    site.source.make_topic("orders")
    site.back_up("orders")
    with pytest.raises(BackupExists, match="exists with topics orders"):
        site.plan_backup("users")
    site.source.cluster_id = "another"
    with pytest.raises(OtherCluster, match="belongs to cluster source, but this cluster is another"):
        site.plan_backup()


def test_groups_are_part_of_the_commit(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.make_topic("users")
    site.source.write("orders", [b"a", b"b"])
    site.source.commit_group("readers", "orders", [1])
    site.source.commit_group("readers", "users", [0])
    site.source.commit_group("others", "users", [0])
    saved = site.back_up("orders").groups
    assert saved is not None
    assert (saved.groups, saved.offsets, saved.changed, saved.failed) == (1, 1, True, ())
    snapshot = get_group_snapshot(site.backup.store, site.backup.state().groups or "")
    (topic,) = snapshot["readers"].topics
    assert (topic.topic, topic.by_partition()) == ("orders", {0: 1})
    again = site.back_up().groups
    assert again is not None
    assert not again.changed
    assert site.back_up(groups=NO_GROUPS).groups is None


def test_no_groups_where_there_were_some_keep_the_former_ones(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.commit_group("readers", "orders", [0])
    site.back_up("orders")
    site.source.groups.clear()
    saved = site.back_up().groups
    assert saved is not None
    assert (saved.groups, saved.changed) == (1, False)
    assert "no groups were found, but the previous snapshot has 1" in saved.note
