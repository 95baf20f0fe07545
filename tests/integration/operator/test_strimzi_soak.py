"""Clusters that Strimzi runs, with Strimzi's definitions in a real API server: a backup finds its cluster by name, and
the resources of a restore point are taken.

Played: Strimzi's operators (the test writes their statuses and Secrets) and the kubelet (`tests.pod`). Real: the API
server, offsite's operator, the agent with its Spark, the repository and the broker.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.repository.declared.history import BackupPhase
from tests import pod
from tests.conftest import SecureBroker
from tests.fetched_tools import NoTool
from tests.integration.e2e.site import produce_to
from tests.integration.kafka.cluster import Cluster as KafkaCluster
from tests.integration.operator.api_server import DEFINITIONS_PATH
from tests.integration.operator.test_api_server_soak import MERGE, STRICT
from tests.integration.operator.test_kopf_soak import DEPLOYMENT, Cluster, opened_cluster, tool_or_skip
from tests.processes import wait_until
from tests.strimzi import VERSIONS, definition
from tests.unit.archives.strimzi.settings import written_resources

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),  # the server is compiled once, which takes minutes
    pytest.mark.skipif(not pod.unshare(), reason="needs root or user namespaces, and unshare(1)"),
]

GROUP = "/apis/kafka.strimzi.io"
RECORDS = 200
COMMIT_LIMIT_S = 400
LISTENERS: dict[str, dict[str, Any]] = {
    "plain": {"type": "internal", "tls": False},
    "mutual": {"type": "internal", "tls": True, "authentication": {"type": "tls"}},
    "scram": {"type": "internal", "tls": True, "authentication": {"type": "scram-sha-512"}},
}
PROTOCOLS = {"plain": "PLAINTEXT", "mutual": "SSL", "scram": "SASL_SSL"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With Strimzi's definitions beside ours."""
    with opened_cluster(tmp_path, tool_or_skip(), backups=tmp_path / "backups") as opened:
        for kind in ("Kafka", "KafkaTopic", "KafkaUser"):
            try:
                made = opened.client.post(DEFINITIONS_PATH, json=definition(kind))
            except NoTool as error:
                pytest.skip(str(error))
            assert made.status_code == 201, made.text
            path = collection(f"{kind.lower()}s")
            wait_until(lambda path=path: opened.client.get(path).is_success, f"{kind} is served")  # type: ignore[misc]
        yield opened


def collection(plural: str, version: str = "v1") -> str:
    return f"{GROUP}/{version}/namespaces/default/{plural}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_api_server_takes_the_resources_of_a_restore_point(cluster: Cluster, version: str, tmp_path: Path) -> None:
    (place := tmp_path / "export").mkdir()
    for resource in written_resources(place, "--api-version", version):
        path = collection(f"{resource['kind'].lower()}s", version)
        made = cluster.client.post(path, json=resource, params=STRICT)
        assert made.status_code == 201, made.text
        assert made.json()["spec"] == resource["spec"], "nothing is pruned"
        odd = {**resource, "spec": {**resource["spec"], "partition": 1}}
        assert cluster.client.post(path, json=odd, params=STRICT).status_code == 400


