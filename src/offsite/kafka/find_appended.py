"""Which batches without acknowledgement are in the log all the same, found by reading it.

A broker recognises what is sent again by the last five batches of each producer, but after a restart it remembers only
the last one (its producer snapshots hold no more). So the writer looks for itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import high_watermark
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.chunk import Chunk
from offsite.log.range import LogRange, TopicPartition
from offsite.model.clock import Clock

_IDENTITY = struct.Struct(">qhi")  # producer id, epoch, base sequence
_IDENTITY_POSITION = 43


def find_appended(
    router: Router, clock: Clock, topic_partition: TopicPartition, batches: Sequence[memoryview], *, start: int
) -> list[int]:
    """The base offsets of those of `batches`, from the first one on, that lie in the log at `start` or later.

    The batches are as `for_produce` left them, in order of sending. Raises what `high_watermark` and a reader raise.
    """
    end = max(start, high_watermark(router, topic_partition))
    log_range = LogRange(topic=topic_partition.topic, partition=topic_partition.partition, start=start, end=end)
    found: list[int] = []
    for item in PartitionReader(router, clock=clock).read(log_range):
        if isinstance(item, Chunk):
            found += _matches(item.batches, batches[len(found) :])
    return found


def _matches(headers: Iterable[BatchHeader], batches: Sequence[memoryview]) -> Iterable[int]:
    wanted = [_IDENTITY.unpack_from(batch, _IDENTITY_POSITION) for batch in batches]
    matched = 0
    for header in headers:
        identity = (header.producer_id, header.producer_epoch, header.base_sequence)
        if matched < len(wanted) and identity == wanted[matched]:
            matched += 1
            yield header.base_offset
