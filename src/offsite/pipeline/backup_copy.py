"""Kafka → repository: one range, in a worker. Raw batches in, segments and a receipt out; commits nothing."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from offsite.kafka.config import KafkaConfig
from offsite.kafka.reader import PartitionReader
from offsite.kafka.routing import shared_router
from offsite.log.chunk import Hole
from offsite.pipeline import meter
from offsite.pipeline.plan import CopyTask
from offsite.repository.layout import BackupLayout
from offsite.repository.segment import Segment
from offsite.repository.segment_writer import CompressionChoice, SegmentWriter
from offsite.repository.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupEnds:
    """The two ends of a backup's copy, as they travel to the workers."""

    kafka: KafkaConfig
    store: Store
    layout: BackupLayout
    compression: CompressionChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReceipt:
    """What one task did: durable segments, and holes met on the way. Void unless a commit lists the segments."""

    segments: tuple[Segment, ...]
    holes: tuple[Hole, ...]


def copy_range(task: CopyTask, *, ends: BackupEnds) -> BackupReceipt:
    """Copy the task's range. May run twice: every attempt writes under object names of its own.

    Raises what the reader and the store raise; then nothing of the range is committed.
    """
    holes: list[Hole] = []
    reader = PartitionReader(shared_router(ends.kafka))
    writer = SegmentWriter(
        store=ends.store,
        layout=ends.layout,
        log_range=task.range,
        topic_id=task.topic_id,
        compression=ends.compression,
    )
    with writer:
        for item in reader.read(task.range, topic_id=UUID(task.topic_id) if task.topic_id else None):
            if isinstance(item, Hole):
                holes.append(item)
                continue
            writer.append(item)
            meter.count(moved_bytes=len(item.data), records=sum(h.record_count for h in item.batches))
        return BackupReceipt(segments=writer.close(), holes=tuple(holes))
