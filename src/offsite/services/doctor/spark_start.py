"""Spark: start, tasks, and the workers' view of disks and of the store."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.named import named
from offsite.model.size import format_size
from offsite.model.version import __version__
from offsite.repository.repository import Repository
from offsite.services.doctor.check import NAMED_MAX, Finding, failed, ok, warning
from offsite.services.doctor.machine import LITTLE_BYTES
from offsite.services.doctor.parts import Parts
from offsite.stores.store import Store

TASKS_MAX = 16
APART_MS = 60_000
"""A worker's clock with a larger difference makes logs hard to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    """The facts about a worker, reported by a task. `free_bytes`: on the fullest disk for Spark's temporary files."""

    host: str
    python: str
    offsite: str
    now_ms: int
    free_bytes: int


def look_around(_: int) -> WorkerSeen:
    """The task that runs in a worker."""
    return WorkerSeen(
        host=platform.node(),
        python=platform.python_version(),
        offsite=__version__,
        now_ms=SystemClock().now_ms(),
        free_bytes=min(shutil.disk_usage(each).free for each in _local_folders()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySeen:
    """A task's reading of the repository, or why it failed."""

    host: str
    repository_id: str = ""
    problem: str = ""


def read_repository(_: int, *, store: Store) -> RepositorySeen:
    """The task that runs in a worker."""
    try:
        return RepositorySeen(host=platform.node(), repository_id=Repository.open(store).descriptor.repository_id)
    except OffsiteError as error:
        return RepositorySeen(host=platform.node(), problem=error.message)


def start(parts: Parts) -> Finding:
    """Start Spark, and run tasks that report their workers. Raises `JavaMissing`, `SparkFailed`, `BadOption`."""
    began_s, began_ms = parts.clock.monotonic_s(), parts.clock.now_ms()
    seen = parts.runner.run(range(min(TASKS_MAX, parts.runner.slots)), look_around)
    ended_ms, took_s = parts.clock.now_ms(), parts.clock.monotonic_s() - began_s
    if not seen:
        return failed("Spark ran no task", cure="ask again")
    hosts = named(sorted({each.host for each in seen}), most=NAMED_MAX, of="machines")
    said = f"started and ran {len(seen)} tasks on {hosts} in {took_s:.1f} s"
    if other := sorted({each.offsite for each in seen} - {__version__}):
        return failed(f"{said}: workers have offsite {', '.join(other)}", cure=f"install offsite {__version__} on them")
    wrong = [each for each in seen if not began_ms - APART_MS <= each.now_ms <= ended_ms + APART_MS]
    if wrong:
        names = named(sorted({each.host for each in wrong}), most=NAMED_MAX, of="machines")
        return warning(f"{said}; the clock of {names} is off", cure="let NTP set the clocks of the workers")
    free = min(each.free_bytes for each in seen)
    said = f"{said}; {format_size(free)} free for its temporary files"
    return warning(said, cure="free some space, or set spark.local.dir") if free < LITTLE_BYTES else ok(said)


def store(parts: Parts) -> Finding:
    """Whether workers read the same repository as this machine."""
    expected = Repository.open(parts.store).descriptor.repository_id
    tasks = range(min(TASKS_MAX, parts.runner.slots))
    seen = parts.runner.run(tasks, partial(read_repository, store=parts.store))
    if not seen:
        return failed("no task has read the repository", cure="ask again")
    if wrong := sorted({f"a worker on {each.host}: {each.problem}" for each in seen if each.problem}):
        return failed(named(wrong, most=NAMED_MAX), cure="mount the folder, or give the rights, on all workers alike")
    if any(each.repository_id != expected for each in seen):
        return failed("workers read another repository", cure="mount the same folder on all workers")
    return ok(f"workers on {named(sorted({each.host for each in seen}), most=NAMED_MAX)} read the repository")


def _local_folders() -> list[Path]:
    """Spark tells its Python workers the folders of its temporary files."""
    told = [Path(each) for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each]
    return [each for each in told if each.is_dir()] or [Path(tempfile.gettempdir())]
