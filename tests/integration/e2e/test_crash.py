"""kill -9 at any moment, then the same command again: nothing lost, nothing twice, nothing to clean up by hand."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage, compare_readings, read_topic
from offsite.model.errors import CommitLost
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from offsite.upkeep.verification.run import verify_deep
from tests.inline_runner import InlineRunner
from tests.integration.e2e.command import offsite, start, succeed
from tests.integration.e2e.site import back_up_here, new_name, produce_to, values
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_CRASH_TEST"
RUN_S = 8.0  # about what a whole run takes: kills fall everywhere in it
ROUNDS, SOAK_ROUNDS = 1, 100
RESTORE_ROUNDS, RESTORE_SOAK_ROUNDS = 1, 40

rounds = pytest.mark.parametrize("count", [ROUNDS, pytest.param(SOAK_ROUNDS, marks=pytest.mark.soak)])
restore_rounds = pytest.mark.parametrize(
    "count", [RESTORE_ROUNDS, pytest.param(RESTORE_SOAK_ROUNDS, marks=pytest.mark.soak)]
)
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("OFFSITE_SEED", time.time_ns() % 1_000_000))
    print(f"OFFSITE_SEED={seed}")  # noqa: T201  # shown with a failure, and taken back from the environment
    return random.Random(seed)


@rounds
def test_a_backup_killed_again_and_again_loses_and_doubles_nothing(
    broker: SandboxInfo, tmp_path: Path, chance: random.Random, count: int
) -> None:
    cluster, repository, mark = Cluster(broker.bootstrap), tmp_path / "repository", {MARK: str(tmp_path)}
    topic = cluster.make_topic(partitions=3)
    produce_to(broker.bootstrap, topic, numbered(0, 3000))
    succeed("init", repository)
    ends = ["--repo", repository, "--bootstrap", broker.bootstrap, "--backup", "b"]
    with writing(broker.bootstrap, topic):
        for _ in range(count):
            kill_in_the_middle(chance, "backup", "run", *ends, "--topics", topic, environment=mark)
    assert succeed("backup", "run", *ends, "--topics", topic, environment=mark)["holes"] == []
    assert_comes_back(cluster, repository, topic)
    assert_no_process_left(tmp_path)


@pytest.mark.parametrize("offsets", ["preserve", pytest.param("translate", marks=pytest.mark.soak)])
@restore_rounds
def test_a_restore_killed_again_and_again_goes_on_and_doubles_nothing(
    broker: SandboxInfo, tmp_path: Path, chance: random.Random, count: int, offsets: str
) -> None:
    cluster, repository, mark = Cluster(broker.bootstrap), tmp_path / "repository", {MARK: str(tmp_path)}
    topic = cluster.make_topic(partitions=3)
    for part in range(20):
        produce_to(broker.bootstrap, topic, numbered(part * 3000, part * 3000 + 3000, size_bytes=1000))
    succeed("init", repository)
    ends = ["--repo", repository, "--bootstrap", broker.bootstrap, "--backup", "b"]
    back_up_here(broker.bootstrap, repository, "b", topic)
    target = new_name(topic)
    command = ["restore", "run", *ends, "--rename", f"{topic}={target}", "--offsets", offsets, "--yes"]
    finished = any(
        kill_in_the_middle(chance, *command, environment=mark) or has_report(repository) for _ in range(count)
    )
    if not finished:
        succeed(*command, environment=mark)
    assert_same(broker.bootstrap, topic, target)
    assert_no_process_left(tmp_path)


def test_two_runs_at_once_lose_and_double_nothing(broker: SandboxInfo, tmp_path: Path) -> None:
    cluster, repository = Cluster(broker.bootstrap), tmp_path / "repository"
    topic = cluster.make_topic(partitions=2)
    produce_to(broker.bootstrap, topic, numbered(0, 2000, partitions=2))
    succeed("init", repository)
    ends = ["--repo", repository, "--bootstrap", broker.bootstrap, "--backup", "b"]
    runs = [start("backup", "run", *ends, "--topics", topic) for _ in range(2)]
    ended = [(run.communicate(timeout=120), run.returncode) for run in runs]
    codes = [code for _, code in ended]
    assert 0 in codes, ended
    assert set(codes) <= {0, CommitLost.exit_code}, ended
    assert succeed("verify", "--repo", repository, "--backup", "b")["records"] == 2000
    assert succeed("backup", "run", *ends)["records"] == 0
    assert_comes_back(cluster, repository, topic)


def kill_in_the_middle(chance: random.Random, *arguments: object, environment: dict[str, str]) -> bool:
    """Whether the command was done before it was killed."""
    run = start(*arguments, environment=environment)
    try:
        run.communicate(timeout=chance.uniform(0, RUN_S))
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    assert run.returncode in {0, -signal.SIGKILL}, arguments
    return run.returncode == 0


def has_report(repository: Path) -> bool:
    """Whether the restore was killed when all was done: the same command would find its target filled."""
    return any(repository.glob("backups/*/restores/*/report.json"))


@contextmanager
def writing(bootstrap: str, topic: str) -> Iterator[None]:
    """A producer that goes on all the time."""
    done = threading.Event()

    def write() -> None:
        first = 1_000_000
        while not done.wait(0.05):
            produce_to(bootstrap, topic, numbered(first, first + 30))
            first += 30

    writer = threading.Thread(target=write, name="writer")
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def numbered(start: int, end: int, *, partitions: int = 3, size_bytes: int = 100) -> Iterator[DemoMessage]:
    for n in range(start, end):
        value = (b"%09d " % n * (size_bytes // 10 + 1))[:size_bytes]
        yield DemoMessage(key=b"%d" % n, value=value, timestamp_ms=BASE_MS + n, partition=n % partitions)


def assert_comes_back(cluster: Cluster, repository: Path, topic: str) -> None:
    """Every byte is what the commits say, and a restore brings the topic's records, each once."""
    backup, target = Repository.open(open_store(str(repository))).backup("b"), new_name(topic)
    assert verify_deep(backup, InlineRunner()).ok
    request = RestoreRequest(selection=parse_selection([topic]), renames=parse_renames([f"{topic}={target}"]))
    prepared = prepare_restore(backup, cluster.admin, request)
    assert run_restore(prepared, cluster=cluster, runner=InlineRunner()).verified
    assert_same(cluster.bootstrap, topic, target)