@dataclass(slots=True)
class Strimzi:
    """Strimzi's operators, as far as a backup looks at them. `secrets`: what the kubelet mounts."""

    cluster: Cluster
    broker: SecureBroker
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)

    def make(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": "kafka.strimzi.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        made = self.cluster.client.post(collection(f"{kind.lower()}s"), json=body, params=STRICT)
        assert made.status_code == 201, made.text

    def tell(self, kind: str, name: str, status: dict[str, Any]) -> None:
        path = f"{collection(f'{kind.lower()}s')}/{name}/status"
        assert self.cluster.client.patch(path, json={"status": status}, headers=MERGE).is_success

    def make_kafka(self) -> None:
        listeners = [{"name": name, "port": 9092 + at, **of} for at, (name, of) in enumerate(LISTENERS.items())]
        self.make("Kafka", "prod", {"kafka": {"listeners": listeners}})

    def listen(self) -> None:
        authority = self.broker.certificates.authority.read_text()
        addresses = [
            {
                "name": name,
                "bootstrapServers": self.broker.info.listeners[protocol],
                **({"certificates": [authority]} if LISTENERS[name]["tls"] else {}),
            }
            for name, protocol in PROTOCOLS.items()
        ]
        self.tell("Kafka", "prod", {"listeners": addresses})

    def make_users(self) -> None:
        self.make("KafkaUser", "alice", {"authentication": {"type": "scram-sha-512"}})
        self.make("KafkaUser", "client", {"authentication": {"type": "tls"}})
        self.change_password()
        certificates = self.broker.certificates
        keys = {"user.crt": certificates.client_certificate, "user.key": certificates.client_key}
        self.put_secret("strimzi-client", {name: file.read_bytes() for name, file in keys.items()})
        self.tell("KafkaUser", "alice", {"username": "alice", "secret": "strimzi-alice"})
        self.tell("KafkaUser", "client", {"username": "CN=client", "secret": "strimzi-client"})

    def change_password(self) -> str:
        """In Kafka and in the Secret, as the User Operator does."""
        password = f"password-{uuid.uuid4().hex}"
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("alice", credential, password.encode())
        admin = AdminClient({"bootstrap.servers": self.broker.info.bootstrap})
        for outcome in admin.alter_user_scram_credentials([change]).values():
            outcome.result(60)
        self.put_secret("strimzi-alice", {"password": password.encode()})
        return password

    def put_secret(self, name: str, data: dict[str, bytes]) -> None:
        self.secrets[name] = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.cluster.proxy.versions[name] = uuid.uuid4().hex


@pytest.mark.parametrize(("listener", "user"), [("plain", ""), ("mutual", "client"), ("scram", "alice")])
def test_a_backup_finds_its_cluster_by_name_and_goes_on_with_another_secret(
    cluster: Cluster, secure_broker: SecureBroker, listener: str, user: str, tmp_path: Path
) -> None:
    strimzi = Strimzi(cluster, secure_broker, {"offsite-account-main": {}})
    strimzi.make_kafka()
    strimzi.make_users()
    topic = KafkaCluster(secure_broker.info.bootstrap).make_topic()
    produce(secure_broker, topic)
    cluster.begin()
    uid = cluster.make("shop", topics=[topic], strimzi={"name": "prod", "listener": listener, "user": user})
    wait_until(
        lambda: "is not ready" in str(cluster.get("shop").get("status")), "it waits for its listener", limit_s=60
    )
    assert cluster.proxy.deployments.objects == {}
    strimzi.listen()
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins", limit_s=60)
    wait_until(lambda: f"{DEPLOYMENT}shop" in cluster.proxy.deployments.objects, "agents are there", limit_s=60)
    before = template(cluster)
    with running_agent(cluster, strimzi, tmp_path / "one"):
        wait_until(lambda: records(cluster, uid) >= RECORDS, "a commit", limit_s=COMMIT_LIMIT_S)
        if listener == "plain":
            return
        password = strimzi.change_password()
        strimzi.put_secret("strimzi-client", decoded(strimzi.secrets["strimzi-client"]))
        wait_until(lambda: template(cluster) != before, "agents are to be replaced", limit_s=60)
        assert password not in json.dumps(cluster.proxy.deployments.objects)
    produce(secure_broker, topic)
    with running_agent(cluster, strimzi, tmp_path / "two"):
        wait_until(lambda: records(cluster, uid) >= 2 * RECORDS, "it goes on", limit_s=COMMIT_LIMIT_S)
    assert cluster.phases(uid) == [BackupPhase.RUNNING]


def template(cluster: Cluster) -> dict[str, Any]:
    pods: dict[str, Any] = cluster.proxy.deployments.objects[f"{DEPLOYMENT}shop"]["spec"]["template"]
    return json.loads(json.dumps(pods))  # type: ignore[no-any-return]  # what it is now


def decoded(secret: dict[str, str]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in secret.items()}


def produce(broker: SecureBroker, topic: str) -> None:
    produce_to(broker.info.bootstrap, topic, [DemoMessage(key=b"k", value=b"v" * 100, timestamp_ms=BASE_MS)] * RECORDS)


@contextmanager
def running_agent(cluster: Cluster, strimzi: Strimzi, folder: Path) -> Iterator[None]:
    """A pod as the Deployment says now."""
    folder.mkdir()
    with pod.running_pod(template(cluster), strimzi.secrets, folder=folder, visible=cluster.backups):
        try:
            yield
        finally:
            print((folder / "printed").read_text(errors="replace")[-3000:])  # noqa: T201  # shown where the test fails


def records(cluster: Cluster, uid: str) -> int:
    name = cluster.lows(uid)[-1].beginning.backup
    if name not in cluster.repository.backups():
        return 0
    return sum(segment.records for segment in cluster.repository.backup(name).state().all_segments())
