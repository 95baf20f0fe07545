"""The demo, step by step: write awkward data, back up, lose, restore, and compare with an independent client.

Everything is real: the broker, Spark, the repository, the deletion. Offsite's own reader compares nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from offsite.backup.options import BackupRequest
from offsite.backup.plan import make_replan, plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import (
    ORDERS,
    TOPICS,
    TopicRecords,
    commit_half_way,
    committed_offsets,
    compare_readings,
    read_topic,
    write_demo_data,
)
from offsite.engine.runner import Runner
from offsite.kafka.cluster import connect
from offsite.model.clock import Clock
from offsite.model.options import OffsetsMode
from offsite.model.selection import parse_groups, parse_selection
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store
from offsite.upkeep.verification.run import VerifyResult, verify_deep

BACKUP = "demo"

StepT = TypeVar("StepT")
OnStep = Callable[[str, float], None]
"""Called after every step with its title and duration in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopicResult:
    """One topic before and after. `difference` is empty when every record came back unchanged; with `same_offsets`, at
    its offset."""

    topic: str
    holds: str
    partitions: int
    source_records: int
    restored_records: int
    same_offsets: bool
    identical: bool
    difference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Result of the demo. `group_offsets`: partition of the orders → next offset of the demo's consumer group;
    `identical`: the group's offsets and every record are unchanged."""

    identical: bool
    repository: str
    bootstrap: str
    commit: int
    restore: str
    records: int
    bytes: int
    stored_bytes: int
    verified: bool
    group_offsets: Mapping[int, int]
    topics: tuple[DemoTopicResult, ...]


@dataclass(frozen=True, slots=True)
class _DemoState:
    """The view of the independent client: the records of every topic, and the next offsets of the group."""

    topics: Mapping[str, TopicRecords]
    group_offsets: Mapping[int, int]


class Demo:
    """One run against a broker without demo topics, and an empty folder for the repository."""

    def __init__(self, *, bootstrap: str, repository: Path, runner: Runner, clock: Clock, on_step: OnStep) -> None:
        self._bootstrap = bootstrap
        self._cluster = connect(bootstrap, None)
        self._repository_folder = repository
        self._runner = runner
        self._clock = clock
        self._on_step = on_step

    def run(self) -> DemoResult:
        """Play the story to its end. A missing record is a result, not an error."""
        names = [topic.name for topic in TOPICS]
        self._step("wrote 6 topics with everything that real topics have", lambda: write_demo_data(self._bootstrap))
        before = self._step("read them with an independent client, one half of the orders as a group", self._read_first)
        repository = Repository.init(open_store(str(self._repository_folder)))
        backup = self._step("backed them up (Spark)", lambda: self._back_up(repository))
        verified = self._step("verified every stored byte (Spark)", lambda: self._verify(repository))
        self._step("deleted the topics", lambda: self._cluster.admin.delete_topics(names))
        restore = self._step("restored them (Spark)", lambda: self._restore(repository))
        after = self._step("read them again with the independent client", self._read_all)
        return self._result(backup, verified, restore, before, after)

    def _read_first(self) -> _DemoState:
        commit_half_way(self._bootstrap, read_topic(self._bootstrap, ORDERS.name))
        return self._read_all()

    def _read_all(self) -> _DemoState:
        topics = {topic.name: read_topic(self._bootstrap, topic.name) for topic in TOPICS}
        return _DemoState(topics, committed_offsets(self._bootstrap))

    def _back_up(self, repository: Repository) -> BackupResult:
        request = BackupRequest(backup=BACKUP, selection=parse_selection(["demo.*"]))
        plan = plan_backup(repository, self._cluster.admin, request, slots=self._runner.slots)
        again = make_replan(repository, self._cluster.admin, request, slots=self._runner.slots)
        return run_backup(plan, repository=repository, kafka=self._cluster.config, runner=self._runner, replan=again)

    def _verify(self, repository: Repository) -> VerifyResult:
        return verify_deep(repository.backup(BACKUP), self._runner)

    def _restore(self, repository: Repository) -> RestoreResult:
        request = RestoreRequest(
            selection=parse_selection(["*"]), offsets=OffsetsMode.PRESERVE, groups=parse_groups(["all"])
        )
        prepared = prepare_restore(repository.backup(BACKUP), self._cluster.admin, request)
        return run_restore(prepared, cluster=self._cluster, runner=self._runner)

    def _step(self, title: str, action: Callable[[], StepT]) -> StepT:
        began_s = self._clock.monotonic_s()
        result = action()
        self._on_step(title, self._clock.monotonic_s() - began_s)
        return result

    def _result(
        self,
        backup: BackupResult,
        verified: VerifyResult,
        restore: RestoreResult,
        before: _DemoState,
        after: _DemoState,
    ) -> DemoResult:
        comparisons = [
            compare_readings(
                topic.name,
                before.topics[topic.name],
                after.topics[topic.name],
                offsets=restore.topics[topic.name].same_offsets,
            )
            for topic in TOPICS
        ]
        same_groups = before.group_offsets == after.group_offsets
        return DemoResult(
            identical=same_groups and all(comparison.identical for comparison in comparisons),
            repository=str(self._repository_folder),
            bootstrap=self._bootstrap,
            commit=backup.commit,
            restore=restore.restore,
            records=restore.records,
            bytes=backup.bytes,
            stored_bytes=backup.stored_bytes,
            verified=verified.ok,
            group_offsets=after.group_offsets,
            topics=tuple(
                DemoTopicResult(
                    topic=topic.name,
                    holds=topic.holds,
                    partitions=topic.partitions,
                    source_records=comparison.source_records,
                    restored_records=comparison.restored_records,
                    same_offsets=restore.topics[topic.name].same_offsets,
                    identical=comparison.identical,
                    difference=comparison.difference,
                )
                for topic, comparison in zip(TOPICS, comparisons, strict=True)
            ),
        )
