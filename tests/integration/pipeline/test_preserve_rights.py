"""What a preserving restore has to be allowed, and when it tells that it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import filler_batch
from offsite.model.cluster_settings import Acl
from offsite.model.errors import KafkaNotAuthorized, RestoreRefused
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store
from tests.conftest import SecureBroker
from tests.inline_runner import InlineRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import config, plain

GAP = 50_000
ALICE = Acl(
    resource_type="TOPIC",
    resource="",
    pattern="LITERAL",
    principal="User:alice",
    host="*",
    operation="",
    permission="ALLOW",
)


def test_the_rights_that_a_preserving_restore_needs_are_those_that_the_page_names(
    secure_broker: SecureBroker, tmp_path: Path
) -> None:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    site = Site(Cluster(secure_broker.info.bootstrap), repository, InlineRunner())
    alice = logged_in(secure_broker, "alice")
    topic = transactional_topic_from_one(site)
    target, cluster = new_name(topic), site.cluster
    allow(cluster, replace(ALICE, resource=target), "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    of_ids = replace(ALICE, resource_type="TRANSACTIONAL_ID", resource="offsite-", pattern="PREFIXED")
    allow(cluster, replace(of_ids, principal="User:bob"), "WRITE")
    with pytest.raises(KafkaNotAuthorized, match=f"may not DELETE on {target}"):
        restore(site, alice, topic, target)
    assert site.cluster.end(target) == 0
    allow(cluster, replace(ALICE, resource=target), "DELETE")
    with pytest.raises(KafkaNotAuthorized, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        restore(site, alice, topic, target)
    allow(cluster, of_ids, "WRITE", "DESCRIBE")
    result = restore(site, alice, topic, target)
    assert result.verified
    assert site.cluster.end(target) == site.cluster.end(topic)


def test_gaps_of_any_size_are_filled_by_who_has_cluster_action_and_nothing_else_is_needed_for_them(
    secure_broker: SecureBroker, tmp_path: Path
) -> None:
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    site = Site(Cluster(secure_broker.info.bootstrap), repository, InlineRunner())
    topic = topic_with_gap(site)
    target, cluster = new_name(topic), site.cluster
    on_cluster = replace(ALICE, resource_type="CLUSTER", resource="kafka-cluster", operation="CLUSTER_ACTION")
    cluster.add_acls(replace(on_cluster, permission="DENY"), replace(on_cluster, principal="User:emma"))
    on_target = replace(ALICE, resource=target)
    for principal in ("User:alice", "User:emma"):
        rule = replace(on_target, principal=principal)
        allow(cluster, rule, "CREATE", "READ", "WRITE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    with pytest.raises(RestoreRefused, match=f"{GAP:,} offsets without records.* ClusterAction on the cluster"):
        restore(site, logged_in(secure_broker, "alice"), topic, target)
    assert restore(site, logged_in(secure_broker, "emma"), topic, target).verified
    assert cluster.end(target) == cluster.end(topic)
    assert [each.offset for each in site.read(target)[0]] == [0, 1, 2, GAP + 3, GAP + 4]


def logged_in(secure_broker: SecureBroker, user: str) -> Cluster:
    login = config(secure_broker, "SASL_PLAINTEXT", **plain(user, secure_broker.users[user]))
    return Cluster(secure_broker.info.listeners["SASL_PLAINTEXT"], login)


def topic_with_gap(site: Site) -> str:
    """What lay between two backups is gone."""
    topic = site.make_topic()
    site.produce(topic, plain_records(3))
    site.back_up(topic)
    key = TopicPartition(topic=topic, partition=0)
    with PartitionWriter(site.cluster.router, key, on_ack=lambda *_: None) as writer:
        writer.send(filler_batch(GAP))
        writer.flush()
    site.delete_before(topic, GAP + 3)
    site.produce(topic, plain_records(2))
    site.back_up()
    return topic


def plain_records(count: int) -> list[DemoMessage]:
    return [DemoMessage(key=b"%d" % n, value=b"v", timestamp_ms=BASE_MS + n) for n in range(count)]


def transactional_topic_from_one(site: Site) -> str:
    topic = site.make_topic()
    records = plain_records(5)
    site.produce(topic, records)
    with_transaction(site, topic, records, commit=True)
    site.delete_before(topic, 1)
    site.back_up(topic)
    return topic


def allow(cluster: Cluster, rule: Acl, *operations: str) -> None:
    cluster.add_acls(*(replace(rule, operation=operation) for operation in operations))


def restore(site: Site, into: Cluster, topic: str, target: str) -> RestoreResult:
    renames = parse_renames([f"{topic}={target}"])
    request = RestoreRequest(selection=parse_selection([topic]), renames=renames, offsets="preserve")
    prepared = prepare_restore(site.backup, into.admin, request)
    return run_restore(prepared, cluster=into, runner=site.spark)
