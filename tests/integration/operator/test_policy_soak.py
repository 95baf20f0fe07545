"""The manifests in the hands of Kubernetes' own API server: the policy of admission, and what the operator may do."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import yaml

from docs.deployed import by_default, namespace_manifests, operator_manifests
from offsite.model.version import __version__
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.kubernetes.agents import FOR_AGENTS, PodAgents
from offsite.operator.kubernetes.api import NAMES_ALONE, Body, ResourceReference
from offsite.operator.resources.backup import AgentTemplate
from offsite.operator.resources.definition import DEFINITIONS, resource_definition
from tests.fetched_tools import NoTool
from tests.integration.operator.api_server import DEFINITIONS_PATH, api_server, fetched_whole_programs
from tests.processes import wait_until
from tests.unit.operator.resources.documents import POD_TEMPLATE, RESTORE, document

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]  # the server is compiled once, which takes ten minutes

NAMESPACE = "offsite"
BACKUPS, RESTORES = (f"/apis/offsite.dev/v1alpha1/namespaces/{NAMESPACE}/{kind}" for kind in ("backups", "restores"))
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "PersistentVolumeClaim": f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
}


def template(**fields: Any) -> dict[str, Any]:
    return {"agents": {"template": fields}}


EVIL = template(image="evil/image")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server with a backup that was declared before there was a policy, and then all manifests."""
    try:
        programs = fetched_whole_programs()
    except NoTool as error:
        pytest.skip(str(error))
    with api_server(tmp_path_factory.mktemp("api-server"), programs) as server:
        client = server.client
        for name in (NAMESPACE, "others"):
            assert client.post("/api/v1/namespaces", json={"metadata": {"name": name}}).status_code == 201
        for definition in DEFINITIONS.values():
            assert client.post(DEFINITIONS_PATH, json=resource_definition(definition)).status_code == 201
        wait_until(lambda: declared(client, "before", EVIL).status_code in {201, 409}, "the definitions", limit_s=60)
        for each in (*operator_manifests(by_default), *namespace_manifests(by_default, {"namespace": NAMESPACE})):
            place = f"{COLLECTIONS[each['kind']]}/{each['metadata']['name']}"
            answer = client.patch(place, content=yaml.safe_dump(each), headers=APPLY, params={"fieldManager": "test"})
            assert answer.status_code in {200, 201}, answer.text
        wait_until(lambda: declared(client, "probe", EVIL, dry=True).status_code == 422, "the policy", limit_s=60)
        yield client


