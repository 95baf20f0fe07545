"""offsite in a driver that spark-submit has started: the Spark that is there works, and the exit code is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from offsite.cli.wiring import connect
from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.local.jvm import spark_home
from offsite.kafka.protocol.metadata import NewTopic
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import clean_environment, offsite
from tests.integration.e2e.site import produce_to
from tests.spark_cluster import QUICK_JVMS

LIMIT_S = 120


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("job") / "offsite-job.py"
    offsite("spark", "job", "--output-file", file)
    return file


def submitted(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    conf = {**QUICK_JVMS, "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    return subprocess.run(
        [
            *(f"{spark_home()}/bin/spark-submit", "--master", "local[1,4]"),
            *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
            *(str(script), *map(str, arguments)),
        ],
        env=clean_environment({"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.soak
def test_spark_submit_runs_a_command_on_its_own_spark(broker: SandboxInfo, script: Path, tmp_path: Path) -> None:
    topic = "submitted"
    repository = tmp_path / "repository"
    offsite("init", repository)
    connect(broker.bootstrap, None).admin.create_topics([NewTopic(name=topic, partitions=1)])
    produce_to(broker.bootstrap, topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    where = ("--repo", repository, "--backup", "b")
    done = submitted(script, "backup", "run", *where, "--bootstrap", broker.bootstrap, "--topics", topic, "-o", "json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["records"] == 1
    assert offsite("verify", *where).result["ok"]


def test_the_exit_code_and_the_error_of_a_command_are_told(script: Path, tmp_path: Path) -> None:
    done = submitted(script, "verify", "--repo", tmp_path, "--backup", "b", "--deep")
    assert done.returncode == 10
    assert "error[OFF-1001]" in done.stdout, "Spark joins the two streams of a program"


def test_a_program_that_spark_submit_has_not_started_is_told_so(tmp_path: Path) -> None:
    offsite("init", tmp_path / "r")
    done = offsite("doctor", "--repo", tmp_path / "r", "--spark-master", "submitted", "-o", "json")
    assert "spark-submit did not start this program" in done.stdout


def test_settings_come_too_late_for_a_spark_that_runs_already(tmp_path: Path) -> None:
    offsite("init", tmp_path / "r")
    late = ("--spark-master", "submitted", "--spark-conf", "spark.executor.memory=2g")
    done = offsite("doctor", "--repo", tmp_path / "r", *late, "-o", "json")
    assert "its settings come from spark-submit" in done.stdout
