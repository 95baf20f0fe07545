"""One topic on its way through offsite under a fault: what was produced on one side, what a plain consumer reads on the
other. Offsite's own words count for nothing here, but for this: what it says it lacks, it may lack.
"""

from __future__ import annotations

import json
import logging
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Producer

from offsite.archives.export.plan import ExportRequest
from offsite.archives.export.run import export_of_cluster, open_target
from offsite.archives.formats import WriteOptions
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import BackupResult, run_backup
from offsite.demo.data import BASE_MS, read_topic
from offsite.engine.runner import Runner
from offsite.kafka.cluster import Cluster as Ends
from offsite.kafka.config import KafkaConfig, parse_bootstrap
from offsite.model.errors import OffsiteError
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.options import RestoreWords, parse_restore
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.result import RestoreResult
from offsite.restore.run import run_restore
from offsite.sandbox import Sandbox
from tests.integration.cluster.faults import Fault, mend
from tests.integration.kafka.cluster import Cluster

PARTITIONS = 3
SLOTS = 2
RUNS_MAX = 4
"""How often a person repeats a command that says it was held up: the fault is over by the second time."""
READS_MAX = 5
T = TypeVar("T")

_log = logging.getLogger(__name__)

Row = tuple[bytes | None, bytes | None, int]
"""Key, value, timestamp."""


@dataclass(slots=True, kw_only=True)
class Produced:
    """What clients were told is in the topic: partition → rows in order, those of aborted transactions apart."""

    topic: str
    committed: dict[int, list[Row]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    aborted: int = 0


@dataclass(slots=True, kw_only=True)
class Trial:
    """What has to be run again is in the log (`--log-cli-level=WARNING`)."""

    sandbox: Sandbox
    cluster: Cluster
    repository: Repository
    runner: Runner
    folder: Path

    def read_near(self, number: int) -> None:
        """From now on offsite reads from the rack of that broker."""
        bootstrap = self.cluster.bootstrap
        config = KafkaConfig(bootstrap=parse_bootstrap(bootstrap), rack_id=f"rack-{number}")
        self.cluster = Cluster(bootstrap, config)

    def under(self, fault: Fault, rng: random.Random) -> AbstractContextManager[None]:
        """The fault for as long as the `with`; `healed` waits for the end of its traces."""
        return fault(self.sandbox, self.cluster, rng)

    def healed(self) -> None:
        mend(self.sandbox, self.cluster)

    def produced(self, rng: random.Random, *, transactions: int = 8, batch: int = 150) -> Produced:
        """A new topic with plain records between transactions, some of them aborted, on all partitions."""
        topic = self.cluster.make_topic(partitions=PARTITIONS)
        made = Produced(topic=topic)
        with_ids, plain = _producer(self.cluster, topic), _producer(self.cluster)
        with_ids.init_transactions()
        for number in range(transactions):
            _write(plain, made, batch, rng, f"plain-{number}")
            with_ids.begin_transaction()
            commits = rng.random() > 1 / 3
            _write(with_ids, made, batch // 3, rng, f"tx-{number}", counts=commits)
            _end(with_ids, commit=commits)
        return made

    def back_up(self, topic: str) -> BackupResult:
        """Runs until one is complete. Nobody deletes anything: a hole is a failure, whichever run finds it."""
        return self._again(lambda: self.back_up_once(topic), until=lambda done: done.complete)

    def restore(self, topic: str, target: str, *, offsets: str, commit: int | None = None) -> RestoreResult:
        """Runs until one says that it is verified."""
        return self._again(
            lambda: self.restore_once(topic, target, offsets=offsets, commit=commit),
            until=lambda done: bool(done.verified),
        )

    def attempt(self, run: Callable[[], object]) -> bool:
        """One run while the fault lasts, and whether it went through. It may be refused, never be wrong: the next one,
        after the fault, has to end well."""
        try:
            run()
        except OffsiteError as refusal:
            _log.warning("to be run again: %s %s (%s)", refusal.id, refusal.message, _way(refusal))
            return False
        return True

    def exported(self, topic: str) -> dict[int, list[Row]]:
        """All that is in the topic, as an export to JSON lines has it."""
        place = self.folder / "export"
        ends = Ends(config=self.cluster.config, admin=self.cluster.admin)

        def run() -> object:
            request = ExportRequest(point=parse_restore(RestoreWords(topics=[topic])))
            target = open_target("jsonl", str(place), WriteOptions())
            job = export_of_cluster(ends, target, request, slots=SLOTS)
            return job.run(job.plan(), self.runner)

        self._again(run, until=lambda _: True)
        found: dict[int, list[Row]] = {number: [] for number in range(PARTITIONS)}
        for partition, row in _exported_rows(place):
            found[partition].append(row)
        return found

    def read(self, topic: str) -> dict[int, list[Row]]:
        """What a read_committed consumer gets."""
        return {
            partition: [(each.key, each.value, each.timestamp_ms) for each in records]
            for partition, records in read_topic(self.cluster.bootstrap, topic).items()
        }

    def offsets(self, topic: str) -> dict[int, list[int]]:
        return {
            partition: [each.offset for each in records]
            for partition, records in read_topic(self.cluster.bootstrap, topic).items()
        }

    def assert_whole(self, made: Produced, found: dict[int, list[Row]]) -> None:
        """Each record once, in its order, and none that nobody wrote."""
        for partition, rows in made.committed.items():
            assert found[partition] == rows, _difference(made.topic, partition, rows, found[partition])

    def read_all(self, made: Produced, topic: str) -> dict[int, list[Row]]:
        """`read`, again while there is less than was produced: a consumer that comes right after an election may be
        told an older end, for the new leader's high watermark lags."""
        for _ in range(READS_MAX):
            found = self.read(topic)
            if all(len(found[partition]) >= len(rows) for partition, rows in made.committed.items()):
                break
            _log.warning("to be read again: %s", topic)
            time.sleep(1)
        return found

    def back_up_once(self, topic: str) -> BackupResult:
        request = BackupRequest(backup=f"of-{topic}", selection=parse_selection([topic]))
        plan = plan_backup(self.repository, self.cluster.admin, request, slots=SLOTS)
        result = run_backup(plan, repository=self.repository, kafka=self.cluster.config, runner=self.runner)
        assert not result.holes, result.holes
        return result

    def restore_once(self, topic: str, target: str, *, offsets: str, commit: int | None = None) -> RestoreResult:
        request = RestoreRequest(
            selection=parse_selection([topic]),
            renames=parse_renames([f"{topic}={target}"]),
            offsets=offsets,
            commit=commit,
        )
        prepared = prepare_restore(self.repository.backup(f"of-{topic}"), self.cluster.admin, request)
        return run_restore(prepared, cluster=self.cluster, runner=self.runner)

    def _again(self, run: Callable[[], T], *, until: Callable[[T], bool]) -> T:
        for attempt in range(RUNS_MAX):
            try:
                result = run()
            except OffsiteError as refusal:
                _log.warning("to be run again: %s %s (%s)", refusal.id, refusal.message, _way(refusal))
                if attempt + 1 == RUNS_MAX:
                    raise
                time.sleep(2**attempt)  # as a person would
                continue
            if until(result):
                return result
            _log.warning("to be run again: %s", result)
        raise AssertionError(f"not done after {RUNS_MAX} runs: {result}")


def _way(error: BaseException) -> str:
    """Where it came from, the innermost function last."""
    return " > ".join(frame.name for frame in traceback.extract_tb(error.__traceback__)[2:])


def _producer(cluster: Cluster, transactional_id: str = "") -> Producer:
    own = {"transactional.id": transactional_id} if transactional_id else {}
    return Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 3, **own}
    )