def declared(client: httpx.Client, name: str, spec: dict[str, Any], *, dry: bool = False) -> httpx.Response:
    return client.post(BACKUPS, json=document("Backup", spec, name=name), params={"dryRun": "All"} if dry else {})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (EVIL, "an image that agents may not run"),
        ({"destination": {"endpoint": "s3://bucket/kafka?endpoint=http://evil"}}, "remove the part after ?"),
        (template(sparkConf={"spark.jars": "x"}), "a resource may set no others"),
        (template(environment={"LD_PRELOAD": "x"}), "a resource may set no others"),
        (template(spec={"containers": [{"name": "agent", "image": "evil/image"}]}), "an image that agents may not run"),
        (template(metadata={"labels": {"app": "web"}}), "a label or annotation"),
        (template(metadata={"annotations": {"iam.amazonaws.com/role": "admin"}}), "a label or annotation"),
        (template(spec={"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}), "a volume needs exactly one of"),
    ],
)
def test_what_the_operator_would_refuse_is_refused_at_once(
    client: httpx.Client, spec: dict[str, Any], said: str
) -> None:
    answer = declared(client, "refused", spec)
    assert answer.status_code == 422
    assert said in answer.json()["message"]


def test_so_is_a_restore_from_somewhere_else(client: httpx.Client) -> None:
    spec = {**RESTORE, "backupUrl": "s3://bucket/kafka?endpoint=http://evil#shop"}
    answer = client.post(RESTORES, json=document("Restore", spec, name="refused"))
    assert (answer.status_code, "remove the part after ?" in answer.text) == (422, True)
    assert client.post(RESTORES, json=document("Restore", RESTORE, name="taken")).status_code == 201


@pytest.mark.parametrize("spec", [{}, template(image=f"offsite:{__version__}"), template(environment={"TZ": "UTC"})])
def test_what_it_takes_is_taken(client: httpx.Client, spec: dict[str, Any]) -> None:
    assert declared(client, "taken", spec, dry=True).status_code == 201


def test_a_pod_template_is_taken_by_kubernetes_as_it_is_merged(client: httpx.Client) -> None:
    """What the definition lets pass makes pods that an API server takes; what is taken out of it goes from them."""
    asked = {**POD_TEMPLATE["spec"], "containers": [{**POD_TEMPLATE["spec"]["containers"][0], "image": ""}]}
    made = declared(client, "shop", template(spec=asked))
    assert made.status_code == 201, made.text
    named, agents = ResourceReference.of(made.json()), PodAgents(cluster=AskedCluster(client), image="offsite:1")
    agents.named[named.uid] = named
    for kind, name in (
        *(("secrets", name) for name in ("keys", "offsite-cluster-shop")),
        ("persistentvolumeclaims", "share"),
    ):
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        body = {
            "metadata": {"name": name, "labels": {FOR_AGENTS: "true"}},
            **({"spec": spec} if name == "share" else {}),
        }
        assert client.post(f"/api/v1/namespaces/{NAMESPACE}/{kind}", json=body).status_code == 201

    def configure(spec: dict[str, Any]) -> dict[str, Any]:
        wanted = DesiredAgents(
            replicas=1,
            template=AgentTemplate.model_validate({"spec": spec}),
            place=RepositoryPlace(account="", repository="/mnt/share"),
            cluster="shop",
        )
        agents.configure(named.uid, wanted)
        assert agents.observe(named.uid).configured == wanted
        found: dict[str, Any] = client.get(named.deployment_path).json()["spec"]["template"]["spec"]
        return found

    pod = configure(made.json()["spec"]["agents"]["template"]["spec"])
    for name in ("serviceAccountName", "nodeSelector", "tolerations"):
        assert pod[name] == asked[name]
    (agent,) = pod["containers"]
    assert {"name": "share", "mountPath": "/mnt/share"} in agent["volumeMounts"]
    assert agent["resources"]["limits"] == {"memory": "4Gi"}
    assert [volume["name"] for volume in pod["volumes"]] == ["temporary", "cluster", "authority", "keys", "share"]
    assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True)

    plain = configure({})
    assert not {"nodeSelector", "tolerations", "affinity", "serviceAccountName"} & plain.keys()
    assert [volume["name"] for volume in plain["volumes"]] == ["temporary", "cluster"]
    assert plain["volumes"][0] == {"name": "temporary", "emptyDir": {}}


@dataclass(frozen=True)
class AskedCluster:
    """The port `Cluster` over the client of the test."""

    client: httpx.Client

    def get(self, path: str) -> Body | None:
        found = self.client.get(path)
        return None if found.status_code == 404 else found.json()

    def metadata(self, path: str) -> Body | None:
        answer = self.client.get(path, headers={"Accept": NAMES_ALONE})
        return None if answer.status_code == 404 else answer.json()["metadata"]

    def list(self, path: str) -> Iterable[Body]:
        found: list[Body] = self.client.get(path).json()["items"]
        return found

    def create(self, path: str, body: Body) -> None:
        made = self.client.post(path, json=body, params={"fieldValidation": "Strict"})
        assert made.status_code == 201, made.text

    def patch(self, path: str, patch: Body) -> bool:
        changed = self.client.patch(path, json=patch, headers=MERGE, params={"fieldValidation": "Strict"})
        assert changed.is_success, changed.text
        return True

    def delete(self, path: str, *, uid: str) -> None:
        raise AssertionError(f"nothing is deleted: {path} {uid}")


