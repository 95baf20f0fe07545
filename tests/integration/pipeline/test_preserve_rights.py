"""What a preserving restore has to be allowed, and when it tells that it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.cluster_settings import Acl
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.selections.rename import parse_renames
from offsite.model.selections.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.services.demo.data import BASE_MS, Message
from offsite.services.restore.planned import prepare_restore
from offsite.services.restore.request import RestoreRequest
from offsite.services.restore.result import RestoreResult
from offsite.services.restore.run import run_restore
from offsite.stores.open_store import open_store
from tests.conftest import SecureBroker
from tests.inline_runner import InlineRunner
from tests.integration.e2e.site import Site, new_name
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import config, plain

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
    login = config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"]))
    alice = Cluster(secure_broker.info.listeners["SASL_PLAINTEXT"], login)
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


def transactional_topic_from_one(site: Site) -> str:
    topic = site.make_topic()
    records = [Message(key=b"%d" % n, value=b"v", timestamp_ms=BASE_MS + n) for n in range(5)]
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
