"""The broker that everything is measured against, on the same cores, and its topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import wait_until_idle
from bench.scale import PARTITIONS
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.metadata import NewTopic
from offsite.log.range import TopicPartition
from offsite.sandbox import Sandbox, SandboxSettings

BROKER = SandboxSettings(
    long_run=True,
    heap_mib=1024,
    properties={"log.segment.delete.delay.ms": "0"},  # deleted topics give their disk and page cache back at once
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    kafka: KafkaConfig
    admin: ClusterAdmin
    bootstrap: str
    broker_pid: int

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])

    def delete(self, topics: Sequence[str]) -> None:
        self.admin.delete_topics(topics)

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        partitions = [TopicPartition(topic=topic, partition=number) for number in range(PARTITIONS)]
        return dict(self.admin.end_offsets(partitions))

    def rest(self) -> None:
        """Wait until the broker has done all it had to do."""
        wait_until_idle(self.broker_pid)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    sandbox = Sandbox(folder)
    try:
        info = sandbox.start(settings=BROKER, owned=True)
        kafka = KafkaConfig(bootstrap=parse_bootstrap(info.bootstrap))
        admin = ClusterAdmin(shared_router(kafka))
        yield Cluster(kafka=kafka, admin=admin, bootstrap=info.bootstrap, broker_pid=info.pid)
    finally:
        sandbox.stop()
