"""A backup against a cluster: the same, different, or not to be told."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.model.errors import BadOption, KafkaNotAuthorized, NoSuchRestore
from offsite.model.selection import parse_selection
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from tests.batches import make_batch
from tests.fake_cluster.cluster import DENIED, FakeCluster
from tests.fake_cluster.site import Site


def compare(site: Site, cluster: FakeCluster, **request: Any) -> CompareResult:
    wanted = CompareRequest(selection=parse_selection(["*"]), **request)
    planned = plan_comparison(site.backup, cluster.admin, wanted)
    return run_comparison(planned, cluster=cluster.connected, runner=site.runner)


def backed_up(site: Site) -> None:
    site.source.make_topic("orders", partitions=2)
    site.source.write("orders", [b"a", b"b"])
    site.source.write_in_transaction("orders", [b"aborted"], committed=False)
    site.source.write("orders", [b"c"], partition=1)
    site.back_up("orders")


def test_the_source_holds_what_was_backed_up_at_the_same_offsets(site: Site) -> None:
    backed_up(site)
    result = compare(site, site.source)
    assert (result.verified, result.same_offsets, result.compared_partitions) == (True, ("orders",), 2)
    site.source.write("orders", [b"later"])
    assert compare(site, site.source).verified
    assert compare(site, site.source, exact=True).verified is False


def test_a_copy_is_compared_by_its_records_in_order(site: Site) -> None:
    backed_up(site)
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"a", b"b"])
    site.target.topics["orders"].partitions[1].put(make_batch(0, records=1))
    result = compare(site, site.target)
    assert (result.verified, result.same_offsets, result.topics["orders"].records) == (False, (), 2)
    (finding,) = result.findings
    assert (finding.topic, finding.partition) == ("orders", 1)


def test_a_missing_topic_and_another_number_of_partitions_are_differences(site: Site) -> None:
    backed_up(site)
    (missing,) = compare(site, site.target).findings
    assert "orders" in missing.where
    site.target.make_topic("orders", partitions=3)
    result = compare(site, site.target)
    assert result.verified is False
    assert "3" in result.findings[0].what


def test_a_partition_that_cannot_be_read_leaves_the_verdict_open(site: Site) -> None:
    backed_up(site)
    site.source.failing[Api.FETCH, TopicPartition(topic="orders", partition=1)] = DENIED
    result = compare(site, site.source)
    assert result.verified is None
    assert [(each.topic, each.partition) for each in result.uncompared] == [("orders", 1)]
    site.source.failing[Api.FETCH, TopicPartition(topic="orders", partition=0)] = DENIED
    with pytest.raises(KafkaNotAuthorized):
        compare(site, site.source)


def test_nothing_to_compare_proves_nothing(site: Site) -> None:
    site.source.make_topic("orders")
    site.back_up("orders")
    result = compare(site, site.source)
    assert (result.verified, result.compared_records, result.empty_partitions) == (None, 0, 1)


def test_what_retention_took_since_is_no_difference_unless_all_must_be_there(site: Site) -> None:
    backed_up(site)
    site.source.write("orders", [b"d"])
    site.back_up()
    site.source.topics["orders"].partitions[0].delete_before(2)
    assert compare(site, site.source).verified
    assert compare(site, site.source, exact=True).verified is False


def test_what_compaction_took_since_is_no_difference(site: Site) -> None:
    topic = site.source.make_topic("orders", cleanup_policy="compact")
    for value in (b"first", b"second"):
        site.source.write("orders", [value])
    site.back_up("orders")
    (kept,) = topic.partitions[0].records()[1:]
    site.source.remake_topic("orders").topic_id = topic.topic_id
    site.source.topics["orders"].partitions[0].put(bytes(encode([kept])))
    result = compare(site, site.source)
    assert (result.verified, result.compared_records) == (True, 1)
    assert compare(site, site.source, exact=True).verified is False


def test_what_is_gone_of_a_compacted_topic_and_was_the_last_of_its_key_is_a_difference(site: Site) -> None:
    topic = site.source.make_topic("orders", cleanup_policy="compact")
    site.source.write("orders", [b"only"], key=b"lost")
    site.source.write("orders", [b"other"])
    site.back_up("orders")
    (kept,) = topic.partitions[0].records()[1:]
    site.source.remake_topic("orders").topic_id = topic.topic_id
    site.source.topics["orders"].partitions[0].put(bytes(encode([kept])))
    assert compare(site, site.source).verified is False


def test_records_that_changed_at_their_offsets_are_found(site: Site) -> None:
    backed_up(site)
    topic = site.source.topics["orders"]
    changed = site.source.remake_topic("orders")
    changed.topic_id = topic.topic_id
    site.source.write("orders", [b"a", b"B"])
    site.source.write("orders", [b"c"], partition=1)
    result = compare(site, site.source)
    assert result.verified is False
    assert result.findings[0].partition == 0


def test_a_restore_is_compared_by_what_it_remembers(site: Site) -> None:
    backed_up(site)
    restore = site.restore(offsets="translate", rename=["orders=copy"]).restore
    result = compare(site, site.target, restore=restore)
    assert (result.verified, result.restore, result.compared_records, list(result.topics)) == (
        True,
        restore,
        3,
        ["copy"],
    )
    site.target.topics["copy"].partitions[0].delete_before(1)
    assert compare(site, site.target, restore=restore, exact=True).verified is False
    with pytest.raises(NoSuchRestore):
        compare(site, site.target, restore="missing")
    with pytest.raises(BadOption, match="wrote into cluster target, but this cluster is source"):
        compare(site, site.source, restore=restore)


def test_a_restore_with_kept_offsets_or_other_partitions_is_compared_too(site: Site) -> None:
    backed_up(site)
    kept = site.restore(offsets="preserve", rename=["orders=kept"]).restore
    assert compare(site, site.target, restore=kept).same_offsets == ("kept",)
    mixed = site.restore(repartition=["orders=3"], rename=["orders=mixed"]).restore
    result = compare(site, site.target, restore=mixed)
    assert (result.verified, result.compared_records) == (True, 3)
