"""Manifests and chart: they are what the code writes, they say the same, and they ask for little."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.deployed import Setting, deployed_files
from docs.generate import resources_page
from offsite.model.version import __version__
from offsite.operator.decide.desired import DesiredAgents, RepositoryPlace
from offsite.operator.kubernetes.agents import AgentPods, agent_deployment
from offsite.operator.kubernetes.api import ResourceReference
from offsite.operator.resources.backup import AgentTemplate

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "offsite"
GENERATED = ("kubernetes", "helm", "schema")
WRITTEN_BY_HAND = {"kubernetes/spark/backup.yaml"}
KINDS = ["backups", "restores", "schedules"]

_EXPRESSION = re.compile(r"\{\{ \$\.([A-Za-z.]+)(?: \| default \$\.([A-Za-z.]+))? \}\}")
_LOOP = re.compile(
    r'\{\{- range splitList " " \(\$\.Values\.namespaces \| default \$\.Release\.Namespace\) \}\}\n'
    r"(.*)\{\{- end \}\}\n",
    re.DOTALL,
)
READING = {"get", "list", "watch"}
TEMPLATES = ("operator", "namespaces")


def read(path: str) -> str:
    return (DEPLOY / path).read_text(encoding="utf-8")


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents(read("kubernetes/operator.yaml")) if each["kind"] == kind)
    return found


def as_installed(template: str, *, namespaces: str = "") -> str:
    """What `helm install offsite --namespace offsite` makes of a template of plain expressions, and of one loop."""
    chart = yaml.safe_load(read("helm/offsite/Chart.yaml"))
    known = {
        "Values": yaml.safe_load(read("helm/offsite/values.yaml")) | {"namespaces": namespaces},
        "Chart": {"AppVersion": chart["appVersion"]},
        "Release": {"Name": "offsite", "Namespace": "offsite"},
    }

    def told(path: str) -> str:
        place: Any = known
        for name in path.split("."):
            place = place[name]
        assert isinstance(place, str), path
        return place

    def value(found: re.Match[str]) -> str:
        return told(found[1]) or (told(found[2]) if found[2] else "")

    def each_namespace(found: re.Match[str]) -> str:
        return "".join(found[1].replace("{{ . }}", namespace) for namespace in (namespaces or "offsite").split(" "))

    text = _EXPRESSION.sub(value, _LOOP.sub(each_namespace, template))
    assert "{{" not in text
    return text


def rendered(*, namespaces: str = "") -> list[dict[str, Any]]:
    """All that the chart makes."""
    texts = [as_installed(read(f"helm/offsite/templates/{name}.yaml"), namespaces=namespaces) for name in TEMPLATES]
    return [document for text in texts for document in documents(text) if document]


def allowed_by(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """Verbs by group and resource."""
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("path", deployed_files())
def test_each_file_is_what_the_code_writes(path: str) -> None:
    assert read(path) == deployed_files()[path], "run make docs"


def test_the_reference_is_what_the_code_writes() -> None:
    assert (ROOT / "docs" / "reference" / "resources.md").read_text(encoding="utf-8") == resources_page()


def test_there_is_no_file_that_nobody_writes_any_more() -> None:
    there = {
        str(path.relative_to(DEPLOY)) for folder in GENERATED for path in (DEPLOY / folder).rglob("*") if path.is_file()
    }
    assert there - WRITTEN_BY_HAND == set(deployed_files())


def test_the_chart_with_its_defaults_is_the_plain_manifest() -> None:
    template = read("helm/offsite/templates/operator.yaml")
    namespace, *plain = documents(read("kubernetes/operator.yaml"))
    assert namespace["kind"] == "Namespace"
    assert documents(as_installed(template)) == plain


def test_a_namespace_is_given_by_the_chart_what_the_plain_manifest_gives_it() -> None:
    template = as_installed(read("helm/offsite/templates/namespaces.yaml"), namespaces="shops fairs")
    made, plain = [each for each in documents(template) if each], documents(read("kubernetes/namespace.yaml"))
    assert [each["metadata"].pop("namespace") for each in made] == ["shops"] * 3 + ["fairs"] * 3
    assert made == plain * 2
    assert {each["kind"] for each in plain} == {"Role", "RoleBinding", "NetworkPolicy"}


def test_no_manifest_gives_a_right_to_write_in_all_namespaces() -> None:
    files = [documents(path.read_text(encoding="utf-8")) for path in (DEPLOY / "kubernetes").rglob("*.yaml")]
    made = [document for file in (*files, rendered(), rendered(namespaces="shops fairs")) for document in file]
    roles = [document for document in made if document["kind"] == "ClusterRole"]
    assert len(roles) >= 3
    for role in roles:
        assert set().union(*allowed_by(role).values()) <= READING, role["metadata"]["name"]
        assert not role.get("aggregationRule")
        assert ("", "secrets") not in allowed_by(role)
    bound = [document for document in made if document["kind"] == "ClusterRoleBinding"]
    ours = {role["metadata"]["name"] for role in roles}
    assert {binding["roleRef"]["name"] for binding in bound} <= ours, "none of others, such as cluster-admin"


def test_the_operator_looks_after_the_namespaces_that_it_has_rights_in() -> None:
    for namespaces in ("", "shops fairs"):
        made = rendered(namespaces=namespaces)
        (deployment,) = (each for each in made if each["kind"] == "Deployment")
        env = {each["name"]: each["value"] for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
        bound = [each["metadata"]["namespace"] for each in made if each["kind"] == "RoleBinding"]
        assert env["OFFSITE_NAMESPACES"].split(" ") == bound == (namespaces or "offsite").split(" ")


def test_pods_are_reached_where_they_answer_and_nowhere_else() -> None:
    operator, agents = (each["spec"] for each in rendered() if each["kind"] == "NetworkPolicy")
    assert (operator["policyTypes"], agents["policyTypes"]) == (["Ingress"], ["Ingress"])
    assert operator["podSelector"]["matchLabels"] == of_kind("Deployment")["spec"]["selector"]["matchLabels"]
    assert operator["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9464}]}]
    place = RepositoryPlace(account="a", repository="s3://b")
    wanted = DesiredAgents(replicas=1, template=AgentTemplate(), place=place, cluster="shop")
    named = ResourceReference(kind="Backup", namespace="shops", name="shop", uid="u")
    pods = AgentPods(named=named, agents=wanted, image="offsite:1")
    labels = agent_deployment(pods)["spec"]["template"]["metadata"]["labels"]
    assert agents["podSelector"]["matchLabels"].items() <= labels.items()
    assert agents["ingress"] == []


def test_admission_knows_what_the_operator_knows() -> None:
    (policy,) = (each for each in rendered(namespaces="shops fairs") if each["kind"] == "ValidatingAdmissionPolicy")
    (binding,) = (each for each in rendered() if each["kind"] == "ValidatingAdmissionPolicyBinding")
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == ("offsite-operator", ["Deny"])
    spec, image = policy["spec"], f"offsite:{__version__}"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (spec["failurePolicy"], rule["resources"], rule["operations"]) == (
        "Fail",
        ["backups", "restores"],
        ["CREATE", "UPDATE"],
    )
    assert spec["matchConditions"][0]["expression"] == "request.namespace in 'shops fairs'.split(' ')"
    rules = [each["expression"] for each in spec["validations"]]
    assert any(f"['', '{image}']" in rule for rule in rules)
    assert sum("contains('?')" in rule for rule in rules) == 2


def test_every_value_of_the_chart_is_used_and_explained() -> None:
    text = "".join(read(f"helm/offsite/templates/{name}.yaml") for name in TEMPLATES)
    used = {path for path, _ in _EXPRESSION.findall(text)}
    lines = read("helm/offsite/values.yaml").splitlines()
    told = [before.strip() for before, line in pairwise(lines) if '"' in line and "#" not in line]
    values = [path for path in used if path.startswith("Values.")]
    assert len(told) == len(values) == 12
    assert all(each.startswith("# ") for each in told)


def test_an_expression_is_written_as_helm_reads_it() -> None:
    assert Setting(path="Values.a.b", default="x").expression == "{{ $.Values.a.b }}"


def test_the_chart_has_the_definitions_of_the_plain_manifests() -> None:
    for kind in KINDS:
        assert read(f"helm/offsite/crds/{kind}.yaml") == read(f"kubernetes/crds/{kind}.yaml")
        assert yaml.safe_load(read(f"kubernetes/crds/{kind}.yaml"))["spec"]["names"]["plural"] == kind


def test_yaml_says_what_the_code_says() -> None:
    """Nothing in it is read otherwise than it was meant: `7d`, `True`, times, numbers."""
    backups = yaml.safe_load(read("kubernetes/crds/backups.yaml"))
    version = backups["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["snapshotDuration"]["default"] == "7d"
    assert spec["destination"]["properties"]["timestampFormat"]["default"] == "-2006-01-02T15:04:05Z-07:00"
    assert version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]["items"][
        "properties"
    ]["status"]["enum"] == ["True", "False", "Unknown"]


def test_schemas_are_json() -> None:
    assert [json.loads(read(f"schema/{kind}.json"))["$id"] for kind in ("backup", "restore", "schedule")] == [
        *("urn:offsite:v1alpha1:Backup", "urn:offsite:v1alpha1:Restore", "urn:offsite:v1alpha1:Schedule"),
    ]


def test_the_operator_may_do_little() -> None:
    assert allowed_by(of_kind("ClusterRole")) == {
        ("apiextensions.k8s.io", "customresourcedefinitions"): {"list", "watch"}
    }
    allowed = allowed_by(documents(read("kubernetes/namespace.yaml"))[0])
    assert {group for group, _ in allowed} == {"offsite.dev", "apps", "", "kafka.strimzi.io"}
    for kind in ("kafkas", "kafkausers"):
        assert allowed["kafka.strimzi.io", kind] == {"get"}
    assert not any("*" in (*place, *verbs) for place, verbs in allowed.items())
    for kind in ("secrets", "persistentvolumeclaims"):
        assert allowed["", kind] == {"get"}, "of one that is named, for its labels"
    assert not any(resource in {"configmaps", "pods"} for _, resource in allowed)
    for kind in KINDS:
        assert allowed["offsite.dev", kind] == {"get", "list", "watch", "patch"}
        assert allowed["offsite.dev", f"{kind}/status"] == {"get", "patch"}


def test_the_binding_is_of_the_role_to_the_account_of_the_pod() -> None:
    binding, deployment = of_kind("ClusterRoleBinding"), of_kind("Deployment")
    account = of_kind("ServiceAccount")["metadata"]
    assert binding["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]


def test_one_operator_runs_as_nobody_and_writes_nowhere_but_in_its_own_folders() -> None:
    spec = of_kind("Deployment")["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert (spec["replicas"], container["image"]) == (1, f"offsite:{__version__}")
    assert container["command"] == ["offsite", "operator", "run", "--kubernetes"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"] > 0) == (True, True)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert writable == ["/tmp", "/var/lib/offsite"]
    folders = {each["name"]: each["value"] for each in container["env"]}
    assert folders.pop("OFFSITE_AGENT_IMAGE") == container["image"]
    lists = ("OFFSITE_ALLOWED_IMAGES", "OFFSITE_ALLOWED_METADATA", "OFFSITE_NAMESPACES")
    assert [folders.pop(name) for name in lists] == ["", "", "offsite"]
    assert all(each.startswith(("/tmp", "/var/lib/offsite")) for each in folders.values())


def test_labels_by_which_pods_are_found_are_theirs_and_never_change() -> None:
    spec = of_kind("Deployment")["spec"]
    selected = spec["selector"]["matchLabels"]
    assert selected.items() <= spec["template"]["metadata"]["labels"].items()
    assert __version__ not in selected.values()


def test_probes_ask_a_port_that_there_is() -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    probes = [container[f"{each}Probe"]["httpGet"] for each in ("startup", "liveness", "readiness")]
    assert [each["path"] for each in probes] == ["/healthz", "/healthz", "/readyz"]
    assert {each["port"] for each in probes} == {port["name"]}
    assert container["args"][-1].endswith(f":{port['containerPort']}")


def test_what_the_operator_remembers_outlives_its_pods() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    (place,) = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == "XDG_STATE_HOME"]
    (mount,) = [each["name"] for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == place]
    (volume,) = [each for each in pod["volumes"] if each["name"] == mount]
    claim = of_kind("PersistentVolumeClaim")["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