def test_it_judges_what_an_older_definition_knows(client: httpx.Client) -> None:
    """Helm leaves definitions as they are when the chart is upgraded."""
    definition = resource_definition(DEFINITIONS["Backup"])
    place, older = f"{DEFINITIONS_PATH}/{definition['metadata']['name']}", copy.deepcopy(definition)
    (version,) = older["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name in ("spec", "metadata"):
        del spec["properties"]["agents"]["properties"]["template"]["properties"][name]
    spec["x-kubernetes-validations"] = [
        each for each in spec["x-kubernetes-validations"] if "agents.template.spec" not in each["rule"]
    ]

    def knows_pods() -> bool:
        made = client.post(BACKUPS, json=document("Backup", {}, name="asked"), params={"dryRun": "All"})
        return made.status_code != 201 or "spec" in made.json()["spec"]["agents"]["template"]

    try:
        assert client.patch(place, json=older, headers=MERGE).is_success
        wait_until(lambda: not knows_pods(), "the older definition", limit_s=60)
        assert declared(client, "old", {}, dry=True).status_code == 201
        assert "an image that agents may not run" in declared(client, "old", EVIL, dry=True).text
    finally:
        client.patch(place, json=definition, headers=MERGE)
        wait_until(knows_pods, "the definition", limit_s=60)


def test_a_namespace_that_nobody_looks_after_is_not_asked(client: httpx.Client) -> None:
    path = BACKUPS.replace(f"/{NAMESPACE}/", "/others/")
    assert client.post(path, json=document("Backup", EVIL, name="a")).status_code == 201


def test_what_was_there_before_is_looked_after_and_can_be_deleted(client: httpx.Client) -> None:
    path = f"{BACKUPS}/before"
    told = {"metadata": {"finalizers": ["offsite.dev/deletion"]}}
    assert client.patch(path, json=told, headers=MERGE).is_success
    status = {"status": {"reconciled": False, "conditions": []}}
    assert client.patch(f"{path}/status", json=status, headers=MERGE).is_success
    assert client.patch(path, json={"spec": {"state": "paused"}}, headers=MERGE).status_code == 422, "mend it first"
    assert client.delete(path).is_success
    assert client.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE).is_success
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "is_allowed"),
    [
        ("create", "apps", "deployments", NAMESPACE, True),
        ("get", "", "secrets", NAMESPACE, True),
        ("patch", "offsite.dev", "backups", NAMESPACE, True),
        ("list", "apiextensions.k8s.io", "customresourcedefinitions", "", True),
        ("list", "", "secrets", NAMESPACE, False),
        ("create", "", "pods", NAMESPACE, False),
        ("delete", "offsite.dev", "backups", NAMESPACE, False),
        ("create", "apps", "deployments", "others", False),
        ("get", "", "secrets", "others", False),
        ("patch", "offsite.dev", "backups", "others", False),
        ("create", "apps", "deployments", "", False),
    ],
)
def test_the_operator_may_act_in_its_namespaces_alone(
    client: httpx.Client, verb: str, group: str, resource: str, namespace: str, *, is_allowed: bool
) -> None:
    asked = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    spec = {"user": f"system:serviceaccount:{NAMESPACE}:offsite-operator", "resourceAttributes": asked}
    answer = client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json={"spec": spec})
    assert answer.json()["status"]["allowed"] is is_allowed


def test_of_a_secret_the_labels_come_without_its_data(client: httpx.Client) -> None:
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    made = {"metadata": {"name": "a", "labels": {"b": "c"}}, "stringData": {"d": "very-secret"}}
    assert client.post(secrets, json=made).status_code == 201
    answer = client.get(f"{secrets}/a", headers={"Accept": NAMES_ALONE})
    assert (answer.json()["metadata"]["labels"], answer.json()["kind"]) == ({"b": "c"}, "PartialObjectMetadata")
    assert "data" not in answer.json()
