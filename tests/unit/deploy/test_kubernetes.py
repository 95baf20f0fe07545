"""Manifests and chart: they are what the code writes, they say the same, and they ask for little."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.deployed import deployed_files
from docs.generate import resources_page
from offsite.model.version import __version__
from offsite.operator.kubernetes.manifests import Setting

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "offsite"
GENERATED = ("kubernetes", "helm", "schema")
WRITTEN_BY_HAND = {"kubernetes/spark/backup.yaml"}
KINDS = ["backups", "restores", "schedules"]

_EXPRESSION = re.compile(r"\{\{ \.([A-Za-z.]+) \}\}")


def read(path: str) -> str:
    return (DEPLOY / path).read_text(encoding="utf-8")


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents(read("kubernetes/operator.yaml")) if each["kind"] == kind)
    return found


def as_installed(template: str) -> str:
    """What `helm install offsite --namespace offsite` makes of a template of plain expressions."""
    chart = yaml.safe_load(read("helm/offsite/Chart.yaml"))
    known = {
        "Values": yaml.safe_load(read("helm/offsite/values.yaml")),
        "Chart": {"AppVersion": chart["appVersion"]},
        "Release": {"Name": "offsite", "Namespace": "offsite"},
    }

    def value(found: re.Match[str]) -> str:
        place: Any = known
        for name in found[1].split("."):
            place = place[name]
        assert isinstance(place, str), found[0]
        return place

    return _EXPRESSION.sub(value, template)


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


def test_every_value_of_the_chart_is_used_and_explained() -> None:
    used = set(_EXPRESSION.findall(read("helm/offsite/templates/operator.yaml")))
    lines = read("helm/offsite/values.yaml").splitlines()
    told = [before.strip() for before, line in pairwise(lines) if '"' in line and "#" not in line]
    values = [path for path in used if path.startswith("Values.")]
    assert len(told) == len(values) == 8
    assert all(each.startswith("# ") for each in told)


def test_an_expression_is_written_as_helm_reads_it() -> None:
    assert Setting(path="Values.a.b", default="x").expression == "{{ .Values.a.b }}"


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
    allowed = {
        (group, resource): set(rule["verbs"])
        for rule in of_kind("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {group for group, _ in allowed} == {"offsite.dev", "apps", "apiextensions.k8s.io"}
    assert not any("*" in (*place, *verbs) for place, verbs in allowed.items())
    assert not any(resource in {"secrets", "configmaps", "pods"} for _, resource in allowed)
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


def test_one_operator_runs_as_nobody_and_writes_nowhere_but_in_its_temporary_folder() -> None:
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
    assert writable == ["/tmp"]
    folders = {each["name"]: each["value"] for each in container["env"]}
    assert folders.pop("OFFSITE_AGENT_IMAGE") == container["image"]
    assert all(each.startswith("/tmp") for each in folders.values())


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
