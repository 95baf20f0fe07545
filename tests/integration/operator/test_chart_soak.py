"""The chart in the hands of Helm itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fetched_tools import NoTool, go_tool

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]  # Helm is compiled once, which takes minutes

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "offsite"

Helm = Callable[..., str]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Run with these arguments, without what the user has set; what it says."""
    try:
        program = go_tool("helm", module="helm.sh/helm/v3/cmd/helm", version="v3.19.0")
    except NoTool as error:
        pytest.skip(str(error))
    home = tmp_path_factory.mktemp("helm")
    folders = {f"HELM_{each}_HOME": str(home / each) for each in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments],
            env={"HOME": str(home), **folders},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def rendered(helm: Helm, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    """For a cluster of this version: Helm that was built by hand takes an old one for granted."""
    cluster = ("--kube-version", "1.35", "--namespace", "offsite")
    said = helm("template", "offsite", str(CHART), *cluster, *arguments)
    return by_name(yaml.safe_load_all(said))


def by_name(documents: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents if each}


def test_helm_finds_nothing_wrong_with_it(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_with_its_defaults_it_is_the_plain_manifest(helm: Helm) -> None:
    files = [(DEPLOY / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8") for name in ("operator", "namespace")]
    plain = by_name(document for text in files for document in yaml.safe_load_all(text))
    del plain["Namespace", "offsite"]
    for document in plain.values():
        if document["kind"] in {"Role", "RoleBinding", "NetworkPolicy"}:
            document["metadata"]["namespace"] = "offsite"
    assert rendered(helm) == plain


def test_values_go_where_they_belong_and_stay_text(helm: Helm) -> None:
    made = rendered(helm, "--set", "image.tag=2,resources.requests.cpu=1,configuration.secret=mine")
    pod = made["Deployment", "offsite-operator"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "offsite:2"
    assert pod["containers"][0]["resources"]["requests"]["cpu"] == "1"
    assert [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume] == ["mine"]


def test_each_namespace_gets_its_own_rights(helm: Helm) -> None:
    cluster = ("--kube-version", "1.35", "--namespace", "offsite")
    said = helm("template", "offsite", str(CHART), *cluster, "--set", "namespaces=shops fairs")
    bound = [
        each["metadata"]["namespace"] for each in yaml.safe_load_all(said) if each and each["kind"] == "RoleBinding"
    ]
    assert bound == ["shops", "fairs"]
