"""Backups, proofs and restores on a real YARN, whose containers have no offsite but the one that was sent there."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from offsite.demo.data import compare_readings, read_topic
from offsite.engine.executor_archive import UNPACKED, own_manifest, pack
from offsite.engine.local.jvm import spark_home
from offsite.engine.runner import Runner
from tests.fetched_tools import NoTool
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import clean_environment, start, succeed
from tests.integration.e2e.copies import Copy, messages
from tests.integration.e2e.transactions import with_transaction
from tests.spark_cluster import QUICK_JVMS
from tests.yarn_cluster import YarnCluster, yarn_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

LIMIT_S = 600
RECORDS = 20_000
SUBMITTED = {
    "spark.pyspark.python": "./offsite.pex",
    "spark.yarn.appMasterEnv.PEX_ROOT": UNPACKED,
    "spark.yarn.maxAppAttempts": "1",
}
"""What the manual has for cluster mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yarn:
    cluster: YarnCluster
    folder: Path
    archive: Path

    def start(self, *arguments: object, sent: bool = True) -> Popen[str]:
        """`offsite` with these arguments and YARN as its master; without `sent`, executors get nothing."""
        archive = ("--spark-archive", self.archive) if sent else ()
        conf = (part for name, value in self._settings().items() for part in ("--spark-conf", f"{name}={value}"))
        environment = self._environment() | ({} if sent else {"PYSPARK_PYTHON": f"python{own_manifest().python}"})
        return start(*arguments, "--spark-master", "yarn", *archive, *conf, "-v", environment=environment)

    def succeed(self, *arguments: object) -> Any:
        """The result of a command that has to end well, as one application."""
        before = len(self.cluster.applications())
        out = ended_well(self.start(*arguments))
        newest, *others = self.cluster.applications()
        assert len(others) == before
        assert newest["finalStatus"] == "SUCCEEDED", self.cluster.logs(newest["id"])
        return json.loads(out)

    def submit(self, *arguments: object) -> tuple[int, dict[str, Any]]:
        """The exit code of `spark-submit` in cluster mode, where the command runs on a node, and the application."""
        job, properties = self.folder / "offsite-job.py", self.folder / "client.properties"
        succeed("spark", "job", "--output-file", job)
        properties.write_text(f"bootstrap.servers={arguments[0]}\n", encoding="utf-8")
        settings = {**self._settings(), **SUBMITTED}
        done = subprocess.run(
            [
                *(f"{spark_home()}/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster"),
                *("--files", f"{self.archive},{properties}"),
                *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
                *(str(job), *map(str, arguments[1:]), "--kafka-config", "client.properties", "-o", "json"),
            ],
            env=clean_environment(self._environment()),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        found = re.search(r"Submitted application (\S+)", done.stderr)
        assert found is not None, done.stderr
        return done.returncode, next(each for each in self.cluster.applications() if each["id"] == found[1])

    def unpacked_elsewhere(self) -> list[Path]:
        """What archives unpacked outside of the folders of containers, which go with them."""
        return list(self.folder.glob("node-*/home/.cache/*"))

    def _environment(self) -> dict[str, str]:
        return {"HADOOP_CONF_DIR": str(self.cluster.conf), "SPARK_LOCAL_IP": "127.0.0.1"}

    def _settings(self) -> dict[str, str]:
        """Spark's own jars are on every node, as they often are: they need not be sent each time."""
        return {
            **QUICK_JVMS,
            "spark.driver.host": "127.0.0.1",
            "spark.offsite.strangers": "allowed",
            "spark.executor.instances": "2",
            "spark.executor.memory": "512m",
            "spark.yarn.am.memory": "256m",
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": str(self.folder / "staging"),
        }


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    try:
        with yarn_cluster(folder, nodes=2) as cluster:
            archive = folder / "offsite.pex"
            pack(archive, compress=False)  # seconds, not half a minute
            yield Yarn(cluster=cluster, folder=folder, archive=archive)
    except NoTool as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def spark() -> Runner:
    """Of the site, where nothing of Spark is asked of it here: a process has one Spark, and this needs none."""
    return InlineRunner()


def test_what_went_through_yarn_twice_is_the_same_log(yarn: Yarn, copy: Copy, tmp_path: Path) -> None:
    plain, transactional = many_records(copy), transactions(copy)
    yarn.succeed(*backup(copy, tmp_path, plain, transactional))
    assert yarn.succeed("verify", *repository(tmp_path), "--deep")["ok"]
    restored = yarn.succeed("restore", "run", *repository(tmp_path), *into(copy), "--offsets", "preserve")
    assert restored["verified"]
    for topic in (plain, transactional):
        copy.assert_the_same_log(topic)


def test_a_restore_that_closes_gaps_brings_every_record_through_yarn(yarn: Yarn, copy: Copy, tmp_path: Path) -> None:
    topic = transactions(copy)
    yarn.succeed(*backup(copy, tmp_path, topic))
    rename = ("--rename", f"{topic}={topic}-again", "--offsets", "translate")
    assert yarn.succeed("restore", "run", *repository(tmp_path), *into(copy), *rename)["verified"]
    comparison = compare_readings(topic, copy.site.read(topic), read_topic(copy.target.bootstrap, f"{topic}-again"))
    assert comparison.identical, comparison.difference[:1000]


def test_the_command_itself_may_run_on_a_node(yarn: Yarn, copy: Copy, tmp_path: Path) -> None:
    topic = transactions(copy)
    source, target = copy.site.cluster.bootstrap, copy.target.bootstrap
    code, _ = yarn.submit(source, "backup", "run", *repository(tmp_path), "--topics", topic)
    assert code == 0
    code, done = yarn.submit(target, "restore", "run", *repository(tmp_path), "--offsets", "preserve", "--yes")
    assert (code, done["finalStatus"]) == (0, "SUCCEEDED")
    assert '"verified": true' in yarn.cluster.logs(done["id"])
    assert not yarn.unpacked_elsewhere()
    copy.assert_the_same_log(topic)


def test_a_command_that_fails_on_a_node_says_so_to_yarn(yarn: Yarn, copy: Copy, tmp_path: Path) -> None:
    nowhere = ("--repo", tmp_path / "nowhere", "--backup", "nightly")
    code, done = yarn.submit(copy.site.cluster.bootstrap, "backup", "run", *nowhere, "--topics", "*")
    assert code == 1
    assert (done["finalStatus"], done["diagnostics"]) == ("FAILED", "User application exited with status 10")
    assert "OFF-1001" in yarn.cluster.logs(done["id"])


def test_executors_without_an_offsite_are_named_as_such(yarn: Yarn, copy: Copy, tmp_path: Path) -> None:
    running = yarn.start(*backup(copy, tmp_path, many_records(copy)), sent=False)
    _, said = running.communicate(timeout=LIMIT_S)
    (error,) = (json.loads(line)["error"] for line in said.splitlines() if line.startswith('{"error"'))
    assert "the Python of an executor cannot import offsite" in error["message"]


def many_records(copy: Copy) -> str:
    topic = copy.site.make_topic(partitions=4)
    copy.site.produce(topic, messages(0, RECORDS))
    return topic


def transactions(copy: Copy) -> str:
    topic = copy.site.make_topic()
    for first in range(0, 100, 10):
        with_transaction(copy.site, topic, messages(first, first + 10), commit=first % 20 == 0)
    return topic


def backup(copy: Copy, folder: Path, *topics: str) -> tuple[object, ...]:
    """The arguments of a first backup of these, into the repository of the site."""
    chosen = ("--topics", ",".join(topics), "--bootstrap", copy.site.cluster.bootstrap)
    return ("backup", "run", *repository(folder), *chosen)


def repository(folder: Path) -> tuple[object, ...]:
    return ("--repo", folder / "repository", "--backup", "nightly")


def into(copy: Copy) -> tuple[object, ...]:
    return ("--bootstrap", copy.target.bootstrap, "--yes")


def ended_well(running: Popen[str]) -> str:
    out, said = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, said
    return out
