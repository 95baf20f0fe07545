"""What a compaction costs: records of few keys in a folder, compacted by Spark on the cores of this machine.

`python -m bench.compaction [--records N] [--keys N]`: makes a backup of one topic, compacts it, and prints the seconds
from the start of Spark to the commit, and the peak memory of each process. Two minutes by default.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from offsite.engine.spark_runner import SparkRunner
from offsite.log.batch import scan
from offsite.log.range import Chunk, LogRange
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.options import CompressionChoice
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, PartitionId, Position, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.open_store import open_store
from offsite.upkeep.compaction.plan import CompactionRequest, plan_compaction
from offsite.upkeep.compaction.run import CompactionResult, compact

PARTITIONS = 4
LZ4 = 3
_TOPIC = TopicShape(
    topic="accounts",
    topic_id="bench",
    partitions=PARTITIONS,
    replication_factor=1,
    configs=(("cleanup.policy", "compact"),),
)
_PER_BATCH = 130
_PER_CHUNK = 100
_SEGMENT_BYTES = 32 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-", dir=options.dir) as folder:
        backup = Repository.init(open_store(folder)).create_backup(
            "bench", cluster_id="bench", selection=TopicSelection(include=("*",))
        )
        _fill(backup, options.records, options.keys)
        _measure(backup, options.records, options.keys)


def _measure(backup: Backup, records: int, keys: int) -> None:
    load = os.getloadavg()[0]
    before_ticks = int(time.process_time() * os.sysconf("SC_CLK_TCK"))  # what making the records took
    begin_s = time.monotonic()
    runner = SparkRunner(preload=["offsite.upkeep.compaction.rewrite"])
    runner.begin()
    try:
        plan = plan_compaction(backup, CompactionRequest())
        done = compact(backup, plan, runner=runner)
        took_s = time.monotonic() - begin_s
        used_s, peaks = _usage(before_ticks)
    finally:
        runner.close()
    _print(done, took_s, load)
    print(f"processor time {used_s:.0f} s")
    print(f"peak memory in MiB: {', '.join(f'{name} {peak}' for name, peak in peaks)}")
    expected = min(records, keys)
    if not 0.9 * expected <= done.records_after <= keys:
        raise SystemExit(f"{done.records_after} records are left of {keys} keys")


def _print(done: CompactionResult, took_s: float, load: float) -> None:
    print(
        f"{done.records_before:,} records ({done.bytes_before / 2**20:,.0f} MiB) to {done.records_after:,} "
        f"({done.bytes_after / 2**20:,.0f} MiB) in {took_s:.1f} s on {os.cpu_count()} cores, load {load:.1f} before"
    )


def _usage(before_ticks: int) -> tuple[float, list[tuple[str, int]]]:
    """Seconds of processor time of this process and those below it, and the peak of each in MiB: Linux only."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _status(entry)):
            parents[int(entry.name)] = int(fields["PPid"])
    ours = {os.getpid()}
    for _ in range(4):
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    ticks, found = 0, []
    for entry in (Path("/proc") / str(pid) for pid in sorted(ours)):
        fields = _status(entry)
        if "VmHWM" in fields:
            found.append((fields["Name"], int(fields["VmHWM"].split()[0]) // 1024))
            ticks += sum(map(int, (entry / "stat").read_text().rpartition(")")[2].split()[11:13]))
    return (ticks - before_ticks) / os.sysconf("SC_CLK_TCK"), found


def _status(entry: Path) -> dict[str, str]:
    try:
        lines = (entry / "status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _fill(backup: Backup, records: int, keys: int) -> None:
    rng = random.Random(1)  # noqa: S311  # which keys come is no secret
    each = records // PARTITIONS
    made: list[Segment] = []
    for partition in range(PARTITIONS):
        low, high = keys * partition // PARTITIONS, keys * (partition + 1) // PARTITIONS
        made += _segments(backup, partition, each, range(low, high), rng)
    ids = tuple(_TOPIC.partition_ids)
    changes = CommitChanges(
        segments=tuple(made),
        positions=tuple(Position(partition_id=each_id, log_start=0, end=each) for each_id in ids),
        topics=(_TOPIC,),
    )
    backup.commit(changes, base=backup.state(), writer="bench")


def _segments(backup: Backup, partition: int, count: int, keys: range, rng: random.Random) -> tuple[Segment, ...]:
    known = PartitionId(topic=_TOPIC.topic, topic_id=_TOPIC.topic_id, partition=partition)
    log_range = LogRange(topic=known.topic, partition=partition, start=0, end=count)
    with SegmentWriter(
        store=backup.store,
        layout=backup.layout,
        log_range=log_range,
        topic_id=known.topic_id,
        compression=CompressionChoice.NONE,
        target_bytes=_SEGMENT_BYTES,
    ) as writer:
        for chunk in _chunks(count, keys, rng):
            writer.append(chunk)
        return writer.close()


def _chunks(count: int, keys: range, rng: random.Random) -> Iterator[Chunk]:
    for base in range(0, count, _PER_BATCH * _PER_CHUNK):
        data = bytearray()
        for start in range(base, min(base + _PER_BATCH * _PER_CHUNK, count), _PER_BATCH):
            data += _batch(start, min(start + _PER_BATCH, count), keys, rng)
        yield Chunk(data=memoryview(data), batches=scan(data))


def _batch(start: int, end: int, keys: range, rng: random.Random) -> bytearray:
    records = [
        Record(
            offset,
            1_767_225_600_000 + offset,
            0,
            b"account-%012d" % key,
            b'{"account":%d,"balance":%d,"currency":"EUR","version":%d}' % (key, rng.randrange(10**9), offset),
        )
        for offset, key in zip(range(start, end), rng.choices(keys, k=end - start), strict=True)
    ]
    return encode(records, codec=LZ4)


if __name__ == "__main__":
    main()
