"""Whether a log still holds the batch that was backed up last, right before it is read on. In a worker.

Leader epochs tell of a log that a new leader has cut back (see `services.backup.log_truncation`). They do not tell of a
broker whose disk was put back to an older state and that leads in the same epoch again, nor, before topic ids (Kafka
2.8), of a topic made anew: its offsets are soon as high as before, and only its records are others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from offsite.kafka.read_task import Item, ReadTask
from offsite.log.batch import LastBatch
from offsite.log.chunk import Chunk, Hole
from offsite.log.range import LogRange
from offsite.model.errors import SourceTruncated, TopicReplaced

Read = Callable[[ReadTask], Iterator[Item]]


def check_border(read: Read, task: ReadTask, border: LastBatch) -> None:
    """Raises `SourceTruncated`, or `TopicReplaced` for a topic without an id, and what `read` raises. A log that has
    deleted the batch meanwhile is taken as it is."""
    where = replace(task.range, start=border.last_offset, end=border.last_offset + 1)
    for item in read(replace(task, range=where, reach_back=True)):
        if isinstance(item, Hole):
            return
        if isinstance(item, Chunk):
            if LastBatch.of(item.batches[0]) == border:
                return
            break
    raise _another_log(task.range, border, has_id=task.topic_id is not None)


def _another_log(log_range: LogRange, border: LastBatch, *, has_id: bool) -> SourceTruncated | TopicReplaced:
    key = log_range.topic_partition
    message = f"{key} does not hold the batch that was backed up last, at offset {border.last_offset}: "
    hint = f"keep this backup, and go on in another: offsite backup run --backup NEW --topics {key.topic}"
    if has_id:
        return SourceTruncated(f"{message}was a broker's disk put back to an older state?", hint=hint)
    return TopicReplaced(f"{message}the topic was made anew, or its log was cut back", hint=hint)
