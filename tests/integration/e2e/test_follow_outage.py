"""All brokers or the store gone while a backup follows: it says so, makes no commit, and goes on by itself."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from offsite.sandbox import SandboxInfo, SandboxNode
from tests.conftest import StartSandbox
from tests.integration.e2e.command import start, succeed
from tests.integration.kafka.cluster import Cluster, numbered
from tests.integration.kafka.cluster import wait_until as wait_long
from tests.integration.repository.test_s3_failures import LossyProxy
from tests.processes import processes_with, wait_until
from tests.s3_servers import ENVIRONMENT, moto_server

MARK = "OFFSITE_FOLLOW_OUTAGE_TEST"
LONG_S = float(os.environ.get("OFFSITE_OUTAGE_S", "120"))
"""Seconds for which they stay away after it was noticed, in a long outage."""

TOLD_WITHIN_S = 30.0
"""Five seconds of waiting are told, and a round of fifteen is none that is up to date."""
SILENCE_S = 240.0
"""A broker that is frozen may as well be slow: it is given two minutes."""
BACK_WITHIN_S = 90.0
"""The longest pause between two attempts, and a round."""


def freeze(broker: SandboxNode) -> Callable[[], None]:
    broker.pause()
    return broker.resume


def kill(broker: SandboxNode) -> Callable[[], None]:
    broker.kill()
    return broker.start


def heard(stream: IO[str] | None) -> list[str]:
    """Lines, as they come."""
    lines: list[str] = []
    assert stream is not None
    threading.Thread(target=lines.extend, args=(stream,), daemon=True).start()
    return lines


def ready(lines: list[str]) -> tuple[int, str]:
    """What `/readyz` answers, at the port that a line of stderr tells."""
    address = next(line.split()[-1] for line in lines if line.startswith("metrics on "))
    try:
        with urllib.request.urlopen(address.replace("/metrics", "/readyz"), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@dataclass(kw_only=True)
class Outage:
    """A backup that follows a topic, and what is taken away from it and brought back."""

    cluster: Cluster
    topic: str
    names: list[object]
    environment: Mapping[str, str]
    mark: str

    def last(self, take_away: Callable[[], Callable[[], None]], outage_s: float) -> None:
        """The whole outage. `take_away` returns what brings it back. What is waited for is told within seconds, and not
        only when requests have failed; afterwards the backup is exact."""
        ends = ["--bootstrap", self.cluster.bootstrap, "--topics", self.topic, "--interval", "300ms"]
        options = [*ends, "--metrics-port", "0", "-o", "jsonl"]
        self.cluster.produce(self.topic, numbered(100))
        marked = {**self.environment, MARK: self.mark}
        running = start("backup", "run", "--follow", *self.names, *options, environment=marked)
        try:
            told, commits = heard(running.stderr), heard(running.stdout)
            wait_until(lambda: any(line.startswith("metrics on ") for line in told), "the port")
            wait_until(lambda: ready(told)[0] == 200, "the first commit")
            before = len(commits)
            bring_back = take_away()
            wait_long(lambda: any(line.startswith("waiting, ") for line in told), limit_s=TOLD_WITHIN_S)
            wait_long(lambda: ready(told)[0] == 503, limit_s=TOLD_WITHIN_S)
            self.wait_for_an_error(told)
            time.sleep(outage_s)
            assert (running.poll(), ready(told)[0]) == (None, 503)
            assert len(commits) == before
            bring_back()
            wait_long(lambda: len(commits) > before, limit_s=BACK_WITHIN_S)
            wait_until(lambda: any("working again" in line for line in told), "word of its end")
            wait_until(lambda: ready(told)[0] == 200, "a round that has all")
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        finally:
            running.kill()
        wait_until(lambda: not processes_with(MARK, self.mark), "every process to end")
        against = ["--against", self.cluster.bootstrap]
        assert succeed("verify", *self.names, *against, environment=self.environment)["against"]["records"] == 150

    def wait_for_an_error(self, told: list[str]) -> None:
        wait_long(lambda: any("waiting, and trying again: [OFF-" in line for line in told), limit_s=SILENCE_S)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("take_away", "outage_s"), [(kill, 1), (freeze, 1), (kill, LONG_S)])
def test_brokers_that_are_all_gone_are_waited_for(
    start_sandbox: StartSandbox,
    tmp_path: Path,
    take_away: Callable[[SandboxNode], Callable[[], None]],
    outage_s: float,
) -> None:
    sandbox, info = start_sandbox()
    cluster = Cluster(info.bootstrap)
    topic = cluster.make_topic()
    succeed("init", tmp_path / "repo")
    names: list[object] = ["--repo", tmp_path / "repo", "--backup", "b"]

    def begin() -> Callable[[], None]:
        bring_back = take_away(sandbox.brokers[0])

        def end() -> None:
            bring_back()
            cluster.produce(topic, numbered(50))

        return end

    Outage(cluster=cluster, topic=topic, names=names, environment={}, mark=str(tmp_path)).last(begin, outage_s)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_store_that_is_gone_for_minutes_is_waited_for(broker: SandboxInfo, tmp_path: Path) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic()
    with moto_server() as upstream, serving(LossyProxy(upstream)) as proxy:
        bucket = f"e2e-{uuid.uuid4().hex[:12]}"
        urllib.request.urlopen(urllib.request.Request(f"{upstream}/{bucket}", method="PUT"), timeout=30).close()
        names: list[object] = ["--repo", f"s3://{bucket}/p?endpoint={proxy.endpoint}", "--backup", "b"]
        succeed("init", names[1], environment=ENVIRONMENT)

        def begin() -> Callable[[], None]:
            proxy.dead = True
            cluster.produce(topic, numbered(50))
            return lambda: setattr(proxy, "dead", False)

        outage = Outage(cluster=cluster, topic=topic, names=names, environment=ENVIRONMENT, mark=str(tmp_path))
        outage.last(begin, LONG_S)


@contextmanager
def serving(proxy: LossyProxy) -> Iterator[LossyProxy]:
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
