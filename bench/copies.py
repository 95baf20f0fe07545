"""offsite's own copies in one warm Spark session: whole uses, from the plan to the commit or the report."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.cluster import Cluster
from bench.processes import own_cpu_s
from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.engine.runner import RunProgress
from offsite.engine.sessions.master import slots
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRun:
    """`plan_s` is part of `elapsed_s`; `cpu_s` is that of driver, JVM and workers, not of the broker."""

    elapsed_s: float
    plan_s: float
    cpu_s: float


@dataclass(slots=True, kw_only=True)
class Copies:
    """One repository in a local folder, which is emptied by `forget`."""

    cluster: Cluster
    runner: SparkRunner
    folder: Path
    worker_peak_rss_bytes: int = field(default=0, init=False)
    _repository: Repository | None = field(default=None, init=False)
    _restore: str = field(default="", init=False)

    def back_up(self, topic: str, *, records: int) -> CopyRun:
        """A first backup of `topic`, named after it, durable at the end."""
        self._repository = Repository.init(open_store(str(self.folder)))
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        request = BackupRequest(backup=topic, selection=parse_selection([topic]))
        plan = plan_backup(self._repository, self.cluster.admin, request, slots=slots(None))
        planned_s = time.perf_counter()
        kafka = self.cluster.kafka
        result = run_backup(
            plan, repository=self._repository, kafka=kafka, runner=self.runner, on_progress=self._on_progress
        )
        run = self._run(start_s, planned_s, cpu_s)
        _expect(result.records, records)
        return run

    def restore(self, topic: str, target: str, *, records: int) -> CopyRun:
        """The newest backup of `topic` into the new topic `target`."""
        if self._repository is None:
            raise SystemExit("there is no backup to restore yet")
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        request = RestoreRequest(selection=parse_selection(["*"]), renames=parse_renames([f"{topic}={target}"]))
        prepared = prepare_restore(self._repository.backup(topic), self.cluster.admin, request)
        planned_s = time.perf_counter()
        kafka, admin = self.cluster.kafka, self.cluster.admin
        result = run_restore(  # the copy alone: what it is measured against reads nothing back
            prepared,
            cluster=Connected(config=kafka, admin=admin),
            runner=self.runner,
            verify=False,
            on_progress=self._on_progress,
        )
        run = self._run(start_s, planned_s, cpu_s)
        _expect(result.records, records)
        self._restore = result.restore
        return run

    def prove(self, topic: str, *, records: int) -> CopyRun:
        """Read the last restore of `topic` back and compare it with its backup, as a restore does at its end."""
        if self._repository is None:
            raise SystemExit("there is no restore to prove yet")
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        request = CompareRequest(selection=parse_selection(["*"]), restore=self._restore, exact=True)
        planned = plan_comparison(self._repository.backup(topic), self.cluster.admin, request)
        planned_s = time.perf_counter()
        result = run_comparison(
            planned,
            cluster=Connected(config=self.cluster.kafka, admin=self.cluster.admin),
            runner=self.runner,
            on_progress=self._on_progress,
        )
        run = self._run(start_s, planned_s, cpu_s)
        _expect(result.records if result.verified else 0, records)
        return run

    def forget(self) -> None:
        shutil.rmtree(self.folder)
        self._repository = None

    def _run(self, start_s: float, planned_s: float, cpu_s: float) -> CopyRun:
        elapsed_s = time.perf_counter() - start_s
        return CopyRun(elapsed_s=elapsed_s, plan_s=planned_s - start_s, cpu_s=self._cpu_s() - cpu_s)

    def _cpu_s(self) -> float:
        return own_cpu_s(without={self.cluster.broker_pid})

    def _on_progress(self, now: RunProgress) -> None:
        self.worker_peak_rss_bytes = max(self.worker_peak_rss_bytes, now.worker_peak_rss_bytes)


def _expect(found: int, wanted: int) -> None:
    """A fast copy of too little is no result."""
    if found != wanted:
        raise SystemExit(f"copied {found} of {wanted} records")
