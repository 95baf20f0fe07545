"""Agents of a cluster that Strimzi runs: found by the names of its resources, and by the newest version of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from offsite.kafka.cluster import parse_client_properties
from offsite.model.errors import BadResource, ListenerNotReady
from offsite.operator.kubernetes.agents import PROPERTIES
from offsite.operator.kubernetes.strimzi import StrimziAccess, find_access
from offsite.operator.resources.backup import StrimziListener
from offsite.repository.declared.history import BackupPhase
from tests.unit.operator.kubernetes.kubernetes_home import DEPLOYMENT, SECRETS, World, opened_world
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster

GROUP = "/apis/kafka.strimzi.io"
FOLDER = "/etc/offsite/cluster"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
KAFKA: dict[str, Any] = {
    "spec": {
        "kafka": {
            "listeners": [
                {"name": "plain", "port": 9092, "type": "internal", "tls": False},
                {"name": "mutual", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "tls"}},
                {
                    "name": "scram",
                    "port": 9094,
                    "type": "internal",
                    "tls": True,
                    "authentication": {"type": "scram-sha-512"},
                },
                {"name": "oauth", "port": 9095, "type": "internal", "tls": True, "authentication": {"type": "oauth"}},
            ]
        }
    },
    "status": {
        "listeners": [
            {"name": "plain", "bootstrapServers": "prod-kafka-bootstrap.kafka.svc:9092"},
            {"name": "mutual", "bootstrapServers": "prod-kafka-bootstrap.kafka.svc:9093", "certificates": [PEM]},
            {"name": "scram", "bootstrapServers": "prod-kafka-bootstrap.kafka.svc:9094", "certificates": [PEM, PEM]},
        ]
    },
}
USERS = {
    "alice": ({"type": "scram-sha-512"}, {"username": "alice", "secret": "strimzi-alice"}),
    "billing": ({"type": "tls"}, {"username": "CN=billing", "secret": "strimzi-billing"}),
    "new": ({"type": "scram-sha-512"}, {}),
}


def declare_cluster(cluster: MemoryCluster, *, version: str = "v1", namespace: str = "shops") -> None:
    """As Strimzi leaves its resources, served in this version and in older ones."""
    offered = {"v1": ("v1beta2", "v1"), "v1beta2": ("v1beta1", "v1beta2")}[version]
    cluster.objects[GROUP] = {"versions": [{"version": name} for name in offered]}
    place = f"{GROUP}/{version}/namespaces/{namespace}"
    cluster.create(f"{place}/kafkas", {"metadata": {"name": "prod"}, **KAFKA})
    cluster.create(f"{place}/kafkas", {"metadata": {"name": "begun"}})
    for name, (authentication, status) in USERS.items():
        body = {"metadata": {"name": name}, "spec": {"authentication": authentication}, "status": status}
        cluster.create(f"{place}/kafkausers", body)


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster()
    declare_cluster(cluster)
    return cluster


def access(cluster: MemoryCluster, listener: str, user: str = "", **more: str) -> StrimziAccess:
    source = StrimziListener(name=more.pop("name", "prod"), listener=listener, user=user, **more)
    return find_access(cluster, source, "shops", folder=FOLDER)


def test_a_listener_without_authentication_needs_no_user(cluster: MemoryCluster) -> None:
    way = access(cluster, "plain")
    config = parse_client_properties(way.properties, source="found").config
    assert (config.security_protocol, str(config.bootstrap[0])) == ("PLAINTEXT", "prod-kafka-bootstrap.kafka.svc:9092")
    assert (way.secret, way.keys) == ("", ())


def test_a_listener_with_scram_takes_the_password_out_of_the_secret(cluster: MemoryCluster, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2")
    way = access(cluster, "scram", "alice")
    parsed = parse_client_properties(way.properties.replace(FOLDER, str(tmp_path)), source="found")
    config = parsed.config
    assert (way.secret, way.keys) == ("strimzi-alice", ("password",))
    assert config.sasl is not None
    assert config.tls is not None
    assert (config.sasl.username, config.sasl.password.reveal()) == ("alice", "hunter2")
    assert config.tls.ca_pem == f"{PEM}\n{PEM}"
    assert parsed.warnings == ()


def test_a_listener_with_mutual_tls_takes_key_and_certificate(cluster: MemoryCluster) -> None:
    way = access(cluster, "mutual", "billing")
    assert (way.secret, way.keys) == ("strimzi-billing", ("user.crt", "user.key"))
    assert f"ssl.certificate.location={FOLDER}/user.crt\nssl.key.location={FOLDER}/user.key\n" in way.properties
    assert "security.protocol=SSL\n" in way.properties


def test_the_newest_version_that_is_offered_is_read() -> None:
    cluster = MemoryCluster()
    declare_cluster(cluster, version="v1beta2", namespace="kafka")
    assert access(cluster, "plain", namespace="kafka").properties


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"listener": "plain", "name": "other"}, "there is no Kafka other"),
        ({"listener": "none"}, "has no listener none"),
        ({"listener": "plain", "name": "begun"}, "has no listener plain"),
        ({"listener": "scram"}, "asks for scram-sha-512"),
        ({"listener": "scram", "user": "nobody"}, "there is no KafkaUser nobody"),
        ({"listener": "scram", "user": "billing"}, "KafkaUser billing has the authentication tls"),
        ({"listener": "oauth", "user": "alice"}, "asks for oauth, which no KafkaUser has"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(cluster: MemoryCluster, words: dict[str, str], message: str) -> None:
    with pytest.raises(BadResource, match=message):
        access(cluster, **words)  # type: ignore[arg-type]


def test_without_strimzi_it_says_so() -> None:
    with pytest.raises(BadResource, match=r"offers kafka\.strimzi\.io in no version of v1, v1beta2"):
        access(MemoryCluster(), "plain")


def test_a_listener_without_an_address_and_a_user_without_a_secret_are_not_ready(cluster: MemoryCluster) -> None:
    with pytest.raises(ListenerNotReady, match="KafkaUser new has no Secret yet"):
        access(cluster, "scram", "new")
    cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["status"]["listeners"] = []
    with pytest.raises(ListenerNotReady, match="listener plain of Kafka prod is not ready"):
        access(cluster, "plain")


def test_addresses_of_nodes_may_be_of_ipv6(cluster: MemoryCluster) -> None:
    """As Strimzi writes them for node ports: without brackets in `bootstrapServers`."""
    plain = cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["status"]["listeners"][0]
    nodes = [{"host": "fd00:10::5", "port": 31234}, {"host": "node.example", "port": 31234}]
    plain["addresses"] = nodes
    plain["bootstrapServers"] = "fd00:10::5:31234,node.example:31234"
    way = access(cluster, "plain")
    config = parse_client_properties(way.properties, source="found").config
    assert list(map(str, config.bootstrap)) == ["[fd00:10::5]:31234", "node.example:31234"]
    plain["addresses"] = [*reversed(nodes), *nodes]
    assert access(cluster, "plain") == way, "nodes in another order replace no agents"


@pytest.mark.parametrize("bootstrap", ["${secret:/etc/offsite/cluster:password}.shop.example:9092", "a:1\nb=c"])
def test_an_address_that_names_a_file_of_agents_is_refused(cluster: MemoryCluster, bootstrap: str) -> None:
    listeners = cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["status"]["listeners"]
    listeners[2]["bootstrapServers"] = bootstrap
    with pytest.raises(BadResource):
        access(cluster, "scram", "alice")


def test_a_user_name_that_names_a_file_of_agents_is_refused(cluster: MemoryCluster) -> None:
    """Brokers see the name of a user in clear."""
    user = cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkausers/alice"]
    user["status"]["username"] = "${secret:/etc/offsite/cluster:password}"
    with pytest.raises(BadResource, match=r"no plain sasl\.username"):
        access(cluster, "scram", "alice")


@pytest.mark.parametrize("secret", ["../pods/shop", "Alice", "a?b", "a" * 254])
def test_a_secret_whose_name_leads_elsewhere_is_refused(cluster: MemoryCluster, secret: str) -> None:
    cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkausers/alice"]["status"]["secret"] = secret
    with pytest.raises(BadResource, match="the status of KafkaUser alice names no Secret"):
        access(cluster, "scram", "alice")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as opened:
        declare_cluster(opened.cluster)
        labels = {"offsite.dev/for-agents": "true"}
        opened.cluster.create(SECRETS, {"metadata": {"name": "strimzi-alice", "labels": labels}, "data": {}})
        yield opened


SCRAM = {"name": "prod", "listener": "scram", "user": "alice"}


def pod(world: World) -> dict[str, Any]:
    template: dict[str, Any] = world.deployment()["spec"]["template"]
    return template


def test_agents_mount_the_secret_of_the_user_beside_the_way_to_the_listener(world: World) -> None:
    world.running(strimzi=SCRAM)
    volume = next(volume for volume in pod(world)["spec"]["volumes"] if volume["name"] == "cluster")
    listener, user = volume["projected"]["sources"]
    (file,) = listener["downwardAPI"]["items"]
    assert file == {"path": "client.properties", "fieldRef": {"fieldPath": f"metadata.annotations['{PROPERTIES}']"}}
    assert user["secret"] == {"name": "strimzi-alice", "items": [{"key": "password", "path": "password"}]}
    assert "prod-kafka-bootstrap.kafka.svc:9094" in pod(world)["metadata"]["annotations"][PROPERTIES]
    assert "offsite-cluster-shop" not in str(pod(world))


def test_another_password_replaces_the_agents(world: World) -> None:
    home, _ = world.running(strimzi=SCRAM)
    before = pod(world)
    world.cluster.patch(f"{SECRETS}/strimzi-alice", {"data": {"password": "bmV3"}})
    world.look(home)
    assert pod(world) != before, "Kubernetes replaces pods whose template changes"
    assert pod(world)["spec"] == before["spec"]
    assert world.conditions() == {}
    before = pod(world)
    world.look(home)
    assert pod(world) == before


def test_another_address_replaces_the_agents(world: World) -> None:
    home, _ = world.running(strimzi=SCRAM)
    listeners = world.cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["status"]["listeners"]
    listeners[2]["bootstrapServers"] = "elsewhere:9094"
    world.look(home)
    assert "elsewhere:9094" in pod(world)["metadata"]["annotations"][PROPERTIES]


def test_until_the_listener_is_ready_a_condition_says_so(world: World) -> None:
    home, kafka = world.home(), world.cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]
    status, kafka["status"] = kafka["status"], {}
    uid = world.make(strimzi=SCRAM)
    world.look(home)
    assert world.cluster.get(DEPLOYMENT) is None
    assert "listener scram of Kafka prod is not ready" in world.conditions()["IncorrectDeployment"]
    assert "MisconfiguredBackup" not in world.conditions()
    kafka["status"] = status
    world.look(home)
    world.copy(uid)
    world.look(home)
    assert world.conditions() == {}


def without_kafka(cluster: MemoryCluster) -> str:
    del cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]
    return "there is no Kafka prod"


def without_spec(cluster: MemoryCluster) -> str:
    del cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["spec"]
    return "has no listener scram"


def with_another_authentication(cluster: MemoryCluster) -> str:
    listeners = cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkas/prod"]["spec"]["kafka"]["listeners"]
    listeners[2]["authentication"] = {"type": "oauth"}
    return "asks for oauth"


def without_user(cluster: MemoryCluster) -> str:
    del cluster.objects[f"{GROUP}/v1/namespaces/shops/kafkausers/alice"]
    return "there is no KafkaUser alice"


@pytest.mark.parametrize("lose", [without_kafka, without_spec, with_another_authentication, without_user])
def test_agents_that_run_stay_while_the_listener_cannot_be_found_and_a_condition_says_why(
    world: World, lose: Callable[[MemoryCluster], str]
) -> None:
    home, uid = world.running(strimzi=SCRAM)
    before, resources = pod(world), copy.deepcopy(world.cluster.objects)
    why = lose(world.cluster)
    world.look(home)
    assert pod(world) == before
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.RUNNING]
    (condition,) = world.conditions().items()
    assert condition[0] == "IncorrectDeployment"
    assert "agents go on with an earlier address and login: OFF-" in condition[1]
    assert why in condition[1]
    assert world.status()["reconciled"] is False
    world.cluster.objects.update({path: it for path, it in resources.items() if path.startswith(GROUP)})
    world.look(home)
    assert world.conditions() == {}


def test_a_password_replaces_the_agents_while_the_listener_cannot_be_found(world: World) -> None:
    home, _ = world.running(strimzi=SCRAM)
    before = pod(world)
    without_kafka(world.cluster)
    world.cluster.patch(f"{SECRETS}/strimzi-alice", {"data": {"password": "bmV3"}})
    world.look(home)
    assert pod(world) != before
    assert pod(world)["spec"] == before["spec"]


def test_a_secret_without_the_label_is_mounted_nowhere(world: World) -> None:
    world.cluster.patch(f"{SECRETS}/strimzi-alice", {"metadata": {"labels": {"offsite.dev/for-agents": None}}})
    world.make(strimzi=SCRAM)
    world.look(world.home())
    assert world.cluster.get(DEPLOYMENT) is None
    assert "Secret strimzi-alice is not for agents" in world.conditions()["MisconfiguredBackup"]


def test_a_backup_goes_from_a_secret_to_strimzi_and_back(world: World) -> None:
    home, uid = world.running()
    before = pod(world)
    world.change(strimzi=SCRAM)
    world.look(home)
    assert "strimzi-alice" in str(pod(world))
    world.change(strimzi=None)
    world.look(home)
    assert pod(world) == before
    assert [low.phase for low in world.lows(uid)] == [BackupPhase.RUNNING], "the backup is the same"
