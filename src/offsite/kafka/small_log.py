"""A partition as a log of small records with several writers, read by everybody in the same order."""

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
    """One partition. The object keeps nothing between calls. Both ends of the log may move meanwhile."""

    def __init__(self, router: Router, where: TopicPartition, *, clock: Clock | None = None) -> None:
        self._router, self._admin, self._where = router, ClusterAdmin(router), where
        self._clock = clock or SystemClock()

    def start(self) -> int:
        """Return the log start offset."""
        return self._admin.start_offsets([self._where])[self._where]

    def end(self) -> int:
        """Return the high watermark."""
        return self._admin.end_offsets([self._where])[self._where]

    def read(self, start: int, end: int) -> Iterator[Record]:
        """Yield the records at `[start, end)`, without transaction markers. Raises `SourceTruncated` where the log no
        longer has the records, and the errors of a reader."""
        span = LogRange(topic=self._where.topic, partition=self._where.partition, start=start, end=end)
        for item in self._admin.reader().read(span, reach_back=True):
            if isinstance(item, Hole):
                raise SourceTruncated(f"{self._where} lost offsets {item.start} to {item.end - 1} while it was read")
            if isinstance(item, Chunk):
                data = (header for header in item.batches if not header.is_control)
                records = (record for header in data for record in decode(header.view(item.data), header))
                yield from (record for record in records if start <= record.offset < end)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders = (),
        producer: Producer | None = None,
    ) -> int:
        """Append a record and return the offset, once all in-sync replicas have the record, through outages.
        `producer`: the writer, a new producer by default. Raises the errors of `PartitionWriter`; after an error the
        record may be in the log all the same."""
        offsets: list[int] = []
        record = Record(0, self._clock.now_ms(), CREATE_TIME, key, value, headers)
        with PartitionWriter(
            self._router, self._where, on_ack=lambda _, offset: offsets.append(offset), producer=producer
        ) as writer:
            writer.send(encode([record]))
            writer.flush()
        return offsets[-1]
