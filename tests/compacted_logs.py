"""Random logs of a compacted topic, and what is true of them: which record of each key is the last, at any end.

The truth is replayed record by record from what was put in, by rules written down here a second time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from offsite.log.range import LogRange, PartitionId
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.options import CompressionChoice
from offsite.points.point_in_time import PointInTime, chains_of, point_in_time
from offsite.points.source_view import SourceView
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, TopicShape
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.state import BackupState
from tests.backups import accounted
from tests.batches import FIRST_TIME_MS, chunk_of, make_control_batch

TOPIC = PartitionId(topic="orders", topic_id="id-orders", partition=0)
KEYS: tuple[bytes | None, ...] = (
    *(b"key-%d" % number for number in range(12)),
    "straße".encode(),
    "straße".encode("latin-1"),
    "straße".encode("utf-16"),
    b"",
    None,
)
PRODUCERS = (7, 8, 9)

KeyState = dict[bytes, Record]


def compacted_shape(policy: str = "compact", **configs: str) -> TopicShape:
    settings = {"cleanup.policy": policy, **{name.replace("_", "."): value for name, value in configs.items()}}
    return TopicShape(
        topic=TOPIC.topic,
        topic_id=TOPIC.topic_id,
        partitions=1,
        replication_factor=1,
        configs=tuple(sorted(settings.items())),
    )


EVER_MS = 1 << 62


@dataclass
class LoggedBatch:
    data: bytes
    records: list[Record]
    producer_id: int | None = None


@dataclass
class CompactedLog:
    """A growing log; `markers` are offset, producer id, and whether it says commit."""

    rng: random.Random
    end: int = 0
    batches: list[LoggedBatch] = field(default_factory=list)
    markers: list[tuple[int, int, bool]] = field(default_factory=list)
    open_producers: set[int] = field(default_factory=set)
    keys: Sequence[bytes | None] = KEYS

    def grow(self, batches: int) -> bytes:
        """The bytes of some more batches, control batches among them."""
        return b"".join(self._next() for _ in range(batches))

    def settle(self) -> bytes:
        """Markers for all transactions that are open."""
        return b"".join(self._marker(producer) for producer in sorted(self.open_producers))

    def cut_at(self, offset: int) -> CompactedLog:
        """Another log that is the same below `offset`, and goes on from there."""
        markers = [marker for marker in self.markers if marker[0] < offset]
        batches = [batch for batch in self.batches if batch.records[0].offset < offset]
        decided = {producer: end for end, producer, _ in markers}
        begun = {batch.producer_id: batch.records[0].offset for batch in batches if batch.producer_id is not None}
        return CompactedLog(
            rng=self.rng,
            end=offset,
            batches=batches,
            markers=markers,
            open_producers={producer for producer, last in begun.items() if last > decided.get(producer, -1)},
            keys=self.keys,
        )

    def state_at(self, end: int, until_ms: int = EVER_MS) -> tuple[KeyState, list[Record]]:
        """As of a restore point that ends at `end`: the latest record of each key, and all records without a key, of
        those dated `until_ms` or before."""
        latest: KeyState = {}
        keyless: list[Record] = []
        for batch in self.batches:
            if batch.producer_id is not None and not self._is_committed(batch, end):
                continue
            for record in batch.records:
                if record.offset < end and record.timestamp_ms <= until_ms:
                    if record.key is None:
                        keyless.append(record)
                    else:
                        latest[record.key] = record
        return {key: record for key, record in latest.items() if record.value is not None}, keyless

    def _is_committed(self, batch: LoggedBatch, end: int) -> bool:
        first = batch.records[0].offset
        decided = (
            good for offset, producer, good in self.markers if producer == batch.producer_id and first < offset < end
        )
        return next(decided, False)

    def _next(self) -> bytes:
        if self.open_producers and self.rng.random() < 0.2:
            return self._marker(self.rng.choice(sorted(self.open_producers)))
        producer = self.rng.choice(PRODUCERS) if self.rng.random() < 0.4 else None
        return self._batch(producer)

    def _batch(self, producer: int | None) -> bytes:
        rng = self.rng
        records = []
        for _ in range(rng.randrange(1, 6)):
            value = None if rng.random() < 0.25 else b"value-%d" % self.end
            headers = (("h", b"%d" % self.end),) if rng.random() < 0.3 else ()
            time_ms = FIRST_TIME_MS + self.end + rng.randrange(-50, 50)
            records.append(Record(self.end, time_ms, 0, rng.choice(self.keys), value, headers))
            self.end += 1
        is_append_time = rng.random() < 0.2
        data = encode(
            records,
            codec=rng.choice((0, 0, 1, 2, 3, 4)),
            leader_epoch=3,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            is_transactional=producer is not None,
            is_append_time=is_append_time,
        )
        if is_append_time:
            latest = max(record.timestamp_ms for record in records)
            records = [record._replace(timestamp_ms=latest, timestamp_type=1) for record in records]
        if producer is not None:
            self.open_producers.add(producer)
        self.batches.append(LoggedBatch(bytes(data), records, producer))
        return bytes(data)

    def _marker(self, producer: int) -> bytes:
        committed = self.rng.random() < 0.6
        self.markers.append((self.end, producer, committed))
        self.open_producers.discard(producer)
        self.end += 1
        return make_control_batch(self.end - 1, producer_id=producer, committed=committed)


def commit_log(backup: Backup, data: bytes, end: int, shape: TopicShape, *, pieces: int = 1) -> BackupState:
    """One more commit: `data`, up to offset `end`, in about so many segments."""
    base = backup.state()
    start = base.positions[TOPIC].end if TOPIC in base.positions else 0
    changes = CommitChanges(
        segments=tuple(segments_of(backup, data, start, end, pieces)) if data else (),
        positions=(Position(partition_id=TOPIC, log_start=0, end=end, leader_epoch=3),),
        topics=(shape,),
    )
    return backup.commit(accounted(changes, base), base=base, writer=f"writer-{base.seq}")


def segments_of(backup: Backup, data: bytes, start: int, end: int, pieces: int) -> Iterator[Segment]:
    """The batches of `data` in about `pieces` segments, which share `[start, end)` out."""
    chunk = chunk_of(data)
    headers = list(chunk.batches)
    size = max(1, len(headers) // pieces)
    groups = [headers[low : low + size] for low in range(0, len(headers), size)]
    for number, group in enumerate(groups):
        until = groups[number + 1][0].base_offset if number + 1 < len(groups) else end
        log_range = LogRange(topic=TOPIC.topic, partition=0, start=start, end=until)
        with SegmentWriter(
            store=backup.store,
            layout=backup.layout,
            log_range=log_range,
            topic_id=TOPIC.topic_id,
            compression=CompressionChoice.NONE,
        ) as writer:
            writer.append(chunk_of(data[group[0].position : group[-1].end_position]))
            yield from writer.close()
        start = until


def forget(backup: Backup, doomed: Sequence[int]) -> BackupState:
    """Drop these restore points."""
    base = backup.state()
    spans = tuple((seq, seq + 1) for seq in doomed)
    return backup.commit(CommitChanges(forgotten=spans), base=base, writer=f"forget-{base.seq}")


def read_state(backup: Backup, seq: int) -> tuple[KeyState, list[Record], int]:
    """The same as `CompactedLog.state_at`, as a restore of commit `seq` reads it, and how many records it read."""
    return read_point(backup, point_in_time(backup.state_at(seq)))


def read_point(backup: Backup, point: PointInTime) -> tuple[KeyState, list[Record], int]:
    """The same for any point."""
    latest: KeyState = {}
    keyless: list[Record] = []
    read = 0
    for chain in chains_of(point, [TOPIC.topic]).chains:
        for batch in SourceView(chain, backup.store, read_committed=True).batches():
            for record in batch.records():
                read += 1
                if record.key is None:
                    keyless.append(record)
                else:
                    latest[record.key] = record
    return {key: record for key, record in latest.items() if record.value is not None}, keyless, read
