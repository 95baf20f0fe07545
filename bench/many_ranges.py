"""What 100,000 small ranges cost: a first backup of so many, from the plan to the commit, here or on a Spark cluster.

`python -m bench.many_ranges [--ranges N] [--partitions N] [--spark-master URL]`: each range is one record in a batch of
its own, read from a real broker. Prints seconds, and the memory of the driver: its Python process and its JVM, at their
peaks.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from confluent_kafka import Producer

from bench.cluster import Cluster, running_cluster
from offsite.backup.copy import bundle_copies
from offsite.backup.copy_plan import CopyTask
from offsite.backup.options import BackupRequest
from offsite.backup.plan import BackupPlan, plan_backup
from offsite.backup.run import run_backup
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.protocol.metadata import NewTopic
from offsite.model.selection import parse_selection
from offsite.model.units import MIB
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store

TOPIC = "ranges"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranges", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--spark-master")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder, running_cluster(Path(folder) / "k") as cluster:
        _fill(cluster, options.partitions, options.ranges // options.partitions)
        runner = SparkRunner(SparkChoice(master=options.spark_master), preload=["offsite.backup.copy"])
        try:
            _measure(cluster, Repository.init(open_store(f"{folder}/r")), runner)
        finally:
            runner.close()


def _measure(cluster: Cluster, repository: Repository, runner: SparkRunner) -> None:
    before_bytes = _peak_bytes(os.getpid())
    request = BackupRequest(backup=TOPIC, selection=parse_selection([TOPIC]))
    runner.begin()
    slots = runner.slots
    began_s = time.perf_counter()
    plan = _finely_cut(plan_backup(repository, cluster.admin, request, slots=slots), slots)
    planned_s = time.perf_counter()
    result = run_backup(plan, repository=repository, kafka=cluster.kafka, runner=runner)
    ended_s = time.perf_counter()
    own = set(_children(os.getpid())) - {cluster.broker_pid}
    jvms = [_peak_bytes(pid) for pid in own if _command(pid).endswith("java")]
    print(f"{len(plan.copy.tasks):,} ranges in {len(plan.bundles):,} tasks: {result.records:,} records")
    print(f"planned in {planned_s - began_s:.1f} s, copied and committed in {ended_s - planned_s:.1f} s")
    print(
        f"driver: {_peak_bytes(os.getpid()) / MIB:.0f} MiB of Python ({before_bytes / MIB:.0f} before), "
        f"{sum(jvms) / MIB:.0f} MiB of Java"
    )


def _finely_cut(plan: BackupPlan, slots: int) -> BackupPlan:
    """The same plan with a range for each offset, in turns round the partitions, as planners order them."""
    rows = zip_longest(*(list(_each_offset(task)) for task in plan.copy.tasks))
    tasks = tuple(task for row in rows for task in row if task is not None)
    return replace(
        plan, copy=replace(plan.copy, tasks=tasks), bundles=bundle_copies(tasks, slots=slots, packed_from=64)
    )


def _each_offset(task: CopyTask) -> Iterator[CopyTask]:
    for offset in range(task.range.start, task.range.end):
        is_first = task.is_first and offset == task.range.start
        of_one = replace(task.range, start=offset, end=offset + 1)
        yield replace(task, range=of_one, estimated_bytes=100, is_first=is_first, border=None)


def _fill(cluster: Cluster, partitions: int, records: int) -> None:
    cluster.admin.create_topics([NewTopic(name=TOPIC, partitions=partitions)])
    each_alone = {"batch.num.messages": 1, "linger.ms": 0, "max.in.flight": 5, "acks": "1"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **each_alone})
    for number in range(records):
        for partition in range(partitions):
            producer.produce(TOPIC, b"value %d" % number, partition=partition)
        producer.flush(120)
    cluster.rest()


def _peak_bytes(pid: int) -> int:
    """Of resident memory; 0 when the process has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def _children(pid: int) -> list[int]:
    found = [
        int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]
    return [*found, *(deeper for each in found for deeper in _children(each))]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
