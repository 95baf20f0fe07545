"""A stream processor of the example at work: its nodes, its traffic, and a judge that looks at nothing but states."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from examples.stream_processor.coordinator import Coordinator
from examples.stream_processor.engine import DEPLOYMENTS_ON, partition_of
from examples.stream_processor.network import Network
from examples.stream_processor.node import Node
from examples.stream_processor.place import Place, create
from examples.stream_processor.records import Message
from examples.stream_processor.restore import restore
from examples.stream_processor.state import State
from examples.stream_processor.view import is_quiet, read_all
from offsite_participant.bcs_copies import BackupStatus

PARTITIONS = 3
KEYS = tuple(f"key-{number}" for number in range(12))
PATIENCE_S = 60.0
LATER = 1_000_000
"""The first number in names of what is done after a restore: none was given before."""
ROOT = Path(__file__).parents[3]
_numbers = itertools.count(1)


def new_place(bootstrap: str, folder: Path, *, replicas: int = 1, name: str = "engine") -> Place:
    place = Place(
        name=f"{name}-{os.getpid()}-{next(_numbers)}",
        bootstrap=bootstrap,
        folder=folder / "snapshots",
        store_url=str(folder / "store"),
    )
    create(place, PARTITIONS, replicas=replicas)
    return place


@contextmanager
def node_in_process(place: Place, *, stamps: bool = True) -> Iterator[None]:
    """Stopped in good order at the end."""
    stop, node = threading.Event(), Node(place, stamps=stamps)
    thread = threading.Thread(target=node.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


class NodeProcess:
    """A node that can be killed."""

    def __init__(self, place: Place) -> None:
        options = ["--name", place.name, "--bootstrap", place.bootstrap, "--folder", str(place.folder)]
        command = [sys.executable, "-m", "examples.stream_processor", *options, "--store", place.store_url, "node"]
        self._log, self._is_ended = place.folder.parent / f"node-{next(_numbers)}.log", False
        with self._log.open("wb") as log:
            path = os.pathsep.join([str(ROOT), str(ROOT / "src"), str(ROOT / "participant" / "src")])
            self._process = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log, cwd=ROOT
            )

    def kill(self) -> None:
        self._is_ended = True
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._is_ended = True
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self.kill()

    def has_died(self) -> str:
        """What it said, if it ended by itself; a node never does."""
        if self._process.poll() is None or self._is_ended:
            return ""
        return self._log.read_text() or "it said nothing"


class Traffic:
    """What clients do: deployments, instances, messages. What is lost on the way is not sent again."""

    def __init__(self, place: Place, rng: random.Random, *, first: int = 1) -> None:
        self._network, self._rng, self._names = Network(place), rng, itertools.count(first)

    def deploy(self) -> None:
        self._send(DEPLOYMENTS_ON, "deployment:create", deployment=f"process-{next(self._names)}")

    def begin_instance(self, *, home: int, key: str) -> None:
        self._send(home, "instance:create", instance=f"instance-{next(self._names)}", key=key)

    def publish(self, key: str) -> None:
        self._send(partition_of(key, PARTITIONS), "message:publish", message=f"message-{next(self._names)}", key=key)

    def some(self) -> None:
        if self._rng.random() < 0.1:
            self.deploy()
        self.begin_instance(home=self._rng.randint(1, PARTITIONS), key=self._rng.choice(KEYS))
        self.publish(self._rng.choice(KEYS))

    def flush(self) -> None:
        self._network.flush()

    def _send(self, to: int, kind: str, **body: str) -> None:
        self._network.send(Message(to=to, kind=kind, body=body))


@contextmanager
def traffic(place: Place, rng: random.Random, *, every_s: float = 0.02) -> Iterator[None]:
    stop, clients = threading.Event(), Traffic(place, rng)

    def run() -> None:
        while not stop.wait(every_s):
            clients.some()
        clients.flush()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S} s for: {what}"
        time.sleep(0.05)


def states_at_rest(place: Place) -> dict[int, State]:
    """Once nothing is left to do in any partition."""
    found: dict[int, State] = {}

    def are_quiet() -> bool:
        with suppress(KafkaException, OSError):  # a snapshot replaced the one that we were about to read
            replicas = read_all(place)
            found.update({number: each.state for number, each in replicas.items()})
            return all(map(is_quiet, replicas.values()))
        return False

    wait_until(are_quiet, f"{place.name} to come to rest")
    return found


def restored(source: Place, checkpoint: int, *, stamps: bool = True, replicas: int = 1) -> dict[int, State]:
    """The states to which another processor comes that begins with `checkpoint`, and gets one deployment more. It is
    removed again."""
    target = replace(source, name=f"{source.name}-at-{checkpoint}-{next(_numbers)}")
    restore(source, checkpoint, target, replicas=replicas)
    with node_in_process(target, stamps=stamps):
        states_at_rest(target)
        clients = Traffic(target, random.Random(0), first=LATER)
        clients.deploy()
        clients.flush()
        wait_until(lambda: f"process-{LATER}" in _deployments(target, DEPLOYMENTS_ON).values(), "a new deployment")
        found = states_at_rest(target)
        assert_took_no_backup(target, checkpoint)
    AdminClient({"bootstrap.servers": target.bootstrap}).delete_topics([target.log_topic, target.inbox_topic])
    return found


def assert_took_no_backup(target: Place, checkpoint: int) -> None:
    assert not list(target.store().list(f"{target.prefix}copies/"))
    assert Coordinator(target).status(checkpoint) is BackupStatus.COMPLETED


def _deployments(place: Place, partition: int) -> Mapping[str, str]:
    with suppress(KafkaException, OSError):
        return read_all(place)[partition].state.deployments
    return {}


def violations(states: Mapping[int, State]) -> list[str]:
    """Of the seed's three properties, in states at rest."""
    return [*_deployed_otherwise(states), *_not_correlated(states), *_correlated_twice(states)]


def _deployed_otherwise(states: Mapping[int, State]) -> Iterator[str]:
    first = states[DEPLOYMENTS_ON].deployments
    for number, state in states.items():
        if state.deployments != first:
            yield f"partition {number} has {len(state.deployments)} versions, partition 1 {len(first)}, or others"


def _not_correlated(states: Mapping[int, State]) -> Iterator[str]:
    """Of a key, as many instances have their message as there are instances and messages for it."""
    instances = [each for state in states.values() for each in state.instances.values()]
    published = {name: key for state in states.values() for name, key in state.published.items()}
    for key in sorted({each.key for each in instances} | set(published.values())):
        waiting, messages = [each for each in instances if each.key == key], list(published.values()).count(key)
        found = sum(bool(each.messages) for each in waiting)
        if found != min(len(waiting), messages):
            yield f"{key}: {len(waiting)} instances and {messages} messages, and {found} found each other"
    for each in instances:
        if any(published.get(name) != each.key for name in each.messages):
            yield f"an instance of {each.key} has {each.messages}, which nobody published for it"


def _correlated_twice(states: Mapping[int, State]) -> Iterator[str]:
    instances = [each for state in states.values() for each in state.instances.values()]
    if any(len(each.messages) > 1 for each in instances):
        yield "an instance has more than one message"
    for name, count in Counter(name for each in instances for name in each.messages).items():
        if count > 1:
            yield f"{name} was correlated {count} times"
