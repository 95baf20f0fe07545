"""What reading a backup as a table costs a worker: a segment from a folder into Arrow, one core, no Spark around it.

`python -m bench.table_scan` measures this alone, in a few seconds.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.payload import write_payload
from bench.samples import Samples
from bench.scale import CODECS
from offsite.log.batch import scan
from offsite.log.range import Chunk, LogRange
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.selection import TopicSelection
from offsite.points.point_in_time import chains_of, point_in_time
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, PartitionId, Position, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.open_store import open_store
from offsite.table.scan import scan_arrow
from offsite.table.scan_plan import RowFilter, ScanTask, plan_scan

RECORDS = 300_000
_PER_BATCH = 76  # what fits into the producer's default batch.size of 16 KiB
_PASSES = 5
_CODEC_IDS = {"none": 0, "lz4": 3, "zstd": 4}


def measure_table_scan(samples: Samples, folder: Path) -> None:
    """Adds `table_scan_<codec>_records_s`. Segments are stored as a backup stores them (`--compression auto`)."""
    values = write_payload(folder / "table-payload").read_bytes().splitlines()
    backup = Repository.init(open_store(str(folder / "table"))).create_backup(
        "bench", cluster_id="bench", selection=TopicSelection(include=("*",))
    )
    for codec in CODECS:
        _write(backup, codec, values)
        selected = chains_of(point_in_time(backup.state()), [codec])
        (task,) = plan_scan(selected, RowFilter(), read_committed=True, task_bytes=1 << 40)
        for _ in range(_PASSES):
            samples.add(**{f"table_scan_{codec}_records_s": _scan(task, backup)})


def _scan(task: ScanTask, backup: Backup) -> float:
    """CPU time, not the clock's: a worker has its core to itself, the bench may not."""
    start_s = time.process_time()
    records = sum(batch.num_rows for batch in scan_arrow(task, backup.store))
    if records != RECORDS:
        raise SystemExit(f"scanned {records} of {RECORDS} records")
    return records / (time.process_time() - start_s)


def _write(backup: Backup, topic: str, values: list[bytes]) -> None:
    partition = PartitionId(topic=topic, topic_id=topic, partition=0)
    log_range = LogRange(topic=topic, partition=0, start=0, end=RECORDS)
    with SegmentWriter(store=backup.store, layout=backup.layout, log_range=log_range, topic_id=topic) as writer:
        for base in range(0, RECORDS, _PER_BATCH):
            writer.append(_chunk(base, min(base + _PER_BATCH, RECORDS), values, _CODEC_IDS[topic]))
        segments = tuple(writer.close())
    changes = CommitChanges(
        segments=segments,
        positions=(Position(partition_id=partition, log_start=0, end=RECORDS),),
        topics=(TopicShape(topic=topic, topic_id=topic, partitions=1, replication_factor=1),),
    )
    backup.commit(changes, base=backup.state(), writer=f"bench-{topic}")


def _chunk(start: int, end: int, values: list[bytes], codec: int) -> Chunk:
    records = [Record(n, 1_767_225_600_000 + n, 0, None, values[n % len(values)]) for n in range(start, end)]
    data = memoryview(encode(records, codec=codec))
    return Chunk(data=data, batches=scan(data))


def main() -> None:
    samples = Samples()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder:
        measure_table_scan(samples, Path(folder))
    for name, figures in samples.all().items():
        print(f"{name}: {max(figures):,.0f} at best, {samples.medians()[name]:,.0f} median")


if __name__ == "__main__":
    main()
