"""Hooks around real runs: each command tells its begin and its end, and a hook that hangs or fails changes nothing."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import offsite, start, succeed
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.processes import wait_until


@pytest.mark.soak
def test_a_backup_a_check_a_drill_a_restore_and_a_following_run_are_told(broker: SandboxInfo, tmp_path: Path) -> None:
    topic = Cluster(broker.bootstrap).make_topic()
    produce_to(broker.bootstrap, topic, [DemoMessage(key=b"s3cret-key", value=b"s3cret-value", timestamp_ms=BASE_MS)])
    log, where = tmp_path / "events", {"OFFSITE_REPO": str(tmp_path / "repository")}
    cluster = ["--bootstrap", broker.bootstrap]
    hooks = [word for moment in ("before", "after", "failure") for word in ("--hook", f"{moment}=cat >> {log}")]
    succeed("init", environment=where)

    harmful = ["--hook", "before=exit 9", "--hook", "after=sleep 60", "--hook-timeout", "1s"]
    run = ["backup", "run", *cluster, "--backup", "b", "--topics", topic]
    result = succeed(*run, *hooks, *harmful, environment=where)
    problems = [notice["problem"] for notice in result["notices"]]
    assert [bool(problem) for problem in problems] == [False, True, False, True]
    succeed("verify", "--backup", "b", "--deep", *hooks, environment=where)
    assert succeed("restore", "drill", *cluster, "--backup", "b", *hooks, environment=where)["proven"]
    rename = f"{topic}={new_name(topic)}"
    succeed("restore", "run", *cluster, "--backup", "b", "--rename", rename, "--yes", *hooks, environment=where)
    refused = offsite("restore", "run", *cluster, "--backup", "b", "--yes", *hooks, "-o", "json", environment=where)
    following = start(*run[:1], "follow", *run[2:], "--interval", "300ms", *hooks, environment=where)
    try:
        wait_until(lambda: len(events(log)) == 12, "the begin of the run that follows")
        time.sleep(1)
        following.send_signal(signal.SIGTERM)
        assert following.wait(60) == 0
    finally:
        following.kill()

    endings = [(event["command"], event["event"], event["exit_code"]) for event in events(log)]
    assert endings[:8] == [
        (command, *end)
        for command in ("backup run", "verify", "restore drill", "restore run")
        for end in (("began", None), ("succeeded", 0))
    ]
    assert [event for _, event, _ in endings[8:]] == ["began", "failed", "failed", "began", "succeeded"]
    assert events(log)[9]["error"] == refused.error["id"]
    assert events(log)[9]["exit_code"] == refused.exit_code
    assert events(log)[1]["numbers"]["records"] == 1
    assert "s3cret" not in log.read_text()


def events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]
