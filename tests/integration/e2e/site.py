"""One cluster, one repository, one warm Spark: backups and restores as a person makes them, through their rooms.

What comes back is judged by an independent client (confluent-kafka), never by offsite's own reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from confluent_kafka import Producer

from offsite.backup.options import BackupRequest
from offsite.backup.plan import BackupPlan, plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import DemoMessage, TopicRecords, compare_readings, produce, read_topic
from offsite.engine.runner import Runner
from offsite.log.range import TopicPartition
from offsite.model.options import MissingTopics
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store
from offsite.upkeep.verification.run import verify_deep
from tests.inline_runner import InlineRunner
from tests.integration.kafka.cluster import Cluster

SLOTS = 2
BACKUP = "nightly"

_numbers = itertools.count()


class Site:
    """The source cluster is the target as well: what is restored gets a name of its own."""

    def __init__(self, cluster: Cluster, repository: Repository, spark: Runner) -> None:
        self.cluster = cluster
        self.repository = repository
        self.spark = spark

    @property
    def backup(self) -> Backup:
        return self.repository.backup(BACKUP)

    def make_topic(self, *, partitions: int = 1, **configs: str) -> str:
        return self.cluster.make_topic(partitions=partitions, **configs)

    def produce(self, topic: str, messages: Iterable[DemoMessage], **client: object) -> None:
        """Write through librdkafka, everything acknowledged; `compression_type="gzip"` sets compression.type."""
        produce_to(self.cluster.bootstrap, topic, messages, **client)

    def delete_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        key = TopicPartition(topic=topic, partition=partition)
        assert self.cluster.admin.delete_records({key: offset}) == {key: offset}

    def back_up(self, *topics: str, missing: MissingTopics = MissingTopics.FAIL) -> BackupResult:
        """One run; without topics the next run of the same backup."""
        plan = self.plan(*topics, missing=missing)
        return run_backup(plan, repository=self.repository, kafka=self.cluster.config, runner=self.spark)

    def plan(self, *topics: str, missing: MissingTopics = MissingTopics.FAIL) -> BackupPlan:
        selection = parse_selection(list(topics)) if topics else None
        request = BackupRequest(backup=BACKUP, selection=selection, missing_topics=missing)
        return plan_backup(self.repository, self.cluster.admin, request, slots=SLOTS)

    def prepare(
        self, topic: str, target: str, *, isolation: str = "read_committed", commit: int | None = None
    ) -> PlannedRestore:
        renames = parse_renames([f"{topic}={target}"] if target != topic else [])
        request = RestoreRequest(
            selection=parse_selection([topic]), renames=renames, isolation=isolation, commit=commit
        )
        return prepare_restore(self.backup, self.cluster.admin, request)

    def restore(
        self, topic: str, target: str, *, isolation: str = "read_committed", commit: int | None = None
    ) -> RestoreResult:
        prepared = self.prepare(topic, target, isolation=isolation, commit=commit)
        return run_restore(prepared, cluster=self.cluster, runner=self.spark)

    def read(self, topic: str, *, isolation: str = "read_committed") -> TopicRecords:
        return read_topic(self.cluster.bootstrap, topic, isolation=isolation)

    def assert_verified(self) -> None:
        """Every byte of the backup is what its commits say."""
        result = verify_deep(self.backup, self.spark)
        assert result.ok, result.damaged

    def assert_comes_back(self, topic: str, *, isolation: str = "read_committed") -> RestoreResult:
        """The topic's backup is whole, and its restore holds what a consumer of the source sees now."""
        self.assert_verified()
        target = new_name(topic)
        result = self.restore(topic, target, isolation=isolation)
        self.assert_same(self.read(topic, isolation=isolation), self.read(target, isolation=isolation))
        return result

    def assert_same(self, source: TopicRecords, restored: TopicRecords) -> None:
        comparison = compare_readings("topic", source, restored)
        assert comparison.identical, comparison.difference[:2000]


def back_up_here(bootstrap: str, repository: Path, backup: str, *topics: str) -> BackupResult:
    """The first run of a backup, without a Spark: for who needs a backup and looks at something else."""
    opened, cluster = Repository.open(open_store(str(repository))), Cluster(bootstrap)
    request = BackupRequest(backup=backup, selection=parse_selection(list(topics)))
    plan = plan_backup(opened, cluster.admin, request, slots=SLOTS)
    return run_backup(plan, repository=opened, kafka=cluster.config, runner=InlineRunner())


def produce_to(bootstrap: str, topic: str, messages: Iterable[DemoMessage], **client: object) -> None:
    settings = {name.replace("_", "."): value for name, value in client.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    produce(producer, topic, messages)
    assert producer.flush(60) == 0


def new_name(topic: str) -> str:
    return f"{topic}.back-{next(_numbers)}"


def values(reading: TopicRecords, partition: int = 0) -> Sequence[bytes | None]:
    return [record.value for record in reading[partition]]