def _write(
    producer: Producer, made: Produced, count: int, rng: random.Random, label: str, *, counts: bool = True
) -> None:
    for number in range(count):
        partition = rng.randrange(PARTITIONS)
        row = (b"%d" % number, f"{label}-{number}-".encode() * rng.randint(1, 20), BASE_MS + number)
        producer.produce(made.topic, key=row[0], value=row[1], partition=partition, timestamp=row[2])
        producer.poll(0)
        if counts:
            made.committed[partition].append(row)
        else:
            made.aborted += 1
    assert producer.flush(60) == 0


def _end(producer: Producer, *, commit: bool) -> None:
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def _exported_rows(place: Path) -> Iterator[tuple[int, Row]]:
    for path in sorted(place.rglob("*.jsonl")):
        partition = int(path.parent.name.partition("=")[2])
        for line in path.read_text(encoding="utf-8").splitlines():
            yield partition, _row(json.loads(line))


def _row(line: dict[str, Any]) -> Row:
    return (line["key"].encode(), line["value"].encode(), line["timestamp"])


def _difference(topic: str, partition: int, wanted: list[Row], found: list[Row]) -> str:
    missing, extra = set(wanted) - set(found), set(found) - set(wanted)
    doubled = len(found) - len(set(found))
    at = [number for number, row in enumerate(wanted) if row in missing]
    where = f" at {at[0]} to {at[-1]}" if at else ""
    return (
        f"{topic}/{partition}: {len(wanted)} produced, {len(found)} found; {len(missing)} missing{where}, {len(extra)} "
        f"never written, {doubled} doubled, in order: {[row for row in found if row in set(wanted)] == wanted}"
    )
