"""What the commands cost before they do anything: no JVM where none is needed, quick help."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import offsite, started, succeed
from tests.integration.e2e.site import back_up_here, produce_to
from tests.integration.kafka.cluster import Cluster

HELP_LIMIT_S = 3.0  # on a machine that runs other tests as well; alone it is 0.3 s


@pytest.fixture(scope="module")
def ends(broker: SandboxInfo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    repository, topic = tmp_path_factory.mktemp("quick") / "repository", Cluster(broker.bootstrap).make_topic()
    produce_to(broker.bootstrap, topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    environment = {"OFFSITE_REPO": str(repository), "OFFSITE_BOOTSTRAP": broker.bootstrap}
    succeed("init", environment=environment)
    back_up_here(broker.bootstrap, repository, "b", topic)
    return environment | {"TOPIC": topic}


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """A world in which whoever looks for java finds a program that leaves a trace, and fails."""
    trace, java = tmp_path / "trace", tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {trace}\nexit 1\n")
    java.chmod(0o755)
    path = f"{java.parent}:{os.environ['PATH']}"
    return {"PATH": path, "JAVA_HOME": str(java.parents[1]), "TRACE": str(trace)}


COMMANDS = {
    "list": ["list"],
    "show": ["show", "b"],
    "status": ["status"],
    "verify": ["verify", "--backup", "b"],
    "backup plan": ["backup", "plan", "--backup", "b"],
    "restore plan": ["restore", "plan", "--backup", "b", "--rename", "TOPIC=elsewhere"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS.keys())
def test_looking_and_planning_starts_no_jvm(
    ends: dict[str, str], without_java: dict[str, str], arguments: list[str]
) -> None:
    spelled = [argument.replace("TOPIC", ends["TOPIC"]) for argument in arguments]
    succeed(*spelled, environment=ends | without_java)
    assert not Path(without_java["TRACE"]).exists()


def test_the_trap_of_these_tests_works(ends: dict[str, str], without_java: dict[str, str]) -> None:
    done = offsite("verify", "--backup", "b", "--deep", environment=ends | without_java)
    assert done.exit_code != 0
    assert Path(without_java["TRACE"]).exists()


@pytest.mark.parametrize("arguments", [[], ["backup", "run"], ["restore", "run"], ["verify"], ["demo"]], ids=" ".join)
def test_help_is_quick(arguments: list[str]) -> None:
    done = started(*arguments, "--help")
    assert done.exit_code == 0
    assert done.took_s < HELP_LIMIT_S
