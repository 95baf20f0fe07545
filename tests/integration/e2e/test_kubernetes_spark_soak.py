"""Manifests of a backup whose tasks run in pods: what a real API server says of them, and Spark at work with them."""

from __future__ import annotations

import json
import secrets
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from offsite.engine.runner import Runner
from tests.fetched_tools import NoTool
from tests.inline_runner import InlineRunner
from tests.integration.e2e.copies import Copy, messages
from tests.integration.operator.api_server import AUDIT, ApiServer, api_server, fetched_whole_programs
from tests.pod_processes import running_pods
from tests.processes import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]  # the server is compiled once, which takes minutes

DEPLOY = Path(__file__).parents[3] / "deploy"
NAMESPACE = "shops"
DRIVER = "system:serviceaccount:shops:offsite-spark-driver"
STRICT = {"fieldManager": "test", "fieldValidation": "Strict"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
PASSWORD = "word-of-the-driver"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/shops/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/shops/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/shops/persistentvolumeclaims",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/shops/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/shops/rolebindings",
    "Job": "/apis/batch/v1/namespaces/shops/jobs",
}
LIMIT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    server: ApiServer
    folder: Path

    @property
    def client(self) -> Any:
        return self.server.client

    def make(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        made = self.client.post(path, json=body, params={"fieldValidation": "Strict"})
        assert made.status_code == 201, made.text
        return made.json()

    def pods(self) -> dict[str, dict[str, Any]]:
        found = self.client.get(f"/api/v1/namespaces/{NAMESPACE}/pods").json()["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def make_secret(self, name: str, **held: str) -> None:
        """Instead of one that there was."""
        self.client.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        data = {key.replace("_", "."): b64encode(text.encode()).decode() for key, text in held.items()}
        metadata = {"name": name, "namespace": NAMESPACE}
        self.make(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": metadata, "data": data})

    def may(self, verb: str, resource: str, group: str = "") -> bool:
        asked = {"namespace": NAMESPACE, "verb": verb, "resource": resource, "group": group}
        body = {"spec": {"user": DRIVER, "resourceAttributes": asked}}
        return bool(self.make("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"])

    def token(self) -> Path:
        """The file that a pod of the driver has."""
        path = f"{PATHS['ServiceAccount']}/offsite-spark-driver/token"
        made = self.make(path, {"spec": {"audiences": [], "expirationSeconds": 3600}})
        file = self.folder / "token"
        file.write_text(made["status"]["token"], encoding="utf-8")
        return file

    def asked_by_the_driver(self) -> list[dict[str, Any]]:
        lines = (self.folder / AUDIT).read_text(encoding="utf-8").splitlines()
        return [each for each in map(json.loads, lines) if each["user"]["username"] == DRIVER]


def manifests() -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes" / "spark" / "backup.yaml").read_text(encoding="utf-8")
    found = list(yaml.safe_load_all(text))
    for each in found:
        each["metadata"]["namespace"] = NAMESPACE
    return found


def manifest(kind: str) -> dict[str, Any]:
    return next(each for each in manifests() if each["kind"] == kind)


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """With a namespace, and in it what is in the manifests, but no Job."""
    try:
        programs = fetched_whole_programs()
    except NoTool as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("api-server")
    with api_server(folder, programs) as server:
        found = Kubernetes(server=server, folder=folder)
        found.make("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": RESTRICTED}})
        for each in manifests():
            if each["kind"] != "Job":
                applied(found, each)
        yield found


RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def spark() -> Runner:
    return InlineRunner()


def applied(kubernetes: Kubernetes, body: Mapping[str, Any], **more: str) -> None:
    path = f"{PATHS[body['kind']]}/{body['metadata']['name']}"
    text = yaml.safe_dump(dict(body))
    answer = kubernetes.client.patch(path, content=text, headers=APPLY, params={**STRICT, **more})
    assert answer.status_code in {200, 201}, answer.text
    assert "warning" not in answer.headers, answer.headers["warning"]


def test_the_server_takes_every_field_of_them(kubernetes: Kubernetes) -> None:
    for each in manifests():
        applied(kubernetes, each, dryRun="All")


def test_pods_as_the_template_has_them_are_let_into_a_restricted_namespace(kubernetes: Kubernetes) -> None:
    pod = yaml.safe_load(manifest("ConfigMap")["data"]["executor.yaml"])
    pod["metadata"] |= {"name": "template", "namespace": NAMESPACE}
    pod["spec"]["serviceAccountName"] = "offsite-spark-executor"
    pod["spec"]["containers"][0]["image"] = "offsite:0.1.0"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    made = kubernetes.client.post(path, json=pod, params={"fieldValidation": "Strict", "dryRun": "All"})
    assert made.status_code == 201, made.text
    assert "warning" not in made.headers


def test_the_driver_may_do_what_spark_asks_for_and_nothing_else(kubernetes: Kubernetes) -> None:
    verbs = ("create", "get", "list", "watch", "delete", "deletecollection")
    assert [verb for verb in verbs if kubernetes.may(verb, "pods")] == list(verbs)
    others = [("get", "secrets"), ("create", "services"), ("create", "configmaps"), ("create", "pods/exec")]
    assert not [each for each in others if kubernetes.may(*each)]
    assert not kubernetes.may("create", "jobs", "batch")


def test_executor_pods_that_find_no_room_are_told_of_and_go_with_the_driver(
    kubernetes: Kubernetes, copy: Copy, tmp_path: Path
) -> None:
    topic = copy.site.make_topic()
    copy.site.produce(topic, messages(0, 10))
    arguments = [f"--repo={tmp_path / 'repository'}", "--backup=nightly", f"--topics={topic}", "-v"]
    secrets_of(kubernetes, copy, word="word")
    with running_pods(kubernetes.client, NAMESPACE, tmp_path, places(tmp_path), never="offsite-") as pods:
        kubernetes.make(pods.path, driver_pod(kubernetes, "alone", arguments, {"spark.offsite.executors.wait": "15s"}))
        wait_until(lambda: len(kubernetes.pods()) > 1, "pods that Spark makes", limit_s=LIMIT_S)
        assert {pod["status"]["phase"] for name, pod in kubernetes.pods().items() if name != "alone"} == {"Pending"}
        wait_until(lambda: pods.phase("alone") == "Failed", "the end of the driver", limit_s=LIMIT_S)
        assert "the Spark cluster has provided no executor" in pods.log("alone")
        assert list(kubernetes.pods()) == ["alone"]
        kubernetes.client.delete(f"{pods.path}/alone")


def test_a_backup_through_pods_that_spark_has_made(kubernetes: Kubernetes, copy: Copy, tmp_path: Path) -> None:
    topic = copy.site.make_topic(partitions=4)
    copy.site.produce(topic, messages(0, 20_000))
    word = secrets.token_hex(32)
    secrets_of(kubernetes, copy, word=word)
    arguments = [f"--repo={tmp_path / 'repository'}", "--backup=nightly", f"--topics={topic}", "-v"]
    with running_pods(kubernetes.client, NAMESPACE, tmp_path, places(tmp_path)) as pods:
        kubernetes.make(pods.path, driver_pod(kubernetes, "driver", arguments))
        wait_until(lambda: pods.phase("driver") in {"Succeeded", "Failed"}, "the end of the driver", limit_s=LIMIT_S)
        assert pods.phase("driver") == "Succeeded", pods.log("driver")
    executors = [pod for name, pod in pods.begun.items() if name != "driver"]
    assert len(executors) == 2
    for pod in executors:
        assert_made_by_the_template(pod, owner=pods.begun["driver"]["metadata"]["uid"])
        assert word not in json.dumps(pod)
        assert PASSWORD not in json.dumps(pod)
    assert_nothing_was_refused(kubernetes)
    copy.restore(topic)
    copy.assert_the_same_log(topic)


def secrets_of(kubernetes: Kubernetes, copy: Copy, *, word: str) -> None:
    """Those that the manifests name."""
    reach = f"bootstrap.servers={copy.site.cluster.bootstrap}\nssl.key.password={PASSWORD}\n"
    kubernetes.make_secret("offsite-cluster-shop", client_properties=reach)
    kubernetes.make_secret("offsite-spark", secret=word)


def places(folder: Path) -> dict[str, str]:
    """Where what the image has is here."""
    return {
        "/opt/offsite/bin/spark-executor": str(DEPLOY / "image" / "spark-executor.sh"),
        "/tmp/cache": str(folder / "cache"),
    }


def driver_pod(
    kubernetes: Kubernetes, name: str, arguments: list[str], conf: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """What the controller of Jobs would make, for this cluster: its address is another one, and ports must be free."""
    template = deepcopy(manifest("Job")["spec"]["template"])
    (container,) = template["spec"]["containers"]
    container["args"] = arguments
    own = {
        "spark.kubernetes.authenticate.caCertFile": kubernetes.server.certificates.authority,
        "spark.kubernetes.authenticate.oauthTokenFile": kubernetes.token(),
        "spark.driver.port": 0,
        "spark.driver.blockManager.port": 0,
        "spark.executor.instances": 2,
        "spark.executor.memory": "512m",
        **conf,
    }
    changed = {
        "OFFSITE_SPARK_MASTER": f"k8s://{kubernetes.server.url}",
        "OFFSITE_SPARK_CONF": "\n".join(f"{name}={value}" for name, value in own.items()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    kept = [each for each in container["env"] if each["name"] not in changed]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in changed.items())]
    return {"metadata": {"name": name, "namespace": NAMESPACE, **template["metadata"]}, "spec": template["spec"]}


def assert_made_by_the_template(pod: dict[str, Any], *, owner: str) -> None:
    spec, metadata = pod["spec"], pod["metadata"]
    (container,) = spec["containers"]
    assert container["image"] == "offsite:0.1.0"
    assert container["command"] == ["/opt/offsite/bin/spark-executor"]
    assert container["args"] == ["executor"]
    assert spec["serviceAccountName"] == "offsite-spark-executor"
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert [each["uid"] for each in metadata["ownerReferences"]] == [owner]
    assert metadata["labels"]["app.kubernetes.io/component"] == "executor"


def assert_nothing_was_refused(kubernetes: Kubernetes) -> None:
    asked = kubernetes.asked_by_the_driver()
    assert asked
    refused = [each for each in asked if each["responseStatus"]["code"] in {401, 403}]
    assert not [(each["verb"], each["requestURI"]) for each in refused]
    print(sorted({(each["verb"], each["objectRef"]["resource"]) for each in asked}))  # noqa: T201  # what a role needs
