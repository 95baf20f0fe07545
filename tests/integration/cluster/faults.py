"""What befalls a cluster of three while offsite works: each fault lasts as long as its `with`, and is mended after."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from kafka import KafkaAdminClient, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]

from offsite.sandbox import Sandbox, SandboxNode
from tests.integration.kafka.cluster import Cluster, wait_until

DELAY_MAX_S = 0.7  # a job on a small topic takes about one second: faults come before, at the beginning, and within
FROZEN_S = (0.5, 6.0)  # shorter and longer than the 3 s after which a broker is given up
MOVE_EVERY_S = 0.2
PREFERRED = 0
TRANSACTION_LOG = "__transaction_state"

Fault = Callable[[Sandbox, Cluster, random.Random], AbstractContextManager[None]]


@contextmanager
def broker_killed(sandbox: Sandbox, _cluster: Cluster, rng: random.Random) -> Iterator[None]:
    """One dies as by a crash, at some moment, and is started again at once or a little later."""
    with meanwhile(lambda: _die(rng.choice(sandbox.brokers), rng)):
        yield


@contextmanager
def broker_frozen(sandbox: Sandbox, _cluster: Cluster, rng: random.Random) -> Iterator[None]:
    """One stops, holding its connections, and goes on as if no time had passed."""
    with meanwhile(lambda: _freeze(rng.choice(sandbox.brokers), rng)):
        yield


@contextmanager
def leaders_moving(_sandbox: Sandbox, cluster: Cluster, rng: random.Random) -> Iterator[None]:
    """All partitions change their leader again and again, the transaction coordinators' as well."""
    with repeatedly(lambda: move_leaders(cluster, rng), every_s=MOVE_EVERY_S):
        yield


@contextmanager
def coordinators_moving(_sandbox: Sandbox, cluster: Cluster, rng: random.Random) -> Iterator[None]:
    """Only the transaction coordinators change places: in the middle of what is replayed."""
    with repeatedly(lambda: move_leaders(cluster, rng, only=TRANSACTION_LOG), every_s=MOVE_EVERY_S):
        yield


FAULTS: Mapping[str, Fault] = {
    "broker killed": broker_killed,
    "broker frozen": broker_frozen,
    "leaders moving": leaders_moving,
    "coordinators moving": coordinators_moving,
}


def move_leaders(cluster: Cluster, rng: random.Random, *, only: str = "") -> None:
    """Another order of the same replicas, and the first of them elected. What is under way already is left alone."""
    topics = cluster.admin.topics()
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        orders = {
            TopicPartition(topic.name, each.partition): rng.sample(each.replicas, len(each.replicas))
            for topic in topics.values()
            for each in topic.partitions
            if topic.name == only or not only
        }
        client.alter_partition_reassignments(orders)
        client.elect_leaders(PREFERRED, raise_errors=False)
    finally:
        client.close()


def mend(sandbox: Sandbox, cluster: Cluster) -> None:
    """All brokers run, and every replica is in sync again."""
    for broker in sandbox.brokers:
        broker.resume()
        broker.start()
    wait_until(lambda: len(cluster.admin.cluster().brokers) == len(sandbox.brokers), limit_s=60)
    wait_until(lambda: all_in_sync(cluster), limit_s=60)


def all_in_sync(cluster: Cluster) -> bool:
    partitions = itertools.chain.from_iterable(topic.partitions for topic in cluster.admin.topics().values())
    return all(len(each.in_sync) == len(each.replicas) and each.leader >= 0 for each in partitions)


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """`action` on a thread of its own; its error is the test's."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as failure:  # noqa: BLE001  # told by the test's own thread
            failures.append(failure)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


@contextmanager
def repeatedly(action: Callable[[], None], *, every_s: float) -> Iterator[None]:
    over = threading.Event()

    def act() -> None:
        while not over.wait(every_s):
            with suppress(KafkaError):  # an election that was under way, a topic that is gone by now
                action()

    with meanwhile(act):
        try:
            yield
        finally:
            over.set()


def _die(broker: SandboxNode, rng: random.Random) -> None:
    time.sleep(rng.uniform(0, DELAY_MAX_S))
    broker.kill()
    time.sleep(rng.choice((0.0, rng.uniform(0, DELAY_MAX_S))))
    broker.start()


def _freeze(broker: SandboxNode, rng: random.Random) -> None:
    time.sleep(rng.uniform(0, DELAY_MAX_S))
    broker.pause()
    time.sleep(rng.uniform(*FROZEN_S))
    broker.resume()
