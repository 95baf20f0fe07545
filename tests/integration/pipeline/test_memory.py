"""How large workers and the driver get over a partition of 2 GB, whatever it is made of."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.engine.runner import RunProgress
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.writer import PartitionWriter
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.model.units import KIB, MIB
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxSettings
from offsite.stores.open_store import open_store
from tests.conftest import StartSandbox
from tests.shared_spark import end_shared_spark

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PARTITION_BYTES = 2_000_000_000
BATCH_BYTES = 16 * KIB
"""As Kafka's producer fills them by default: the smaller the batches, the more headers a worker holds at once."""

WORKER_LIMIT_BYTES = 300 * MIB
DRIVER_GROWTH_LIMIT_BYTES = 24 * MIB
"""For ten times the records: what allocators and caches wobble, and far less than a list of anything per record."""


@dataclass(slots=True)
class Site:
    """A broker, a repository and a warm Spark; `peak_bytes` is that of the largest worker so far."""

    config: KafkaConfig
    admin: ClusterAdmin
    repository: Repository
    runner: SparkRunner
    peak_bytes: int = field(default=0)

    def write(self, topic: str, value_bytes: int) -> int:
        """Fill one partition with values of that size; how many records that took."""
        self.admin.create_topics([NewTopic(name=topic, partitions=1)])
        router, partition = shared_router(self.config), TopicPartition(topic=topic, partition=0)
        per_batch = BATCH_BYTES // value_bytes
        batches = PARTITION_BYTES // (per_batch * value_bytes)
        batch = encode([Record(n, 0, 0, None, bytes(value_bytes)) for n in range(per_batch)], codec=0)
        with PartitionWriter(router, partition, on_ack=lambda _index, _offset: None) as writer:
            for _ in range(batches):
                writer.send(bytearray(batch))
            writer.flush()
        return batches * per_batch

    def back_up(self, topic: str) -> int:
        request = BackupRequest(backup=topic, selection=parse_selection([topic]))
        plan = plan_backup(self.repository, self.admin, request, slots=2)
        result = run_backup(
            plan, repository=self.repository, kafka=self.config, runner=self.runner, on_progress=self._on_progress
        )
        return result.records

    def restore(self, topic: str) -> int:
        request = RestoreRequest(selection=parse_selection([topic]), renames=parse_renames([f"{topic}={topic}-back"]))
        prepared = prepare_restore(self.repository.backup(topic), self.admin, request)
        result = run_restore(
            prepared,
            cluster=Cluster(config=self.config, admin=self.admin),
            runner=self.runner,
            on_progress=self._on_progress,
        )
        return result.records

    def _on_progress(self, now: RunProgress) -> None:
        self.peak_bytes = max(self.peak_bytes, now.worker_peak_rss_bytes)


@pytest.fixture
def site(start_sandbox: StartSandbox, tmp_path: Path) -> Iterator[Site]:
    _, info = start_sandbox(settings=SandboxSettings(heap_mib=1024, long_run=True))
    config = KafkaConfig(bootstrap=parse_bootstrap(info.bootstrap))
    end_shared_spark()
    runner = SparkRunner(SparkChoice(master="local[2,4]"))
    try:
        yield Site(
            config=config,
            admin=ClusterAdmin(shared_router(config)),
            repository=Repository.init(open_store(str(tmp_path / "repository"))),
            runner=runner,
        )
    finally:
        runner.close()


def test_workers_and_driver_stay_small_whatever_the_number_of_records(site: Site) -> None:
    few = site.write("few", value_bytes=200)
    assert site.back_up("few") == site.restore("few") == few
    with_few_bytes = driver_peak_bytes()

    many = site.write("many", value_bytes=20)
    assert many > 9 * few
    assert site.back_up("many") == site.restore("many") == many

    growth_bytes = driver_peak_bytes() - with_few_bytes
    assert site.peak_bytes < WORKER_LIMIT_BYTES  # 54 MiB when this was written
    assert growth_bytes < DRIVER_GROWTH_LIMIT_BYTES


def driver_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
