"""The unit costs of a backup and a restore, as they were measured, and where they are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

KEPT = Path(__file__).parents[1] / "results" / "unit_costs.json"
SEGMENT_BYTES, TASK_BYTES = 1_300, 315
"""Of Python's memory for each segment that a pass has brought and not let go of, and for each of its tasks besides.
From a check by hand, rounded up: 1,135 to 1,300 bytes a segment where a task had eight or more, 1,615 where it had
one."""
HELD_COMMITS = 2
"""As many segments as the largest commit has are held so often: those that are to be committed, and those that the
state has until its next catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCosts:
    """CPU milliseconds of offsite, and of the broker beside it, for a MiB of the log and for a small range or
    partition; requests for a MiB, a segment, and a partition. A listing counts as a put, at whose price it is."""

    mib_ms: float
    broker_mib_ms: float
    small_ms: float
    broker_small_ms: float
    plan_ms: float
    """Of the driver for each partition, before the first task."""
    run_ms: float = 0
    """Of a run, whatever it moves: a plan, a job, a commit or a report."""
    mib_gets: float = 0
    segment_puts: float = 0
    segment_gets: float = 0
    partition_puts: float = 0
    partition_gets: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCosts:
    """CPU milliseconds for a task of Spark in all, and the driver's part of them; for a commit, for a segment in it,
    and, for each task of the pass that has ended, to find what is new. Bytes of memory for a task that has
    ended, in Python, and for one that waits, on the Java heap. Requests of a commit and of a run.

    What was measured of ended tasks had one segment each, and 50 tasks a partition: `brought_segment_ms` takes all of
    it for the segment's, which is too much, if anything, where tasks have many."""

    task_ms: float
    driver_task_ms: float
    commit_ms: float
    commit_segment_ms: float
    commit_ended_task_ms: float
    task_python_bytes: float
    task_heap_bytes: float
    commit_puts: float
    commit_gets: float
    run_puts: float
    run_gets: float

    @property
    def brought_segment_ms(self) -> float:
        """Of each commit, for a segment that the pass has brought so far: to find what is new."""
        return self.commit_ended_task_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A run that no cost was taken from: what it moved, and what it took."""

    log_mib: float
    large: int
    small: int
    cores: int
    wall_s: float
    cpu_s: float
    """Of offsite and the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    taken_on: str
    machine: Mapping[str, str | int]
    load_average: float
    backup: CopyCosts
    restore: CopyCosts
    proof: CopyCosts
    driver: DriverCosts
    check_backup: CheckRun
    check_restore: CheckRun

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read_costs(path: Path = KEPT) -> UnitCosts:
    found = json.loads(path.read_text(encoding="utf-8"))
    return UnitCosts(
        taken_on=found["taken_on"],
        machine=found["machine"],
        load_average=found["load_average"],
        backup=CopyCosts(**found["backup"]),
        restore=CopyCosts(**found["restore"]),
        proof=CopyCosts(**found["proof"]),
        driver=DriverCosts(**found["driver"]),
        check_backup=CheckRun(**found["check_backup"]),
        check_restore=CheckRun(**found["check_restore"]),
    )
