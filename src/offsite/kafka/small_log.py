"""One partition as a log of small records that several write to, and everybody reads in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.kafka.producer import Producer
from offsite.kafka.writer import PartitionWriter
from offsite.log.chunk import Chunk, Hole
from offsite.log.range import LogRange, TopicPartition
from offsite.log.records.batch_records import decode, encode
from offsite.log.records.record import CREATE_TIME, Record, RecordHeaders
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import SourceTruncated


class SmallLog:
    """Nothing is kept between two calls. Both ends of the log may move meanwhile."""

    def __init__(self, router: Router, where: TopicPartition, *, clock: Clock | None = None) -> None:
        self._router, self._admin, self._where = router, ClusterAdmin(router), where
        self._clock = clock or SystemClock()

    def start(self) -> int:
        """The offset that the log begins at."""
        return self._admin.start_offsets([self._where])[self._where]

    def end(self) -> int:
        """The high watermark."""
        return self._admin.end_offsets([self._where])[self._where]

    def read(self, start: int, end: int) -> Iterator[Record]:
        """The records at `[start, end)`, without those that mark the ends of transactions. Raises `SourceTruncated`
        where the log no longer has them, and what a reader raises."""
        span = LogRange(topic=self._where.topic, partition=self._where.partition, start=start, end=end)
        for item in self._admin.reader().read(span, reach_back=True):
            if isinstance(item, Hole):
                raise SourceTruncated(f"{self._where} lost offsets {item.start} to {item.end - 1} while it was read")
            if isinstance(item, Chunk):
                data = (header for header in item.batches if not header.is_control)
                records = (each for header in data for each in decode(header.view(item.data), header))
                yield from (each for each in records if start <= each.offset < end)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders = (),
        producer: Producer | None = None,
    ) -> int:
        """The offset of the new record, once all replicas in sync have it, through outages. `producer`: who writes it;
        a new one unless it is given. Raises what `PartitionWriter` raises; then it may be there all the same."""
        offsets: list[int] = []
        record = Record(0, self._clock.now_ms(), CREATE_TIME, key, value, headers)
        with PartitionWriter(
            self._router, self._where, on_ack=lambda _, offset: offsets.append(offset), producer=producer
        ) as writer:
            writer.send(encode([record]))
            writer.flush()
        return offsets[-1]
