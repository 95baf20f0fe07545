"""One backup, restore or proof at a time, in one warm Spark session: what it took, and what it asked a store for."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench.at_scale.counted_store import CountedStore
from bench.cluster import Cluster
from bench.processes import own_cpu_s, process_cpu_s
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.cluster import Cluster as Connected
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.compare.run import CompareRequest, plan_comparison, run_comparison
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.stores.open_store import open_store

BACKUP = "measured"
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What a run took: wall seconds for its plan and for the rest; CPU seconds of all of offsite (driver, JVM, workers)
    and of the broker; bytes of the log and in the store; requests by kind and by what they asked for."""

    plan_s: float
    work_s: float
    plan_cpu_s: float
    work_cpu_s: float
    broker_cpu_s: float
    log_bytes: int = 0
    stored_bytes: int = 0
    segments: int = 0
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def cpu_s(self) -> float:
        return self.plan_cpu_s + self.work_cpu_s

    @property
    def log_mib(self) -> float:
        return self.log_bytes / 2**20


class Services:
    """A repository below `folder`, of which every backup makes another."""

    def __init__(self, *, cluster: Cluster, runner: SparkRunner, folder: Path) -> None:
        self._cluster, self._runner, self._folder = cluster, runner, folder
        self._number = 0
        self._counts = folder / "requests"
        self._counts.mkdir(parents=True)
        self._store = self._new_store()
        self._connected = Connected(config=cluster.kafka, admin=cluster.admin)
        self._restore, self._restored_bytes = "", 0

    def back_up(self, topics: str) -> Took:
        """A first backup of all `topics`, a pattern."""
        shutil.rmtree(self._folder / str(self._number), ignore_errors=True)
        self._store = self._new_store()
        repository = Repository.init(self._store)
        request = BackupRequest(backup=BACKUP, selection=parse_selection(topics.split()))
        plan, planned = self._timed(
            lambda: plan_backup(repository, self._cluster.admin, request, slots=self._runner.slots)
        )
        result, ran = self._timed(
            lambda: run_backup(plan, repository=repository, kafka=self._cluster.kafka, runner=self._runner)
        )
        return _both(planned, ran, log_bytes=result.bytes, stored_bytes=result.stored_bytes, segments=result.segments)

    def restore(self, renames: str) -> Took:
        """The newest backup into new topics: without its proof."""
        backup = Repository.open(self._store).backup(BACKUP)
        request = RestoreRequest(selection=parse_selection(["*"]), renames=parse_renames(renames.split()))
        prepared, planned = self._timed(lambda: prepare_restore(backup, self._cluster.admin, request))
        result, ran = self._timed(
            lambda: run_restore(prepared, cluster=self._connected, runner=self._runner, verify=False)
        )
        self._restore, self._restored_bytes = result.restore, result.bytes
        return _both(planned, ran, log_bytes=result.bytes)

    def prove(self) -> Took:
        """The last restore, read back and compared."""
        backup = Repository.open(self._store).backup(BACKUP)
        request = CompareRequest(selection=parse_selection(["*"]), restore=self._restore, exact=True)
        plan, planned = self._timed(lambda: plan_comparison(backup, self._cluster.admin, request))
        result, ran = self._timed(lambda: run_comparison(plan, cluster=self._connected, runner=self._runner))
        if not result.verified:
            raise SystemExit("the restore is not what was backed up")
        return _both(planned, ran, log_bytes=self._restored_bytes)

    def _new_store(self) -> CountedStore:
        """Another folder each time: a store remembers what it made below its own."""
        self._number += 1
        return CountedStore(inner=open_store(str(self._folder / str(self._number))), folder=self._counts)

    def _timed(self, work: Callable[[], ResultT]) -> tuple[ResultT, Took]:
        broker = self._cluster.broker_pid
        self._store.taken()
        cpu_s, broker_s, start_s = own_cpu_s(without={broker}), process_cpu_s(broker), time.perf_counter()
        result = work()
        took = Took(
            plan_s=0,
            work_s=time.perf_counter() - start_s,
            plan_cpu_s=0,
            work_cpu_s=own_cpu_s(without={broker}) - cpu_s,
            broker_cpu_s=process_cpu_s(broker) - broker_s,
            requests=self._store.taken(),
        )
        return result, took


def _both(plan: Took, work: Took, *, log_bytes: int = 0, stored_bytes: int = 0, segments: int = 0) -> Took:
    return Took(
        plan_s=plan.work_s,
        work_s=work.work_s,
        plan_cpu_s=plan.work_cpu_s,
        work_cpu_s=work.work_cpu_s,
        broker_cpu_s=plan.broker_cpu_s + work.broker_cpu_s,
        log_bytes=log_bytes,
        stored_bytes=stored_bytes,
        segments=segments,
        requests=plan.requests + work.requests,
    )
