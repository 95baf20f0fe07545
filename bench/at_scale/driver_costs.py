"""What a pass costs its driver: tasks of Spark, the commits, and what is held in memory for each task."""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from bench.large_repository import Large, grow, news
from bench.processes import own_cpu_s
from offsite.backup.copy import BackupReceipt, CopyBundle, bundle_copies
from offsite.backup.copy_pass import Committable, CommitThresholds, CopyPass
from offsite.backup.copy_plan import TASK_BYTES_MAX, CopyPlan, CopyTask, PartitionBounds, plan_copy
from offsite.engine.runner import Done
from offsite.engine.spark_runner import SparkRunner
from offsite.model.clock import SystemClock
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState

_TASKS_PER_PARTITION = 50
_NEW_TASKS = 100
"""Of a commit: those of 10 GiB."""
_MEMORY_TASKS = 20_000
_NEVER = CommitThresholds(bytes=1 << 60, seconds=1e9)


def task_cpu_ms(runner: SparkRunner, broker: int, *, tasks: int, repeats: int) -> tuple[float, float]:
    """Of an empty task: in all, and without the workers' part, which is the driver's and the JVM's. The JVM is driver
    and executor here, so that the second is more than a driver's on a cluster."""
    in_all, of_driver = [], []
    runner.run_all(range(200), abs)
    for _ in range(repeats):
        all_s, driver_s = own_cpu_s(without={broker}), _driver_cpu_s()
        runner.run_all(range(tasks), abs)
        in_all.append((own_cpu_s(without={broker}) - all_s) / tasks * 1000)
        of_driver.append((_driver_cpu_s() - driver_s) / tasks * 1000)
    return median(in_all), median(of_driver)


def _driver_cpu_s() -> float:
    jvm = int(_java().lang.ProcessHandle.current().pid())
    ticks = Path(f"/proc/{jvm}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") + time.process_time()


def task_heap_bytes(runner: SparkRunner) -> float:
    """Bytes on the Java heap for each task that waits: what is there when the first of many has ended. The job is
    broken off then, so this comes last."""
    _, bundles = _planned(_MEMORY_TASKS // _TASKS_PER_PARTITION)
    few, many = (_heap_bytes(runner, bundles[:count]) for count in (200, len(bundles)))
    return (many - few) / (len(bundles) - 200)


def _heap_bytes(runner: SparkRunner, bundles: Sequence[CopyBundle]) -> int:
    seen: list[int] = []

    def look(_index: int, _outcome: object) -> None:
        runtime = _java().lang.Runtime.getRuntime()
        runtime.gc()
        seen.append(runtime.totalMemory() - runtime.freeMemory())
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        runner.run_each(bundles, attrgetter("packed"), look)
    return seen[0]


def _java() -> Any:  # noqa: ANN401  # Py4J has no types
    from pyspark import SparkContext

    return SparkContext.getOrCreate()._jvm.java  # type: ignore[union-attr]  # noqa: SLF001  # the only way in


def task_python_bytes() -> float:
    """Bytes that Python holds of a task and its outcome until the pass is over."""
    gc.collect()
    tracemalloc.start()
    kept = _ended(_MEMORY_TASKS // 4 // _TASKS_PER_PARTITION)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size_bytes / len(kept[0].tasks)


def commit_cpu_ms(folder: Path, *, repeats: int) -> tuple[float, float]:
    """Of a commit, and of each segment that it lists with its position: encoded, stored, folded into a state of 20,000
    partitions."""
    backup = Large(topics=2_000, partitions=10, segments=2, commits=5).write(folder)
    state = backup.state()
    known = list(state.positions)
    few_ms: list[float] = []
    many_ms: list[float] = []
    for _ in range(repeats):
        for count, found in ((10, few_ms), (1_000, many_ms)):
            start_s = time.process_time()
            state = grow(backup, state, known[:count])
            found.append((time.process_time() - start_s) * 1000)
    slope_ms = (median(many_ms) - median(few_ms)) / 990
    return max(0.0, median(few_ms) - 10 * slope_ms), slope_ms


def ended_task_cpu_ms(folder: Path, *, repeats: int) -> float:
    """For each task of a pass that has ended, what every commit of the pass costs: it looks at all of them."""
    backup = Large(topics=1, partitions=1, segments=1, commits=5).write(folder)
    few, many = (_save_cpu_ms(backup, partitions, repeats) for partitions in (50, 250))
    return (many - few) / (200 * _TASKS_PER_PARTITION)


def _save_cpu_ms(backup: Backup, partitions: int, repeats: int) -> float:
    """Of a commit of the last tasks of a pass; the commit itself is not part of it."""
    plan, outcomes = _ended(partitions)
    took_ms = []
    for _ in range(repeats):
        copying = _pass(plan, backup.state())
        for index in range(len(outcomes) - _NEW_TASKS):
            copying.take(index, Done(value=(outcomes[index],)))
        copying.save()
        for index in range(len(outcomes) - _NEW_TASKS, len(outcomes)):
            copying.take(index, Done(value=(outcomes[index],)))
        start_s = time.process_time()
        copying.save()
        took_ms.append((time.process_time() - start_s) * 1000)
    return median(took_ms)


def _pass(plan: CopyPlan, base: BackupState) -> CopyPass:
    def commit(found: Committable, state: BackupState, _is_complete: bool) -> BackupState:  # noqa: FBT001
        CommitChanges(segments=found.segments, positions=found.positions)
        return state

    bundles = bundle_copies(plan.tasks, slots=1, packed_from=64)
    return CopyPass(copy=plan, bundles=bundles, base=base, commit=commit, thresholds=_NEVER, clock=SystemClock())


def _planned(partitions: int) -> tuple[CopyPlan, tuple[CopyBundle, ...]]:
    bounds = [
        PartitionBounds(
            topic=f"team-{number % 40:02d}.service-{number // 10:05d}.events",
            topic_id=f"{number // 10:022d}",
            partition=number % 10,
            log_start=0,
            end=1_000_000 * _TASKS_PER_PARTITION,
            size_bytes=TASK_BYTES_MAX * _TASKS_PER_PARTITION,
        )
        for number in range(partitions)
    ]
    plan = plan_copy(bounds, {}, slots=1)
    return plan, bundle_copies(plan.tasks, slots=1, packed_from=64)


def _ended(partitions: int) -> tuple[CopyPlan, list[Done[BackupReceipt]]]:
    """A plan, and the outcome of each of its tasks."""
    plan, _ = _planned(partitions)
    (model,) = news(BackupState(backup="m"), [plan.bounds[0].partition_id]).segments
    return plan, [Done(value=BackupReceipt(segments=(_segment(task, model),), holes=())) for task in plan.tasks]


def _segment(task: CopyTask, model: Segment) -> Segment:
    copied = task.range
    return replace(
        model,
        key=f"backups/m/topics/{copied.topic}/partition={copied.partition}/{copied.start:020d}-01234567.log.zst",
        topic=copied.topic,
        topic_id=task.topic_id,
        partition=copied.partition,
        start=copied.start,
        end=copied.end,
        first_offset=copied.start,
        last_offset=copied.end - 1,
        records=len(copied),
        raw_bytes=task.estimated_bytes,
        hash=f"blake3:{copied.start:064x}",
        index_key=f"backups/m/topics/{copied.topic}/partition={copied.partition}/{copied.start:020d}-01234567.idx",
        index_hash=f"blake3:{copied.end:064x}",
    )
