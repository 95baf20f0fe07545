"""All brokers gone while a backup follows: it says that it waits, makes no commit of silence, and goes on by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.sandbox import SandboxNode
from tests.conftest import StartSandbox
from tests.integration.e2e.command import start, succeed
from tests.integration.kafka.cluster import Cluster, numbered
from tests.integration.kafka.cluster import wait_until as wait_long
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_FOLLOW_OUTAGE_TEST"
OUTAGE_S = float(os.environ.get("OFFSITE_OUTAGE_S", "1"))
"""Seconds for which they stay away after it was noticed."""

SILENCE_S = 240.0
"""A broker that is frozen may as well be slow: it is given two minutes."""


def freeze(broker: SandboxNode) -> Callable[[], None]:
    broker.pause()
    return broker.resume


def kill(broker: SandboxNode) -> Callable[[], None]:
    broker.kill()
    return broker.start


def heard(running: subprocess.Popen[str]) -> list[str]:
    """Lines of stderr, as they come."""
    lines: list[str] = []
    assert running.stderr is not None
    threading.Thread(target=lines.extend, args=(running.stderr,), daemon=True).start()
    return lines


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("take_away", [kill, freeze])
def test_brokers_that_are_all_gone_are_waited_for(
    start_sandbox: StartSandbox, tmp_path: Path, take_away: Callable[[SandboxNode], Callable[[], None]]
) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    topic, commits = cluster.make_topic(), tmp_path / "repo" / "backups" / "b" / "commits"
    names = ["--repo", tmp_path / "repo", "--backup", "b"]
    succeed("init", tmp_path / "repo")
    cluster.produce(topic, numbered(100))
    ends = ["--bootstrap", info.bootstrap, "--topics", topic, "--interval", "300ms", "-o", "jsonl"]
    running = start("backup", "run", "--follow", *names, *ends, environment={MARK: str(tmp_path)})
    try:
        told = heard(running)
        wait_until(lambda: len(list(commits.glob("*.json"))) == 1, "the first commit")
        bring_back = take_away(sandbox.brokers[0])
        wait_long(lambda: any("waiting, and trying again: [OFF-15" in line for line in told), limit_s=SILENCE_S)
        time.sleep(OUTAGE_S)
        assert running.poll() is None
        assert len(list(commits.glob("*.json"))) == 1
        bring_back()
        cluster.produce(topic, numbered(50))
        wait_until(lambda: len(list(commits.glob("*.json"))) >= 2, "a commit after the outage")
        wait_until(lambda: any("it works again" in line for line in told), "word of its end")
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
    wait_until(lambda: not processes_with(MARK, str(tmp_path)), "every process to end")
    assert succeed("verify", *names, "--against", info.bootstrap)["against"]["records"] == 150
