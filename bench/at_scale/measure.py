"""Measures the unit costs: four minutes, more on a busy machine, with a broker of its own, in a temporary folder.

CPU time, not wall time: the machine may be shared. A cost is the median over the repeats. What is fixed in a run
cancels out: the cost of a MiB is the difference of a large and a small topic, that of a small partition the difference
of many and few.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench import kafka_tools
from bench.at_scale import driver_costs
from bench.at_scale.costs import CheckRun, CopyCosts, DriverCosts, UnitCosts
from bench.at_scale.counted_store import GET, PUT
from bench.at_scale.services import Services, Took
from bench.cluster import Cluster, running_cluster
from bench.machine import describe_machine
from bench.payload import write_payload
from bench.scale import PARTITIONS
from bench.wide import fill_topics
from offsite.engine.spark_runner import SparkRunner

REPEATS = 3
CODEC = "lz4"
LARGE_RECORDS, SMALL_RECORDS, CHECK_RECORDS = 1_500_000, 150_000, 600_000
FEW, MANY = 1, 3
"""Topics of `WIDE` small partitions each."""
WIDE, RECORDS = 100, 5
_ROOT = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One way through all of it: each kind of run over each set of topics."""

    large: Took
    small: Took
    many: Took
    few: Took


def measure() -> UnitCosts:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder, _set_up(Path(folder)) as (cluster, runner):
        place = Path(folder)
        driver = _driver(runner, cluster, place)
        services = Services(cluster=cluster, runner=runner, folder=place / "repository")
        kinds = ("backup", "restore", "proof")
        _runs(services, cluster, "small")  # Spark's workers, the broker's compiler
        rounds = [_round(services, cluster) for _ in range(REPEATS)]
        backup, restore, proof = (_copy([each[kind] for each in rounds]) for kind in kinds)
        check = [_runs(services, cluster, "check w1-*") for _ in range(REPEATS)]
        commits = rounds[0]["backup"].few.requests
        heap = driver_costs.task_heap_bytes(runner)
    return UnitCosts(
        taken_on=datetime.now(UTC).date().isoformat(),
        machine=describe_machine(),
        load_average=round(max(load, os.getloadavg()[0]), 1),
        backup=backup,
        restore=restore,
        proof=proof,
        driver=_with_requests(driver, commits, heap),
        check_backup=_check([each["backup"] for each in check]),
        check_restore=_check([each["restore"] for each in check]),
    )


@contextmanager
def _set_up(folder: Path) -> Iterator[tuple[Cluster, SparkRunner]]:
    os.environ["PYTHONPATH"] = _ROOT  # workers import the counting store
    payload = write_payload(folder / "payload")
    with running_cluster(folder / "kafka") as cluster, closing(SparkRunner()) as runner:
        for topic, records in (("large", LARGE_RECORDS), ("small", SMALL_RECORDS), ("check", CHECK_RECORDS)):
            cluster.create(topic)
            kafka_tools.produce(cluster.bootstrap, topic, records=records, payload=payload, codec=CODEC)
        fill_topics(cluster, [f"w0-{number}" for number in range(MANY - FEW)], partitions=WIDE, records=RECORDS)
        fill_topics(cluster, [f"w1-{number}" for number in range(FEW)], partitions=WIDE, records=RECORDS)
        yield cluster, runner


def _round(services: Services, cluster: Cluster) -> dict[str, Round]:
    runs = {
        "large": _runs(services, cluster, "large"),
        "small": _runs(services, cluster, "small"),
        "many": _runs(services, cluster, "w0-* w1-*"),
        "few": _runs(services, cluster, "w1-*"),
    }
    return {kind: Round(**{name: each[kind] for name, each in runs.items()}) for kind in runs["large"]}


