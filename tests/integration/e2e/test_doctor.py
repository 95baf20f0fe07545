"""`offsite doctor` against a broker, a Spark, a folder and a bucket, sound and not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from offsite.model.errors import KafkaUnavailable, NoRepository
from offsite.sandbox import SandboxInfo, SandboxSettings
from offsite.sandbox.settings import free_ports
from offsite.stores.open_store import open_store
from tests.integration.e2e.command import Finished, clean_environment, command, offsite, succeed
from tests.integration.kafka.cluster import Cluster
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store
from tests.shared_brokers import running

OWN = {"probes/create-only", "offsite.json"}


def told(done: Finished) -> dict[str, Any]:
    return {each["id"]: each for each in done.result["checks"]}


def verdicts(done: Finished) -> dict[str, str]:
    return {name: each["verdict"] for name, each in told(done).items()}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    succeed("init", place)
    return place


def test_what_is_sound_is_found_so_and_left_as_it_was(broker: SandboxInfo, repository: Path) -> None:
    owner = Cluster(broker.bootstrap)
    topic = owner.make_topic()
    owner.produce(topic, [b"a"])
    before = sorted(owner.admin.topics())
    done = offsite("doctor", "--repo", repository, "--bootstrap", broker.bootstrap, "--topics", topic, "-o", "json")
    assert done.exit_code == 0, done.stdout
    assert (done.result["ok"], done.result["exit_code"]) == (True, 0)
    found = verdicts(done)
    sometimes = {"clocks.cluster", "rights.transactions"}  # what other tests made of the broker
    odd = {name: each for name, each in found.items() if each != "ok" and name not in sometimes}
    assert odd == {"metastore": "skipped", "memory": "warning"}, "no folder of one was named; tests remember in /tmp"
    assert " s" in told(done)["spark"]["said"]
    assert len(done.stderr.splitlines()) >= len(found)
    assert sorted(owner.admin.topics()) == before
    assert {each.key for each in open_store(str(repository)).list("")} == OWN


def test_a_name_that_nobody_resolves_is_told_with_its_broker(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    properties = {"advertised.listeners": f"PLAINTEXT://broker.invalid:{port}"}
    with running(tmp_path / "kafka", SandboxSettings(properties=properties)) as (_, info):
        done = offsite("doctor", "--bootstrap", info.bootstrap, "--no-spark", "-o", "json")
    assert done.exit_code == KafkaUnavailable.exit_code
    advertised = told(done)["kafka.advertised"]
    assert advertised["verdict"] == "failed"
    assert "broker.invalid" in advertised["said"]
    assert "advertised.listeners" in advertised["cure"]


def test_the_first_failure_gives_the_exit_code(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    done = offsite("doctor", "--repo", tmp_path / "none", "--bootstrap", nowhere, "--no-spark", "-o", "json")
    assert done.exit_code == KafkaUnavailable.exit_code
    assert verdicts(done)["store.repository"] == "failed"
    alone = offsite("doctor", "--repo", tmp_path / "none", "--no-spark", "-o", "json")
    assert alone.exit_code == NoRepository.exit_code
    assert not (tmp_path / "none").exists()


def test_a_folder_that_may_not_be_written_is_told(repository: Path) -> None:
    if os.geteuid() == 0:
        shutil.rmtree(repository / "~tmp")
        (repository / "~tmp").write_bytes(b"")  # no folder: root may write everywhere else
    else:
        for each in (repository / "~tmp", repository / "probes", repository):
            each.chmod(0o500)
    done = offsite("doctor", "--repo", repository, "--no-spark", "-o", "json")
    for each in (repository, repository / "probes"):
        each.chmod(0o700)
    found = verdicts(done)
    assert done.exit_code != 0
    assert (found["store.repository"], found["store.rights"], found["store.large"]) == ("ok", "failed", "skipped")


def test_a_bucket_keeps_create_only_puts_and_nothing_of_ours() -> None:
    with moto_server() as endpoint:
        store = new_s3_store(endpoint)
        place = f"{store.url}?endpoint={endpoint}"
        environment = {**ENVIRONMENT}
        done = offsite("doctor", "--repo", place, "--no-spark", "-o", "json", environment=environment)
        found = verdicts(done)
        assert (found["store.repository"], done.exit_code) == ("failed", NoRepository.exit_code)
        checked = {name: each for name, each in found.items() if name.startswith(("store.", "clocks.s"))}
        assert {name for name, each in checked.items() if each != "ok"} == {"store.repository", "store.workers"}
        assert list(store.list("")) == []
        wrong = offsite(
            "doctor",
            "--repo",
            f"s3://no-such-bucket/x?endpoint={endpoint}",
            "--no-spark",
            "-o",
            "json",
            environment=environment,
        )
        assert wrong.exit_code != 0
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr


def test_who_is_broken_off_leaves_nothing(repository: Path, broker: SandboxInfo) -> None:
    process = subprocess.Popen(
        command("doctor", "--repo", repository, "--bootstrap", broker.bootstrap),
        env=clean_environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    next(each for each in process.stderr if "Java" in each)  # Spark is about to start
    began_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - began_s < 30
    assert {each.key for each in open_store(str(repository)).list("")} == OWN


@pytest.mark.soak
def test_workers_of_a_cluster_tell_what_they_see(broker: SandboxInfo, repository: Path, spark_master: str) -> None:
    ends = ("--repo", repository, "--bootstrap", broker.bootstrap, "--spark-master", spark_master)
    found = verdicts(offsite("doctor", *ends, "-o", "json"))
    assert {found[name] for name in ("spark", "kafka.workers", "store.workers")} == {"ok"}


@pytest.mark.soak
def test_a_spark_master_that_says_nothing_holds_up_nothing_else(repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        done = offsite("doctor", "--repo", repository, "--spark-master", master, "-o", "json")
    found = verdicts(done)
    assert (found["spark"], found["store.workers"], found["store.large"]) == ("failed", "skipped", "ok")
