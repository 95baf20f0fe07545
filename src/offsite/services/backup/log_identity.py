"""Whether a topic without an id is still the one that an earlier version backed up: by the last batch in its segments.

Positions of today know their last batch, and workers compare it (`pipeline.border`); those of before do not.

Brokers before 2.8 give topics no ids, and a topic made anew begins in leader epoch 0 again: its records alone tell it
from the one before. Topics that are or were compacted cannot be told so, because compaction rewrites batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from offsite.copy.plan import PartitionBounds, SickPartition
from offsite.log.batch import BatchHeader, LastBatch
from offsite.log.range import TopicPartition
from offsite.model.errors import Damaged, KafkaUnavailable, OffsiteError, TopicReplaced
from offsite.repository.commit import PartitionId
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.stores.store import Store

_BATCH_OFFSETS_MAX = 100_000
"""More offsets than a batch spans that was never compacted."""


class LogBatches(Protocol):
    """Batches of logs, each by an offset in it."""

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None: ...


def made_anew(
    admin: LogBatches, store: Store, base: BackupState, bounds: Sequence[PartitionBounds]
) -> Iterator[SickPartition]:
    """Those partitions of `bounds`, of topics without ids, that go on where another log ended.

    Reads one batch from each end for every partition that has news. Raises what the store raises.
    """
    for each in bounds:
        known = PartitionId(topic=each.topic, topic_id="", partition=each.partition)
        position, found = base.positions.get(known), base.segments.get(known)
        segment = found.last if found else None
        if each.topic_id or position is None or position.last_batch or segment is None or each.was_compacted:
            continue
        if each.log_start <= segment.last_offset and position.end < each.end:
            problem = _problem(admin, store, segment)
            if problem is not None:
                yield SickPartition(topic=each.topic, partition=each.partition, error=problem)


def _problem(admin: LogBatches, store: Store, segment: Segment) -> OffsiteError | None:
    partition = TopicPartition(topic=segment.topic, partition=segment.partition)
    try:
        stored, held = _last_batch(store, segment), admin.batch_at(partition, segment.last_offset)
    except (KafkaUnavailable, Damaged) as error:
        return error
    if held is not None and LastBatch.of(held) == LastBatch.of(stored):
        return None
    return TopicReplaced(
        f"{partition} does not hold the batch that was backed up last, at offset {stored.base_offset}: the topic was "
        "made anew, or its log was cut back",
        hint=f"keep this backup, and go on in another: offsite backup run --backup NEW --topics {segment.topic}",
    )


def _last_batch(store: Store, segment: Segment) -> BatchHeader:
    reader = SegmentReader(store=store, segment=segment)
    near_end = max(segment.lowest_offset, segment.last_offset - _BATCH_OFFSETS_MAX)
    last = [chunk.batches[-1] for chunk in reader.chunks(start=near_end)]
    return (last or [chunk.batches[-1] for chunk in reader.chunks()])[-1]
