"""A trial whose runner is a standalone Spark cluster of three machines, and what befalls these while it works.

Brokers are slowed by a quota of this trial's own client id, so that a small topic takes seconds: losses fall within.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

from confluent_kafka import TopicPartition as Position

from offsite.engine.runner import Runner
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.groups.report import report_groups
from offsite.groups.run import GroupsRequest, prepare_groups
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.model.cluster_settings import ClientQuota, QuotaEntity
from offsite.model.selection import GroupPatterns
from offsite.repository.repository import Repository
from offsite.sandbox import Sandbox, SandboxInfo
from offsite.stores.open_store import open_store
from tests.integration.cluster.faults import meanwhile
from tests.integration.cluster.trial import PARTITIONS, Produced, Trial
from tests.integration.e2e.group_site import commit
from tests.integration.kafka.cluster import Cluster
from tests.processes import wait_until
from tests.shared_spark import end_shared_spark
from tests.worker_cluster import QUICKLY_NOTICED, Machine, Part, WorkerCluster

T = TypeVar("T")
CLIENT_ID = "offsite-on-a-cluster"
SLOW_S = 8.0
_BURST_S = 10.0
"""What comes at once is let through: brokers reckon the rate over so many seconds."""
_UNLIMITED = 1e12
DELAY_S = (0.1, 1.5)
ASLEEP_S = (0.5, 9.0)
"""Shorter and longer than the 6 s after which a silent executor is given up."""
LOSSES_MAX = 3
"""In one run: of four attempts at a task one is left, so the run has to end well."""


@contextmanager
def cluster_runner(url: str, more: Mapping[str, str] | None = None) -> Iterator[SparkRunner]:
    end_shared_spark()
    runner = SparkRunner(SparkChoice(master=url, conf={**QUICKLY_NOTICED, **(more or {})}))
    runner.begin()
    try:
        yield runner
    finally:
        runner.close()


def cluster_trial(broker: SandboxInfo, folder: Path, runner: Runner) -> Trial:
    config = KafkaConfig(bootstrap=parse_bootstrap(broker.bootstrap), client_id=CLIENT_ID)
    repository = Repository.init(open_store(str(folder / "repository")))
    return Trial(
        sandbox=Sandbox(folder / "none"),  # its brokers are left alone
        cluster=Cluster(broker.bootstrap, config),
        repository=repository,
        runner=runner,
        folder=folder,
    )


@contextmanager
def slow_source(trial: Trial, made: Produced, *, slow_s: float = SLOW_S) -> Iterator[None]:
    """Backups and exports of what was made take so long, or longer."""
    with _limited(trial, consumer_byte_rate=_slow_rate(made, slow_s)):
        yield


@contextmanager
def slow_target(trial: Trial, made: Produced, *, slow_s: float = SLOW_S) -> Iterator[None]:
    """Restores of what was made take so long, or longer."""
    with _limited(trial, producer_byte_rate=_slow_rate(made, slow_s)):
        yield


def _slow_rate(made: Produced, slow_s: float) -> float:
    size_bytes = sum(len(key or b"") + len(value or b"") for rows in made.committed.values() for key, value, _ in rows)
    return float(round(size_bytes / (_BURST_S + slow_s)))  # brokers want whole numbers


@contextmanager
def _limited(trial: Trial, **limits: float) -> Iterator[None]:
    _limit(trial, limits)
    try:
        yield
    finally:
        _limit(trial, dict.fromkeys(limits, _UNLIMITED))


def _limit(trial: Trial, limits: Mapping[str, float]) -> None:
    entity = QuotaEntity(parts=(("client-id", CLIENT_ID),))
    quota = ClientQuota(entity=entity, limits=tuple(limits.items()))
    assert not any(trial.cluster.admin.settings.set_client_quotas([quota]))


@dataclass(slots=True, kw_only=True)
class Losses:
    """What is done to `workers`, by chance. `tally` counts what fell into a run."""

    workers: WorkerCluster
    rng: random.Random
    tally: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return sum(count for what, count in self.tally.items() if what.endswith("_killed"))

    @contextmanager
    def during(self, run: str) -> Iterator[None]:
        """Two or three losses while the block runs, and all machines whole after it."""
        over, count = threading.Event(), self.rng.randint(2, LOSSES_MAX)

        def lose() -> None:
            for _ in range(count):
                if over.wait(self.rng.uniform(*DELAY_S)):
                    return
                self.lose_one(run, over)

        try:
            with meanwhile(lose):
                try:
                    yield
                finally:
                    over.set()
        finally:
            self.workers.mend()

    def lose_one(self, run: str, over: threading.Event) -> None:
        kinds: tuple[Callable[[Machine, threading.Event], int], ...] = (
            self.executor_killed,
            self.jvm_killed,
            self.python_killed,
            self.machine_killed,
            self.machine_stopped,
        )
        kind, machine = self.rng.choice(kinds), self.rng.choice(self.workers.workers)
        if kind(machine, over):
            self.tally[f"{run}: {kind.__name__}"] += 1

    def executor_killed(self, machine: Machine, _over: threading.Event) -> int:
        return machine.kill_executors()

    def jvm_killed(self, machine: Machine, _over: threading.Event) -> int:
        """Its Python workers find out by themselves."""
        return machine.kill_executors(Part.EXECUTOR)

    def python_killed(self, machine: Machine, _over: threading.Event) -> int:
        return machine.kill_executors(Part.PYTHON)

    def machine_killed(self, machine: Machine, over: threading.Event) -> int:
        lost = len(machine.processes(Part.EXECUTOR))
        machine.kill()
        over.wait(self.rng.uniform(0, DELAY_S[1]))
        machine.start()
        return lost

    def machine_stopped(self, machine: Machine, over: threading.Event) -> int:
        """For a while, or until the run is over: what it was writing it goes on writing then."""
        lost = len(machine.processes(Part.EXECUTOR))
        machine.stop()
        over.wait(self.rng.uniform(*ASLEEP_S))
        machine.wake()
        return lost


def group_of(made: Produced) -> str:
    return f"group-of-{made.topic}"


def write_group(trial: Trial, made: Produced, rng: random.Random) -> dict[int, int]:
    """A group that has read a part of each partition: how many records a consumer sees before its position."""
    seen = trial.offsets(made.topic)
    counts = {partition: rng.randrange(len(offsets)) for partition, offsets in seen.items()}
    positions = [Position(made.topic, partition, seen[partition][count]) for partition, count in counts.items()]
    commit(trial.cluster, group_of(made), *positions)
    return counts


def assert_group(trial: Trial, made: Produced, counts: Mapping[int, int], target: str, restore: str) -> None:
    """The offset maps of `restore` lead the group of `write_group` to the same record."""
    group = group_of(made)
    request = GroupsRequest(groups=GroupPatterns(include=(group,)), restore=restore)
    planned = prepare_groups(trial.repository.backup(f"of-{made.topic}"), trial.cluster.admin, request)
    (found,) = report_groups(planned).groups
    offsets = trial.offsets(target)
    assert {each.partition: each.new for each in found.offsets} == {
        partition: offsets[partition][count] for partition, count in counts.items()
    }


def wait_for_data(trial: Trial, topic: str) -> None:
    """Until a restore has written something to each partition."""

    def has_some() -> bool:
        with suppress(Exception):  # the topic may not be there yet
            return all(trial.cluster.end(topic, number) > 0 for number in range(PARTITIONS))
        return False

    wait_until(has_some, f"data in {topic}")


def settled(trial: Trial, topic: str, *, for_s: float) -> list[int]:
    """The ends of a topic's partitions, once nothing has come for so long."""
    ends, since_s = _ends(trial, topic), time.monotonic()
    while time.monotonic() - since_s < for_s:
        time.sleep(0.1)
        if (now := _ends(trial, topic)) != ends:
            ends, since_s = now, time.monotonic()
    return ends


def _ends(trial: Trial, topic: str) -> list[int]:
    return [trial.cluster.end(topic, number) for number in range(PARTITIONS)]


class Running(Generic[T]):
    """A call in a thread of its own, while the block does something to it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> T:
        """Waits for it, and raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def _run(self) -> None:
        try:
            self._outcome.append(self._function())
        except BaseException as error:  # noqa: BLE001  # raised by `result`
            self._error = error


def attempts_at(trial: Trial, target: str, partition: int) -> list[str]:
    """Process ids of those that have begun to write a partition, in order."""
    found = sorted(trial.folder.glob(f"repository/backups/*/restores/*/attempts/{target}/{partition}/*.json"))
    return [json.loads(path.read_bytes())["by"].rpartition(":")[2] for path in found]


def writer_of(trial: Trial, workers: WorkerCluster, target: str, partition: int) -> Machine:
    """The machine whose worker writes it now."""
    pid = int(attempts_at(trial, target, partition)[-1])
    return next(machine for machine in workers.workers if pid in machine.processes())
