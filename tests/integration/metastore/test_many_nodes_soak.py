"""Three nodes that keep one command topic in one repository: each command once, whoever commits, whoever dies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import start, succeed
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.metastore.ksql import Ksql
from tests.integration.metastore.test_metastore import Node
from tests.integration.metastore.test_metastore_soak import writing

NODES = 3
BACKUP = "ksql"


@contextmanager
def following(ksql: Ksql, repository: Path, folder: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """One node, which says what it does into a file of its own."""
    ends = ("--repo", repository, "--bootstrap", ksql.cluster.bootstrap, "--backup", BACKUP, "--topics", ksql.topic)
    log = ("--log-file", folder / f"node-{number}.log")
    process = start("backup", "run", *ends, "--follow", "--interval", "1s", *log, "-o", "jsonl")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def commits(repository: Path) -> int:
    return len(list(repository.glob(f"backups/{BACKUP}/commits/*.json")))


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nodes_beside_each_other_commit_each_command_once(broker: SandboxInfo, tmp_path: Path) -> None:
    node = Node(Ksql(Cluster(broker.bootstrap)), tmp_path / "backups")
    node.ksql.make_topic()
    repository = tmp_path / "repository"
    succeed("init", repository)
    with writing(node), ExitStack() as opened:
        processes = [opened.enter_context(following(node.ksql, repository, tmp_path, n)) for n in range(NODES)]
        wait_until(lambda: commits(repository) >= 5, limit_s=120)
        processes[0].kill()
        seen = commits(repository)
        wait_until(lambda: commits(repository) >= seen + 10, limit_s=120)
        for process in processes[1:]:
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
        for process in processes[1:]:
            _, told = process.communicate(timeout=60)
            assert process.returncode == 0, told
    ends = ("--repo", repository, "--bootstrap", node.ksql.cluster.bootstrap, "--backup", BACKUP)
    succeed("backup", "run", *ends)
    assert succeed("verify", "--repo", repository, "--backup", BACKUP, "--deep", "--against", broker.bootstrap)["ok"]
    target = f"{node.ksql.topic}-again"
    renamed = ("--rename", f"{node.ksql.topic}={target}")
    succeed("restore", "run", *ends, *renamed, "--offsets", "preserve", "--yes")
    assert node.ksql.records(target) == node.ksql.records()
