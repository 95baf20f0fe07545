"""Settings of a cluster, with all that a KafkaUser can say, and each thing that it cannot; and a backup with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, QuotaEntity, ScramUser
from offsite.repository.commit import CommitChanges, TopicShape
from offsite.repository.snapshots.named_object import put_cluster_snapshot
from offsite.stores.open_store import open_store
from tests.backups import append_unchecked, new_backup

SHAPES = tuple(
    TopicShape(
        topic=topic,
        topic_id=f"id-{topic}",
        partitions=2,
        replication_factor=1,
        configs=(("cleanup.policy", "compact"), ("retention.ms", "60000")),
    )
    for topic in ("orders", "Payments", "__consumer_offsets", "__own")
)


def rule(  # all by keyword, each with a default
    *,
    principal: str = "User:alice",
    resource_type: str = "TOPIC",
    resource: str = "orders",
    pattern: str = "LITERAL",
    host: str = "*",
    operation: str = "READ",
    permission: str = "ALLOW",
) -> Acl:
    return Acl(
        resource_type=resource_type,
        resource=resource,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def quota(limits: dict[str, float], **entity: str) -> ClientQuota:
    parts = tuple(sorted((kind.replace("_", "-"), name) for kind, name in entity.items()))
    return ClientQuota(entity=QuotaEntity(parts=parts), limits=tuple(sorted(limits.items())))


def scram(name: str, mechanism: str = "SCRAM-SHA-512") -> ScramUser:
    return ScramUser(name=name, mechanism=mechanism, iterations=4096)


SAYABLE = ClusterSettings(
    acls=(
        rule(),
        rule(operation="DESCRIBE"),
        rule(resource="pay-", pattern="PREFIXED", operation="ALL"),
        rule(host="10.0.0.1", operation="WRITE", permission="DENY"),
        rule(resource_type="GROUP", resource="*"),
        rule(resource_type="TRANSACTIONAL_ID", resource="tx-", pattern="PREFIXED", operation="WRITE"),
        rule(resource_type="CLUSTER", resource="kafka-cluster", operation="IDEMPOTENT_WRITE"),
        rule(principal="User:CN=billing", resource='Billing: "all"', operation="DESCRIBE_CONFIGS"),
        rule(principal="User:oauth.app", operation="ALTER_CONFIGS"),
    ),
    quotas=(
        quota({"producer_byte_rate": 1048576.0, "request_percentage": 55.0}, user="alice"),
        quota({"controller_mutation_rate": 0.5}, user="CN=billing"),
    ),
    scram_users=(scram("alice"), scram("bob")),
)
"""A KafkaUser has a place for each of these."""

UNSAYABLE = {
    rule(principal="User:*"): "no KafkaUser may be for the user *",
    rule(principal="User:Alice"): "no KafkaUser may be for the user Alice",
    rule(principal="User:CN=alice,O=Shop"): "no KafkaUser may be for the user CN=alice,O=Shop",
    rule(principal="User:CN=" + "b" * 65): "no KafkaUser may be for the user CN=b",
    rule(principal="User:CN=alice"): "the KafkaUser alice is for another user",
    rule(principal="Group:ops"): "Strimzi has users alone",
    rule(resource_type="DELEGATION_TOKEN"): "Strimzi has no rules on DELEGATION_TOKEN",
    rule(resource_type="TRANSACTIONAL_ID", operation="TWO_PHASE_COMMIT"): "Strimzi has no operation TWO_PHASE_COMMIT",
    rule(resource_type="CLUSTER", resource="*"): "Strimzi has rules on the cluster kafka-cluster alone",
    rule(pattern="9"): "Strimzi has no such pattern or permission",
    scram("carol", "SCRAM-SHA-256"): "Strimzi makes users of SCRAM-SHA-512 alone",
    scram("Dora"): "no KafkaUser may have the name Dora",
    quota({"producer_byte_rate": 1.0}, user=""): "Strimzi has quotas of single users alone",
    quota({"producer_byte_rate": 1.0}, user="alice", client_id="c"): "Strimzi has quotas of single users alone",
    quota({"connection_creation_rate": 1.0}, ip="10.0.0.1"): "Strimzi has quotas of single users alone",
    quota({"request_percentage": 0.5}, user="alice"): "a KafkaUser has a whole number up to 2,147,483,647 there",
    quota({"producer_byte_rate": 3e9}, user="alice"): "a KafkaUser has a whole number up to 2,147,483,647 there",
    quota({"controller_mutation_rate": float("inf")}, user="alice"): "a KafkaUser has no such number",
    quota({"consumer_byte_rate": float("nan")}, user="alice"): "a KafkaUser has no such number",
    quota({"something_new": 1.0}, user="alice"): "a KafkaUser has no such limit",
}
"""Each thing that no KafkaUser says, and the reason."""


def make_backup(folder: Path, settings: ClusterSettings | None, shapes: Sequence[TopicShape] = SHAPES) -> None:
    """A repository in `folder/repo` with a backup `shop` of one commit."""
    store = open_store(str(folder / "repo"))
    store.prepare()
    backup = new_backup(store, "shop")
    metadata = put_cluster_snapshot(store, backup.state(), settings) if settings is not None else None
    append_unchecked(backup, backup.state(), CommitChanges(topics=tuple(shapes), metadata=metadata), committed_at_ms=1)


def written_resources(folder: Path, *words: str) -> Sequence[dict[str, Any]]:
    """All that the command writes of a backup with `SAYABLE`."""
    make_backup(folder, SAYABLE)
    named = ("--repo", str(folder / "repo"), "--backup", "shop", "--cluster", "prod")
    ended = CliRunner().invoke(app, ["export", str(folder / "out"), "--as", "strimzi", *named, *words])
    assert ended.exit_code == 0, ended.output
    return [document for file in sorted((folder / "out").iterdir()) for document in documents(file)]


def documents(file: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document is not None]
