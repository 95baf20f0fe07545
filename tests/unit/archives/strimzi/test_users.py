"""Users, rights and quotas become KafkaUser resources, and what these cannot say is named."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.archives.strimzi.users import KafkaUsers, kafka_users
from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, ScramUser
from offsite.model.options import StrimziVersion
from tests.unit.archives.strimzi.settings import SAYABLE, UNSAYABLE, rule, scram


def users(settings: ClusterSettings) -> KafkaUsers:
    return kafka_users(settings, cluster="shop", version=StrimziVersion.V1)


def specs(written: KafkaUsers) -> dict[str, Any]:
    return {manifest["metadata"]["name"]: manifest["spec"] for manifest in written.manifests}  # type: ignore[index]


def test_every_user_with_a_password_a_rule_or_a_quota_has_a_resource_and_no_password() -> None:
    written = users(SAYABLE)
    assert written.not_said == ()
    authentication = {name: spec.get("authentication") for name, spec in specs(written).items()}
    assert authentication == {
        "alice": {"type": "scram-sha-512"},
        "billing": {"type": "tls"},
        "bob": {"type": "scram-sha-512"},
        "oauth.app": None,
    }
    assert specs(written)["bob"] == {"authentication": {"type": "scram-sha-512"}}
    assert "password" not in repr(written)


def test_operations_on_one_resource_are_one_rule() -> None:
    rules = specs(users(SAYABLE))["alice"]["authorization"]["acls"]
    orders = {"type": "topic", "name": "orders", "patternType": "literal"}
    assert {"type": "allow", "resource": orders, "operations": ["Describe", "Read"]} in rules


def test_hosts_denials_prefixes_and_the_cluster_are_said() -> None:
    rules = specs(users(SAYABLE))["alice"]["authorization"]["acls"]
    assert {
        "type": "deny",
        "resource": {"type": "topic", "name": "orders", "patternType": "literal"},
        "operations": ["Write"],
        "host": "10.0.0.1",
    } in rules
    assert {
        "type": "allow",
        "resource": {"type": "transactionalId", "name": "tx-", "patternType": "prefix"},
        "operations": ["Write"],
    } in rules
    assert {"type": "allow", "resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]} in rules


def test_quotas_are_in_the_words_of_strimzi() -> None:
    quotas = {name: spec.get("quotas") for name, spec in specs(users(SAYABLE)).items()}
    assert quotas["alice"] == {"producerByteRate": 1048576, "requestPercentage": 55}
    assert quotas["billing"] == {"controllerMutationRate": 0.5}


@pytest.mark.parametrize("part", UNSAYABLE, ids=lambda part: UNSAYABLE[part][:40])
def test_what_no_resource_can_say_is_named_with_the_reason(part: Acl | ClientQuota | ScramUser) -> None:
    settings = ClusterSettings(
        acls=(part,) if isinstance(part, Acl) else (),
        quotas=(part,) if isinstance(part, ClientQuota) else (),
        scram_users=(scram("alice"), *((part,) if isinstance(part, ScramUser) else ())),
    )
    written = users(settings)
    (sentence,) = written.not_said
    assert UNSAYABLE[part] in sentence
    assert specs(written) == {"alice": {"authentication": {"type": "scram-sha-512"}}}


def test_a_user_without_a_password_of_strimzi_keeps_the_rules() -> None:
    settings = ClusterSettings(acls=(rule(principal="User:carol"),), scram_users=(scram("carol", "SCRAM-SHA-256"),))
    written = users(settings)
    assert "authentication" not in specs(written)["carol"]
    assert len(written.not_said) == 1


def test_a_part_that_the_cluster_denied_is_named() -> None:
    written = users(ClusterSettings(acls=None, quotas=None, scram_users=None))
    assert written.manifests == ()
    assert [sentence.partition(":")[0] for sentence in written.not_said] == ["ACLs", "client quotas", "SCRAM users"]
