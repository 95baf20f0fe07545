"""How `format-1` was made, once, by the last version whose JSON objects had no digest: `python -m
tests.golden.make_format_1 FOLDER`. It never changes once released."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

from offsite.log.group_offsets import GroupOffsets, TopicOffsets
from offsite.log.range import LogRange, PartitionId
from offsite.model.options import CompressionChoice
from offsite.model.selection import TopicSelection
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import Checkpoint, CommitChanges, Position, RecordedHole, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.snapshots.group_snapshot import put_group_snapshot
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from tests.batches import chunk_of, make_batch, make_control_batch, make_log

SHAPE = TopicShape(
    topic="orders",
    topic_id="4YQ6qCcFQx2kXQGZ9vX7gA",
    partitions=2,
    replication_factor=3,
    configs=(("retention.ms", "1"),),
)
FIRST, SECOND = (
    PartitionId(topic="orders", topic_id=SHAPE.topic_id, partition=partition) for partition in range(SHAPE.partitions)
)
HOLE = RecordedHole(partition_id=SECOND, start=0, end=500, reason="retention")
CHECKPOINT = Checkpoint(id=1, taken_at_ms=1_700_000_000_000, ends=((FIRST, 131),), classes=(("orders", "exact"),))
GROUPS = {
    "billing": GroupOffsets(
        group="billing",
        kind="consumer",
        state="Stable",
        topics=(
            TopicOffsets(
                topic="orders",
                topic_id=SHAPE.topic_id,
                partitions=array("i", (0, 1)),
                offsets=array("q", (100, 560)),
                leader_epochs=array("i", (0, -1)),
                metadata=("", "at noon"),
            ),
        ),
    )
}
SECOND_LOG = make_log(500, 560, value=b"v" * 50, codec=4)
FIRST_LOG = make_log(0, 100) + make_batch(100)
TRANSACTION = make_batch(110) + make_batch(120) + make_control_batch(130, producer_id=7, committed=True)


def write(backup: Backup, known: PartitionId, span: tuple[int, int], log: bytes, kind: CompressionChoice) -> Segment:
    log_range = LogRange(topic=known.topic, partition=known.partition, start=span[0], end=span[1])
    with SegmentWriter(
        store=backup.store, layout=backup.layout, log_range=log_range, topic_id=known.topic_id, compression=kind
    ) as writer:
        writer.append(chunk_of(log))
        return writer.close()[0]


def make(folder: Path) -> BackupState:
    store = open_folder(folder)
    selection = TopicSelection(include=("orders",), exclude=("orders-dlq",))
    backup = Repository.init(store).create_backup(
        "nightly", cluster_id="MkU3OEVBNTcwNTJENDM2Qg", selection=selection, options=(("compression", "auto"),)
    )
    groups = put_group_snapshot(store, backup.layout, 1, GROUPS)
    state = backup.commit(
        CommitChanges(
            segments=(
                write(backup, FIRST, (0, 110), FIRST_LOG, "zstd"),
                write(backup, SECOND, (500, 600), SECOND_LOG, "auto"),
            ),
            positions=(
                Position(partition_id=FIRST, log_start=0, end=110),
                Position(partition_id=SECOND, log_start=500, end=600),
            ),
            topics=(SHAPE,),
            holes=(HOLE,),
            groups=groups,
        ),
        base=backup.state(),
        writer="golden-1",
    )
    catalog.COMMITS_PER_CATALOG = 1
    segment = write(backup, FIRST, (110, 131), TRANSACTION, "none")
    return backup.commit(
        CommitChanges(
            segments=(segment,), positions=(Position(partition_id=FIRST, log_start=0, end=131),), checkpoint=CHECKPOINT
        ),
        base=state,
        writer="golden-2",
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
