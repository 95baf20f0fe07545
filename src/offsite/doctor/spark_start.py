"""Spark: start, tasks, and the workers' view of disks and of the store."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from offsite.doctor.check import NAMED_MAX, CheckResult, failed, ok, warning
from offsite.doctor.machine import LITTLE_BYTES
from offsite.doctor.parts import Parts
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.names import amount, named
from offsite.model.units import format_size
from offsite.model.version import __version__
from offsite.repository.repository import Repository
from offsite.stores.store import Store

TASKS_MAX = 16
APART_MS = 60_000
"""A worker's clock with a larger difference makes logs hard to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The facts about a worker, reported by a task. `free_bytes`: on the fullest disk for Spark's temporary files."""

    host: str
    python: str
    offsite: str
    now_ms: int
    free_bytes: int


def inspect_worker(_: int) -> WorkerReport:
    """The task that runs in a worker."""
    return WorkerReport(
        host=platform.node(),
        python=platform.python_version(),
        offsite=__version__,
        now_ms=SystemClock().now_ms(),
        free_bytes=min(shutil.disk_usage(folder).free for folder in _local_folders()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryAccess:
    """A task's reading of the repository, or why it failed."""

    host: str
    repository_id: str = ""
    problem: str = ""


def read_repository(_: int, *, store: Store) -> RepositoryAccess:
    """The task that runs in a worker."""
    try:
        return RepositoryAccess(host=platform.node(), repository_id=Repository.open(store).descriptor.repository_id)
    except OffsiteError as error:
        return RepositoryAccess(host=platform.node(), problem=error.message)


def start(parts: Parts) -> CheckResult:
    """Start Spark, and run tasks that report their workers. Raises `JavaMissing`, `SparkFailed`, `BadOption`."""
    began_s, began_ms = parts.clock.monotonic_s(), parts.clock.now_ms()
    workers = parts.runner.run(range(min(TASKS_MAX, parts.runner.slots)), inspect_worker)
    ended_ms, took_s = parts.clock.now_ms(), parts.clock.monotonic_s() - began_s
    if not workers:
        return failed("Spark ran no task", cure="run offsite doctor again")
    hosts = named(sorted({worker.host for worker in workers}), most=NAMED_MAX, of="machines")
    said = f"started and ran {amount(len(workers), 'task')} on {hosts} in {took_s:.1f} s"
    if other := sorted({worker.offsite for worker in workers} - {__version__}):
        return failed(f"{said}: workers have offsite {', '.join(other)}", cure=f"install offsite {__version__} on them")
    wrong = [worker for worker in workers if not began_ms - APART_MS <= worker.now_ms <= ended_ms + APART_MS]
    if wrong:
        names = named(sorted({worker.host for worker in wrong}), most=NAMED_MAX, of="machines")
        return warning(f"{said}; the clock of {names} is off", cure="let NTP set the clocks of the workers")
    free = min(worker.free_bytes for worker in workers)
    said = f"{said}; {format_size(free)} free for its temporary files"
    return warning(said, cure="free some space, or set spark.local.dir") if free < LITTLE_BYTES else ok(said)


def store(parts: Parts) -> CheckResult:
    """Whether workers read the same repository as this machine."""
    expected = Repository.open(parts.store).descriptor.repository_id
    tasks = range(min(TASKS_MAX, parts.runner.slots))
    workers = parts.runner.run(tasks, partial(read_repository, store=parts.store))
    if not workers:
        return failed("no task has read the repository", cure="run offsite doctor again")
    if wrong := sorted({f"a worker on {worker.host}: {worker.problem}" for worker in workers if worker.problem}):
        return failed(named(wrong, most=NAMED_MAX), cure="mount the folder, or grant the permissions, on all workers")
    if any(worker.repository_id != expected for worker in workers):
        return failed("workers read another repository", cure="mount the same folder on all workers")
    return ok(f"workers on {named(sorted({worker.host for worker in workers}), most=NAMED_MAX)} read the repository")


def _local_folders() -> list[Path]:
    """Spark tells its Python workers the folders of its temporary files."""
    folders = [Path(path) for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
    return [folder for folder in folders if folder.is_dir()] or [Path(tempfile.gettempdir())]
