"""Two processes that back up in turn are killed and stopped at any step: one complete generation always, one active."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from offsite.generations.decision import (
    AppendEntry,
    CompareGenerations,
    CopyGeneration,
    ReadTopic,
    RemoveGeneration,
    SealGeneration,
    Send,
    TakeBack,
)
from offsite.generations.message import TOPIC
from offsite.repository.generation_sets.entry import Instance
from offsite.repository.generation_sets.generation_set import GenerationPhase
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.integration.kafka.cluster import Cluster
from tests.processes import wait_until
from tests.worlds.generations.real_judge import RealJudge, Truth
from tests.worlds.generations.sights import ArchiveSight, BackupSight

KILLS, SOAK_KILLS = 2, 200
PATIENCE_S = 5.0
LENGTH_MS = 300
PARTITIONS = 2


class Runs:
    """The processes of one instance: the newest, and those that were stopped before it."""

    def __init__(self, command: list[str], instance: Instance) -> None:
        self.instance = instance
        self.last = ""
        self._command = command
        self._stopped: list[subprocess.Popen[str]] = []
        self.process: subprocess.Popen[str] | None = None
        self._wanted, self._found = "", threading.Event()

    def see_to_it(self) -> None:
        """That one runs."""
        if self.process is None or self.process.poll() is not None:
            need_well_ended(self.process)
            self.last = ""
            self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def wait_for(self, wanted: str, found: threading.Event) -> None:
        """Have `found` set as soon as the process says that it is about to do it."""
        self._wanted, self._found = wanted, found

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        for each in (self.process, *self._stopped):
            if each is not None and each.poll() is None:
                each.send_signal(signal.SIGCONT)

    def leave_stopped(self) -> None:
        """The next one is started beside it, as by a supervisor that takes it for dead."""
        if self.process is not None:
            self._stopped.append(self.process)
            self.process = None

    def end(self) -> None:
        for each in (self.process, *self._stopped):
            if each is not None:
                each.kill()
                each.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if process is self.process:
                self.last = line.strip()
                if self.last == self._wanted:
                    self._found.set()


def need_well_ended(process: subprocess.Popen[str] | None) -> None:
    assert process is None or process.returncode in {0, -signal.SIGKILL}, process.returncode


@contextmanager
def writing(bootstrap: str, topic: str, truth: Truth) -> Iterator[None]:
    """A producer that changes some keys all the time."""
    over, producer, chance = threading.Event(), Producer({"bootstrap.servers": bootstrap}), random.Random(7)

    def note(error: object, message: Message) -> None:
        assert error is None
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        truth.take(message.partition() or 0, message.offset() or 0, key, value)

    def write() -> None:
        number = 0
        while not over.wait(0.05):
            for _ in range(chance.randint(1, 4)):
                number += 1
                key = f"k{chance.randrange(40)}"
                producer.produce(topic, f"v{number}", key=key, partition=number % PARTITIONS, on_delivery=note)
            producer.flush(10)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("target", "kills"),
    [
        ("backup", KILLS),
        pytest.param("backup", SOAK_KILLS, marks=pytest.mark.soak),
        pytest.param("avro", SOAK_KILLS, marks=pytest.mark.soak),
    ],
)
def test_one_generation_is_complete_and_one_active_wherever_they_are_killed(
    tmp_path: Path, broker: SandboxInfo, target: str, kills: int
) -> None:
    cluster = Cluster(broker.bootstrap)
    topic = cluster.make_topic(partitions=PARTITIONS, cleanup_policy="compact")
    place, truth, chance = str(tmp_path / "repository"), Truth(), random.Random(kills)
    archives = str(tmp_path / "archives") if target == "avro" else ""
    repository = Repository.init(open_store(place))
    judge = RealJudge(repository, ArchiveSight(archives) if archives else BackupSight(repository), truth)
    command = [sys.executable, "-m", "tests.worlds.generations.process", place, broker.bootstrap, topic]
    runs = [Runs([*command, each.value, str(LENGTH_MS), archives], each) for each in Instance]
    killed_at, stops = Counter[str](), 0
    try:
        with writing(broker.bootstrap, topic, truth):
            for number in range(kills):
                for each in runs:
                    each.see_to_it()
                wait_until(lambda: all(each.last not in {"", "ready"} for each in runs), "both to be at work")
                wanted = chance.choice(STEPS)
                victim = wait_for(runs, wanted, chance)
                time.sleep(chance.choice([0, 0, chance.uniform(0, 0.04)]))
                if chance.random() < 0.25:
                    stops += 1
                    be_stopped(victim, runs, chance, judge)
                killed_at[victim.last] += 1
                victim.kill()
                judge.look(deeply=number % 5 == 0)
            for each in runs:
                each.see_to_it()
            switches = judge.state.active
            wait_until(lambda: judge.look().active >= switches + 2, "the cycle to go on")
            wait_until(lambda: judge.look().generations[switches - 1].phase is GenerationPhase.REMOVED, "the removal")
        judge.look(deeply=True)
    finally:
        for each in runs:
            each.end()
        if TOPIC in cluster.admin.topics():
            cluster.admin.delete_topics([TOPIC])
    state = judge.state
    print(  # noqa: T201  # the figures of the soak
        f"{target}: {kills} kills, {stops} stops, {len(state.generations)} generations, {state.seq} entries, "
        f"{judge.looks} looks, {judge.contents} contents; killed at {dict(killed_at)}"
    )
    assert judge.contents > kills // 20


ENTRIES = ("joined", "begun", "completed", "asked", "switched", "removing")
EFFECTS = (CopyGeneration, SealGeneration, Send, TakeBack, ReadTopic, CompareGenerations, RemoveGeneration)
STEPS = [
    *(f"{AppendEntry.__name__} {kind}" for kind in ENTRIES),
    *(effect.__name__ for effect in EFFECTS),
]
"""As the processes print their steps: by the names of the classes."""


def wait_for(runs: list[Runs], wanted: str, chance: random.Random) -> Runs:
    """The first one that is about to do it; after a while any."""
    found = threading.Event()
    for each in runs:
        each.wait_for(wanted, found)
    found.wait(chance.uniform(0.5, PATIENCE_S))
    return next((each for each in runs if each.last == wanted), chance.choice(runs))


def be_stopped(victim: Runs, runs: list[Runs], chance: random.Random, judge: RealJudge) -> None:
    """For a while; half of them find another process in their place when they wake up."""
    victim.stop()
    if chance.random() < 0.5:
        victim.leave_stopped()
        victim.see_to_it()
    deadline_s = time.monotonic() + chance.uniform(0.2, 3.0)
    while time.monotonic() < deadline_s:
        judge.look()
        time.sleep(0.05)
    for each in runs:
        each.go_on()
    time.sleep(chance.uniform(0, 0.3))


def test_the_processes_of_this_test_read_this_tree() -> None:
    """An installed copy of another version would be tested in its place."""
    import offsite

    shown = subprocess.run(
        [sys.executable, "-c", "import offsite; print(offsite.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert shown.stdout.strip() == offsite.__file__
