"""`offsite backup run --follow` beside producers: stopped in order, killed at any moment, and exact at the end."""

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

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.protocol.metadata import NewTopic
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

MARK = "OFFSITE_FOLLOW_TEST"
KILLS = 40
BATCH = 500


@contextmanager
def producing(bootstrap: str, topics: list[str]) -> Iterator[None]:
    """Records go into the topics until the block ends."""
    ended = threading.Event()

    def produce() -> None:
        numbers = iter(range(1 << 40))
        while not ended.wait(0.05):
            for topic in topics:
                messages = (DemoMessage(key=b"%d" % n, value=b"v" * 100, timestamp_ms=BASE_MS + n) for n in numbers)
                produce_to(bootstrap, topic, [next(messages) for _ in range(BATCH)])

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


@pytest.fixture
def names(broker: SandboxInfo, tmp_path: Path) -> list[str]:
    repo = str(tmp_path / "repo")
    succeed("init", repo)
    return ["--repo", repo, "--backup", "b"]


def follow(names: list[str], bootstrap: str, pattern: str, mark: str) -> subprocess.Popen[str]:
    ends = [
        *names,
        "--bootstrap",
        bootstrap,
        "--topics",
        pattern,
        "--interval",
        "300ms",
        "--collect-after",
        "0s",
        "-o",
        "jsonl",
    ]
    return start("backup", "run", "--follow", *ends, environment={MARK: mark})


def make(cluster: Cluster, count: int) -> tuple[str, list[str]]:
    prefix = new_name("follow")
    topics = [f"{prefix}-{number}" for number in range(count)]
    for topic in topics:
        cluster.admin.create_topics([NewTopic(name=topic, partitions=2)])
    return f"{prefix}-*", topics


def head_commit(names: list[str]) -> int:
    folder = Path(names[1]) / "backups" / "b" / "commits"
    return len(list(folder.glob("*.json"))) if folder.exists() else 0


def test_it_follows_until_it_is_told_to_stop_and_new_topics_join(
    broker: SandboxInfo, names: list[str], tmp_path: Path
) -> None:
    cluster = Cluster(broker.bootstrap)
    pattern, topics = make(cluster, 2)
    with producing(broker.bootstrap, topics):
        running = follow(names, broker.bootstrap, pattern, str(tmp_path))
        wait_until(lambda: head_commit(names) >= 3, "three commits")
        late = f"{pattern[:-1]}late"
        cluster.admin.create_topics([NewTopic(name=late, partitions=2)])
        produce_to(broker.bootstrap, late, [DemoMessage(key=b"k", value=b"late", timestamp_ms=BASE_MS)])
        before = head_commit(names)
        wait_until(lambda: head_commit(names) >= before + 3, "three more")
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    wait_until(lambda: not processes_with(MARK, str(tmp_path)), "every process to end")
    assert len(out.splitlines()) >= 5, "one for each commit; the signal may come between the last and its line"
    succeed("backup", "run", *names, "--bootstrap", broker.bootstrap)
    same = succeed("verify", *names, "--against", broker.bootstrap, "--deep")
    assert (same["ok"], same["against"]["verified"], len(same["against"]["topics"])) == (True, True, 3)


@pytest.mark.timeout(3600)
@pytest.mark.soak  # `make test` has `cluster.test_follow_soak`, which kills as well
def test_killed_again_and_again_it_loses_and_doubles_nothing(
    broker: SandboxInfo, names: list[str], tmp_path: Path
) -> None:
    chance = random.Random(int(os.environ.get("OFFSITE_SEED", "1")))
    pattern, topics = make(Cluster(broker.bootstrap), 2)
    with producing(broker.bootstrap, topics):
        for _ in range(KILLS):
            before = head_commit(names)
            running = follow(names, broker.bootstrap, pattern, str(tmp_path))
            wait_until(lambda before=before: head_commit(names) > before, "a commit")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 2))  # kills fall anywhere in a round
            running.kill()
            running.communicate()
            wait_until(lambda: not processes_with(MARK, str(tmp_path)), "every process to end")
    succeed("backup", "run", *names, "--bootstrap", broker.bootstrap)
    same = succeed("verify", *names, "--against", broker.bootstrap, "--deep")
    assert (same["ok"], same["against"]["verified"]) == (True, True)
