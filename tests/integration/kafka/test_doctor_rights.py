"""What a doctor tells whoever lacks a right, of a broker that keeps rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from offsite.doctor import brokers, rights
from offsite.doctor.check import CheckResult, CheckVerdict, DoctorCheck
from offsite.doctor.examine import CheckReport, examine
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model.cluster_settings import Acl
from offsite.model.selection import parse_selection
from tests.conftest import SecureBroker
from tests.integration.kafka.cluster import Cluster
from tests.integration.kafka.test_security import plain

CheckRun = Callable[[Parts], CheckResult]


def properties(broker: SecureBroker, folder: Path, user: str, password: str) -> Path:
    login = {name.replace("__", "."): value for name, value in plain(user, password).items()}
    listener = "SASL_PLAINTEXT"
    lines = {"bootstrap.servers": broker.info.listeners[listener], "security.protocol": listener, **login}
    file = folder / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in lines.items()))
    return file


def told(request: DoctorRequest, run: CheckRun) -> CheckReport:
    (report,) = examine(request, checks=(DoctorCheck(id="one", title="one", run=run, exit_code=17),)).checks
    return report


def rule(owner: Cluster, permission: str, kind: str, name: str, operation: str) -> None:
    """For dora, whom no other test gives or takes rights. Once there is a rule, what no rule allows is denied."""
    made = partial(Acl, resource_type=kind, resource=name, pattern="LITERAL", principal="User:dora", host="*")
    owner.add_acls(made(operation=operation, permission=permission))


@pytest.fixture
def dora(secure_broker: SecureBroker, tmp_path: Path) -> Path:
    return properties(secure_broker, tmp_path, "dora", secure_broker.users["dora"])


@pytest.mark.parametrize(
    ("operation", "said"), [("READ", "(Read)"), ("DESCRIBE_CONFIGS", "(DescribeConfigs)"), ("DESCRIBE", "not visible")]
)
def test_a_right_that_is_denied_on_a_topic_is_named(
    secure_broker: SecureBroker, dora: Path, operation: str, said: str
) -> None:
    owner = Cluster(secure_broker.info.bootstrap)
    topic = owner.make_topic()
    request = DoctorRequest(kafka_config=dora, topics=parse_selection([topic]))
    rule(owner, "ALLOW", "TOPIC", topic, "ALL")
    assert told(request, rights.topics).verdict is CheckVerdict.OK
    rule(owner, "DENY", "TOPIC", topic, operation)
    after = told(request, rights.topics)
    assert (after.verdict, topic in after.said, said in after.said) == (CheckVerdict.FAILED, True, True)


def test_sizes_are_told_until_the_cluster_may_not_be_described(secure_broker: SecureBroker, dora: Path) -> None:
    owner = Cluster(secure_broker.info.bootstrap)
    rule(owner, "ALLOW", "TOPIC", owner.make_topic(), "ALL")
    request = DoctorRequest(kafka_config=dora)
    rule(owner, "ALLOW", "CLUSTER", "kafka-cluster", "ALL")
    assert told(request, rights.log_dirs).verdict is CheckVerdict.OK
    assert told(request, rights.groups).verdict is CheckVerdict.OK
    rule(owner, "DENY", "CLUSTER", "kafka-cluster", "DESCRIBE")
    assert told(request, rights.log_dirs).verdict is CheckVerdict.WARNING
    assert told(request, rights.groups).verdict is not CheckVerdict.FAILED


def test_a_wrong_password_is_told_and_not_shown(secure_broker: SecureBroker, tmp_path: Path) -> None:
    file = properties(secure_broker, tmp_path, "alice", "hunter2")
    check = DoctorCheck(id="one", title="one", run=brokers.bootstrap, exit_code=15)
    found = examine(DoctorRequest(kafka_config=file), checks=(check,))
    assert (found.ok, found.exit_code, "OFF-1701" in found.checks[0].said) == (False, 17, True)
    assert "hunter2" not in str(found)
