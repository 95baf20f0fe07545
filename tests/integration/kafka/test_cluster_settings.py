"""ACLs, quotas and SCRAM users of a real cluster: read, set, and read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.model.cluster_settings import Acl, ClientQuota, QuotaEntity, ScramUser
from offsite.model.errors import KafkaNotAuthorized, NoAuthorizer
from tests.conftest import SecureBroker
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.kafka.test_security import config, plain

WRITE, ALTER_CONFIGS = {"WRITE": 4}, {"ALTER_CONFIGS": 11}


def rule(resource: str, **fields: str) -> Acl:
    allowed = Acl(
        resource_type="TOPIC",
        resource=resource,
        pattern="LITERAL",
        principal="User:bob",
        host="*",
        operation="READ",
        permission="ALLOW",
    )
    return replace(allowed, **fields)


@pytest.fixture
def owner(secure_broker: SecureBroker) -> Cluster:
    return Cluster(secure_broker.info.bootstrap)


@pytest.fixture
def alice(secure_broker: SecureBroker) -> ClusterAdmin:
    """She may do nothing with the cluster as such: there are rules for it, and none is for her."""
    return ClusterAdmin(Router(config(secure_broker, "SASL_PLAINTEXT", **plain("alice", secure_broker.users["alice"]))))


def test_acls_of_every_kind_are_set_and_read_back(owner: Cluster) -> None:
    rules = [
        rule("acls-orders"),
        rule("acls-", pattern="PREFIXED", operation="DESCRIBE_CONFIGS", host="10.0.0.1"),
        rule("acls-group", resource_type="GROUP", permission="DENY", operation="ALL"),
        rule("acls-tx", resource_type="TRANSACTIONAL_ID", operation="WRITE"),
        rule("kafka-cluster", resource_type="CLUSTER", operation="IDEMPOTENT_WRITE"),
    ]
    owner.add_acls(*rules)
    owner.add_acls(rules[0])
    found = owner.admin.settings.acls()
    assert found == tuple(sorted(set(found)))


def test_a_rule_the_brokers_refuse_is_told_and_the_others_are_set(owner: Cluster) -> None:
    refused, good = rule("x", principal="nobody in particular"), rule("acls-good")
    problem, fine = owner.admin.settings.create_acls([refused, good])
    assert "INVALID_REQUEST" in problem
    assert fine == ""
    wait_until(lambda: good in owner.admin.settings.acls())


def test_a_cluster_without_an_authorizer_says_so(cluster: Cluster) -> None:
    with pytest.raises(NoAuthorizer):
        cluster.admin.settings.acls()
    (problem,) = cluster.admin.settings.create_acls([rule("orders")])
    assert "SECURITY_DISABLED" in problem


def test_quotas_are_set_and_read_back(cluster: Cluster) -> None:
    named = ClientQuota(
        entity=QuotaEntity(parts=(("client-id", "quota-app"), ("user", "carol"))),
        limits=(("consumer_byte_rate", 1.5e6), ("request_percentage", 12.5)),
    )
    default = ClientQuota(entity=QuotaEntity(parts=(("client-id", ""),)), limits=(("producer_byte_rate", 1e9),))
    assert cluster.admin.settings.set_client_quotas([named, default]) == ["", ""]
    wait_until(lambda: {named, default} <= set(cluster.admin.settings.client_quotas()))


def test_a_quota_the_brokers_refuse_is_told(cluster: Cluster) -> None:
    strange = ClientQuota(entity=QuotaEntity(parts=(("user", "dave"),)), limits=(("shiny_rate", 1.0),))
    (problem,) = cluster.admin.settings.set_client_quotas([strange])
    assert "INVALID_REQUEST" in problem


def test_scram_users_are_told_without_what_they_log_in_with(owner: Cluster) -> None:
    assert set(owner.admin.settings.scram_users()) >= {
        ScramUser(name=name, mechanism=mechanism, iterations=4096)
        for name in ("admin", "alice")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    }


def test_who_may_not_read_them_is_told(owner: Cluster, alice: ClusterAdmin) -> None:
    owner.add_acls(rule("kafka-cluster", resource_type="CLUSTER", operation="IDEMPOTENT_WRITE"))
    for ask in (alice.settings.acls, alice.settings.client_quotas, alice.settings.scram_users):
        with pytest.raises(KafkaNotAuthorized):
            ask()


def test_what_may_not_be_done_on_a_topic_is_known_before_it_is_tried(owner: Cluster, alice: ClusterAdmin) -> None:
    free, bound = owner.make_topic(), owner.make_topic()
    owner.add_acls(rule(bound, principal="User:alice", operation="WRITE"))
    denied = alice.not_allowed([free, bound], WRITE | ALTER_CONFIGS)
    assert denied == {bound: ("ALTER_CONFIGS",)}
    assert owner.admin.not_allowed([free, bound], WRITE | ALTER_CONFIGS) == {}