def _runs(services: Services, cluster: Cluster, topics: str) -> dict[str, Took]:
    """A backup of `topics`, its restore into topics aside, and the proof of that."""
    backup = services.back_up(topics)
    restore = services.restore("*=aside-*")
    proof = services.prove()
    cluster.delete([topic for topic in cluster.admin.topics() if topic.startswith("aside-")])
    print(f"{topics}: {backup.cpu_s:.2f}, {restore.cpu_s:.2f}, {proof.cpu_s:.2f} s of CPU", flush=True)
    return {"backup": backup, "restore": restore, "proof": proof}


def _copy(rounds: Sequence[Round]) -> CopyCosts:
    one = rounds[0]
    mib, ranges = one.large.log_mib - one.small.log_mib, WIDE * (MANY - FEW)
    gets = _slope(one.large, one.small, GET, ("segment",), mib)
    segments = PARTITIONS  # each is smaller than a segment may be
    mib_ms = median(1000 * (each.large.cpu_s - each.small.cpu_s) / mib for each in rounds)
    return CopyCosts(
        mib_ms=mib_ms,
        broker_mib_ms=median(1000 * (each.large.broker_cpu_s - each.small.broker_cpu_s) / mib for each in rounds),
        small_ms=median(1000 * (each.many.work_cpu_s - each.few.work_cpu_s) / ranges for each in rounds),
        broker_small_ms=median(1000 * (each.many.broker_cpu_s - each.few.broker_cpu_s) / ranges for each in rounds),
        plan_ms=median(1000 * (each.many.plan_cpu_s - each.few.plan_cpu_s) / ranges for each in rounds),
        run_ms=median(1000 * each.small.cpu_s - mib_ms * each.small.log_mib for each in rounds),
        mib_gets=gets,
        segment_puts=one.small.requests[PUT, "segment"] / segments,
        segment_gets=(one.small.requests[GET, "segment"] - gets * one.small.log_mib) / segments,
        partition_puts=_slope(one.many, one.few, PUT, ("run", "restore"), ranges),
        partition_gets=_slope(one.many, one.few, GET, ("run", "restore", "pack"), ranges),
    )


def _slope(more: Took, less: Took, kind: str, places: Sequence[str], by: float) -> float:
    return sum(more.requests[kind, each] - less.requests[kind, each] for each in places) / by


def _driver(runner: SparkRunner, cluster: Cluster, folder: Path) -> DriverCosts:
    task_ms, driver_task_ms = driver_costs.task_cpu_ms(runner, cluster.broker_pid, tasks=500, repeats=REPEATS)
    commit_ms, commit_segment_ms = driver_costs.commit_cpu_ms(folder / "commits", repeats=REPEATS)
    return DriverCosts(
        task_ms=task_ms,
        driver_task_ms=driver_task_ms,
        commit_ms=commit_ms,
        commit_segment_ms=commit_segment_ms,
        commit_ended_task_ms=driver_costs.ended_task_cpu_ms(folder / "ended", repeats=REPEATS),
        task_python_bytes=round(driver_costs.task_python_bytes()),
        task_heap_bytes=0,
        commit_puts=0,
        commit_gets=0,
        run_puts=0,
        run_gets=0,
    )


def _with_requests(driver: DriverCosts, run: Counter[tuple[str, str]], heap_bytes: float) -> DriverCosts:
    """`run`: of one backup with one commit. What is not the commit's own object counts for the run."""
    return replace(
        driver,
        task_heap_bytes=round(heap_bytes),
        commit_puts=run[PUT, "commit"] + 1,  # and the store's clock
        commit_gets=1 + 1,  # the clock, and whether the commit before is still there
        run_puts=run[PUT, "run"] + run[PUT, "catalog"],
        run_gets=run[GET, "run"] + run[GET, "catalog"] + run[GET, "commit"],
    )


def _check(runs: Sequence[Took]) -> CheckRun:
    return CheckRun(
        log_mib=runs[0].log_mib,
        large=PARTITIONS,
        small=WIDE * FEW,
        cores=os.cpu_count() or 1,
        wall_s=median(each.plan_s + each.work_s for each in runs),
        cpu_s=median(each.cpu_s + each.broker_cpu_s for each in runs),
    )
