"""What the backup and the restore of a command topic have to be allowed, and that nothing is deleted where it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from offsite.log.records.record import Record
from offsite.model.cluster_settings import Acl
from tests.conftest import SecureBroker
from tests.integration.e2e.command import offsite
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_doctor_rights import properties
from tests.integration.metastore.ksql import Ksql, create_stream
from tests.integration.metastore.test_metastore import Node

EMMA = "emma"


@pytest.fixture
def login(secure_broker: SecureBroker, tmp_path: Path) -> Path:
    return properties(secure_broker, tmp_path, EMMA, secure_broker.users[EMMA])


@pytest.fixture
def node(secure_broker: SecureBroker, tmp_path: Path) -> Iterator[Node]:
    node = Node(Ksql(Cluster(secure_broker.info.bootstrap)), tmp_path / "backups")
    node.ksql.make_topic()
    node.ksql.write([create_stream(1), create_stream(2)])
    yield node
    node.ksql.cluster.admin.delete_topics([node.ksql.topic])


def rule(node: Node, *operations: str, kind: str = "TOPIC", name: str = "", permission: str = "ALLOW") -> None:
    made = partial(Acl, resource_type=kind, resource=name or node.ksql.topic, pattern="LITERAL", host="*")
    node.ksql.cluster.add_acls(
        *(made(principal=f"User:{EMMA}", operation=operation, permission=permission) for operation in operations)
    )


def records(node: Node) -> list[Record]:
    return node.ksql.records()


def test_a_backup_needs_to_read_and_no_more(node: Node, login: Path) -> None:
    ends = ("--kafka-config", login, "--service-id", node.ksql.service, "--location", node.location)
    rule(node, "DESCRIBE")
    refused = offsite("metastore", "backup", *ends)
    assert (refused.exit_code, refused.error["id"]) == (17, "OFF-1702"), refused.stderr
    assert not [file for file in node.location.glob("*") if file.suffix == ".bak" and file.stat().st_size]
    rule(node, "READ")
    done = offsite("metastore", "backup", *ends)
    assert (done.exit_code, done.result["verdict"], done.result["commands"]) == (0, "current", 2), done.stderr


def test_a_topic_that_may_not_be_seen_is_not_taken_for_one_that_is_gone(node: Node, login: Path) -> None:
    file = Path(node.back_up()["file"])
    rule(node, "CREATE")  # with one rule, whatever no rule allows is denied
    denied = offsite(
        "metastore", "backup", "--kafka-config", login, "--topic", node.ksql.topic, "--location", node.location
    )
    assert (denied.exit_code, denied.stdout) == (17, ""), denied.stderr
    assert len(file.read_bytes().splitlines()) == 2


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("READ", "TOPIC_AUTHORIZATION_FAILED"),  # what is there cannot be kept
        ("WRITE", "the principal may not WRITE on topic"),
        ("DELETE", "the principal may not DELETE on topic"),
        ("CREATE", "the principal may not CREATE on topic"),
        ("TRANSACTIONAL_ID", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_nothing_is_deleted_by_somebody_who_may_not_restore_all_of_it(
    node: Node, login: Path, lacking: str, said: str
) -> None:
    file = node.back_up()["file"]
    node.ksql.write([create_stream(3)])
    before = records(node)
    needed = ["READ", "WRITE", "DELETE", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS"]
    rule(node, *(each for each in needed if each != lacking))
    rule(node, "CREATE", kind="CLUSTER", name="kafka-cluster", permission="DENY")  # or it may be given for all topics
    of_ids = partial(rule, node, kind="TRANSACTIONAL_ID", name=f"offsite-metastore-{node.ksql.topic}")
    of_ids("DESCRIBE" if lacking == "TRANSACTIONAL_ID" else "WRITE")
    words = ("metastore", "restore", file, "--kafka-config", login, "--topic", node.ksql.topic, "--yes")
    refused = offsite(*words)
    assert (refused.exit_code, said in refused.error["message"]) == (17, True), refused.stderr
    assert records(node) == before
    of_ids("WRITE") if lacking == "TRANSACTIONAL_ID" else rule(node, lacking)
    done = offsite(*words)
    assert (done.exit_code, done.result["verified"]) == (0, True), done.stderr
    assert records(node) == before[:2]
