"""Find the unacknowledged batches that are in the log, by reading the log.

A broker recognises a resent batch among the last five batches of a producer. After a restart the broker remembers only
the last batch (producer snapshots hold no more), so the writer reads the log.
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
    """Return the base offsets of those `batches`, from the first on, that lie in the log at `start` or later.

    The batches are as `for_produce` left them, in order of sending. Raises the errors of `high_watermark` and of a
    reader.
    """
    end = max(start, high_watermark(router, topic_partition))
    log_range = LogRange(topic=topic_partition.topic, partition=topic_partition.partition, start=start, end=end)
    offsets: list[int] = []
    for item in PartitionReader(router, clock=clock).read(log_range):
        if isinstance(item, Chunk):
            offsets += _matches(item.batches, batches[len(offsets) :])
    return offsets


def _matches(headers: Iterable[BatchHeader], batches: Sequence[memoryview]) -> Iterable[int]:
    identities = [_IDENTITY.unpack_from(batch, _IDENTITY_POSITION) for batch in batches]
    matched = 0
    for header in headers:
        identity = (header.producer_id, header.producer_epoch, header.base_sequence)
        if matched < len(identities) and identity == identities[matched]:
            matched += 1
            yield header.base_offset
