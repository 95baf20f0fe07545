"""Drills: the backup is proven, nothing stays behind, and the report says what was proven."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.model.topic_choices import Renames
from offsite.restore.drill import PREFIX, scratch_names
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import files_under, offsite, start, succeed
from tests.integration.e2e.site import back_up_here, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.processes import wait_until

COUNT = 20_000
VALUE = b"%06d " * 40


class Drilled:
    """A backup of two topics, one with two partitions."""

    def __init__(self, cluster: Cluster, repository: Path) -> None:
        self.cluster = cluster
        self.repository = repository
        self.topics = [cluster.make_topic(partitions=2), cluster.make_topic()]
        produce_to(cluster.bootstrap, self.topics[0], [_message(n, partition=n % 2) for n in range(COUNT)])
        produce_to(cluster.bootstrap, self.topics[1], [_message(n) for n in range(10)])
        self.names = ["--repo", repository, "--backup", "b"]
        succeed("init", repository)
        back_up_here(cluster.bootstrap, repository, "b", *self.topics)

    def leftovers(self) -> list[str]:
        return [name for name in self.cluster.admin.topics() if name.startswith(PREFIX)]

    def drill(self) -> list[object]:
        return ["restore", "drill", *self.names, "--bootstrap", self.cluster.bootstrap]


@pytest.fixture(scope="module")
def drilled(broker: SandboxInfo, tmp_path_factory: pytest.TempPathFactory) -> Drilled:
    return Drilled(Cluster(broker.bootstrap), tmp_path_factory.mktemp("drilled") / "repository")


def _message(number: int, *, partition: int = 0) -> DemoMessage:
    return DemoMessage(key=b"k", value=VALUE % ((number,) * 40), timestamp_ms=BASE_MS + number, partition=partition)


def test_a_drill_proves_the_backup_and_leaves_only_its_report(drilled: Drilled, tmp_path: Path) -> None:
    report = succeed(*drilled.drill(), "--report", tmp_path / "reports")
    assert (report["proven"], report["records"], report["findings"]) == (True, COUNT + 10, [])
    assert sorted(topic["source"] for topic in report["topics"]) == sorted(drilled.topics)
    assert sum(len(topic["digests"]) for topic in report["topics"]) == 3
    assert drilled.leftovers() == []
    assert sorted(name.split("-", 3)[3] for name in report["removed"]) == sorted(drilled.topics)
    filed = files_under(tmp_path / "reports")
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "reports").iterdir()} == {0o600}
    document = json.loads(filed[f"{report['drill']}.json"])
    assert {name: document[name] for name in report} == report  # and the hashes of both files
    page = filed[f"{report['drill']}.html"].decode()
    assert f"Proven: {COUNT + 10:,} records" in page
    assert all(topic in page for topic in drilled.topics)
    kept = drilled.repository / "backups" / "b" / "drills" / report["drill"]
    assert files_under(kept) == {
        f"report.{suffix}": filed[f"{report['drill']}.{suffix}"] for suffix in ("json", "html")
    }


@pytest.mark.soak
def test_a_drill_in_a_sandbox_needs_no_cluster(drilled: Drilled) -> None:
    report = succeed("restore", "drill", *drilled.names, "--topics", drilled.topics[1])
    assert (report["proven"], report["records"], report["place"]) == (True, 10, "its own sandbox")
    assert report["topics"][0]["target"] == drilled.topics[1]


@pytest.mark.soak
def test_a_damaged_backup_is_not_proven_and_the_report_says_why(drilled: Drilled, tmp_path: Path) -> None:
    damaged, reports = tmp_path / "repository", tmp_path / "reports"
    shutil.copytree(drilled.repository, damaged)
    (segment,) = (damaged / "backups" / "b" / "topics" / drilled.topics[1]).rglob("*.log*")
    segment.write_bytes(b"\0" * segment.stat().st_size)
    found = offsite(*drilled.drill(), "--repo", damaged, "--report", reports)
    assert (found.exit_code, found.error["id"]) == (13, "OFF-1302")
    assert drilled.leftovers() == []
    (filed,) = reports.glob("*.json")
    report = json.loads(filed.read_text())
    assert (report["proven"], len(report["removed"])) == (False, 2)
    assert segment.name in report["problem"]
    assert "Not proven" in filed.with_suffix(".html").read_text()


@pytest.mark.soak
def test_the_next_drill_removes_what_a_killed_one_left(drilled: Drilled) -> None:
    killed = start(*drilled.drill())
    wait_until(lambda: len(drilled.leftovers()) == len(drilled.topics), "the drill to make its topics")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    left = drilled.leftovers()
    report = succeed(*drilled.drill())
    assert sorted(report["leftovers"]) == sorted(left)
    assert report["proven"]
    assert drilled.leftovers() == []


def test_names_too_long_for_the_prefix_are_cut_and_stay_apart() -> None:
    topics = ["short", "x" * 249, "x" * 248 + "y"]
    names: Renames = scratch_names("0123abcd", topics)
    targets = [names.target_name(topic) for topic in topics]
    assert targets[0] == f"{PREFIX}0123abcd-short"
    assert len(set(targets)) == 3
    assert all(target.startswith(PREFIX) and len(target) <= 249 for target in targets)