def assert_same(bootstrap: str, topic: str, target: str) -> None:
    source, restored = read_topic(bootstrap, topic), read_topic(bootstrap, target)
    for partition in restored:
        assert len(set(values(restored, partition))) == len(restored[partition])
    comparison = compare_readings(topic, source, restored)
    assert comparison.identical, comparison.difference[:1000]


def assert_no_process_left(mark: Path) -> None:
    wait_until(lambda: not processes_with(MARK, str(mark)), "the processes of killed commands to end")


@pytest.mark.soak
def test_a_full_store_keeps_what_it_has_and_goes_on_when_there_is_room(broker: SandboxInfo, tmp_path: Path) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic(partitions=2)
    produce_to(broker.bootstrap, topic, numbered(0, 1000, partitions=2))
    with small_disk(tmp_path / "disk", size_mib=6) as disk:
        repository, ballast = disk / "repository", disk / "ballast"
        succeed("init", repository)
        ends = ["--repo", repository, "--bootstrap", broker.bootstrap, "--backup", "b", "--topics", topic]
        succeed("backup", "run", *ends, "--compression", "none")
        ballast.write_bytes(b"x" * (4 * 1024 * 1024))
        produce_to(broker.bootstrap, topic, numbered(1000, 5000, partitions=2, size_bytes=1000))
        refused = offsite("backup", "run", *ends, "--compression", "none")
        assert (refused.exit_code, refused.error["id"]) == (16, "OFF-1602"), refused.stderr
        assert refused.error["hint"]
        checked = succeed("verify", "--repo", repository, "--backup", "b", "--deep")
        assert (checked["ok"], checked["records"], checked["commits"]) == (True, 1000, 1)
        ballast.unlink()
        assert succeed("backup", "run", *ends, "--compression", "zstd")["records"] == 4000
        target = new_name(topic)
        succeed("restore", "run", *ends, "--rename", f"{topic}={target}", "--yes")
    assert_same(broker.bootstrap, topic, target)


@contextmanager
def small_disk(folder: Path, *, size_mib: int) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
