"""A backup of a command topic that goes on while brokers of three die and freeze: no alarm, no new file, no loss."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsite.log.records.record import Record
from offsite.metastore.backup_file import load
from offsite.sandbox import SandboxNode
from tests.integration.cluster.test_elections import leader
from tests.integration.cluster.trial import Trial
from tests.integration.kafka.cluster import wait_until
from tests.integration.metastore.ksql import Ksql, create_stream
from tests.integration.metastore.test_metastore import Node

ROUNDS = 3


def killed(broker: SandboxNode) -> Callable[[], None]:
    broker.kill()
    return broker.start


def frozen(broker: SandboxNode) -> Callable[[], None]:
    broker.pause()
    return broker.resume


def told(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What it says, as it comes."""
    said: list[dict[str, Any]] = []

    def read() -> None:
        said.extend(map(json.loads, process.stdout or ()))

    threading.Thread(target=read, daemon=True).start()
    return said


def in_file(file: Path) -> list[Record]:
    return [each.record for each in load(file).commands]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [killed, frozen])
def test_a_leader_that_dies_or_freezes_costs_time_and_no_command(
    trial: Trial, tmp_path: Path, fault: Callable[[SandboxNode], Callable[[], None]]
) -> None:
    node = Node(Ksql(trial.cluster), tmp_path / "backups")
    node.ksql.make_topic()
    node.ksql.write([create_stream(0)])
    with node.following() as process:
        said = told(process)
        wait_until(lambda: bool(said) and said[-1]["commands"] == 1)
        for number in range(1, ROUNDS + 1):
            before = leader(trial.cluster, node.ksql.topic)
            undo = fault(trial.sandbox.broker(before))
            try:
                wait_until(lambda: leader(trial.cluster, node.ksql.topic) not in {before, -1}, limit_s=60)  # noqa: B023
                node.ksql.write([create_stream(number)])
                wait_until(lambda: said[-1]["commands"] == number + 1, limit_s=90)  # noqa: B023
            finally:
                undo()
            trial.healed()
        assert process.poll() is None
    assert {each["verdict"] for each in said} == {"current"}
    (file,) = node.files
    assert in_file(file) == node.ksql.records()
