"""Backups for tests of the table: commits of whatever batches a test makes, and a store that counts what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.log.batch import scan
from offsite.log.buffer import Buffer
from offsite.log.range import LogRange, PartitionId
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.state import BackupState
from offsite.stores.store import ObjectInfo, ObjectWriter, PutResult, Store
from tests.batches import FIRST_TIME_MS, chunk_of

ORDERS = PartitionId(topic="orders", topic_id="id-orders", partition=0)
ORDERS_1 = PartitionId(topic="orders", topic_id="id-orders", partition=1)
USERS = PartitionId(topic="users", topic_id="id-users", partition=0)


def new_table(store: Store) -> Backup:
    return Repository.init(store).create_backup("b", cluster_id="c", selection=TopicSelection(include=("*",)))


def batch_of(base: int, count: int, **options: object) -> bytes:
    """`count` records from offset `base` on, each a millisecond later; `options` are those of `encode`, and `value`."""
    value = options.pop("value", b"value")
    records = [Record(o, FIRST_TIME_MS + o, 0, b"k%d" % o, value, ()) for o in range(base, base + count)]  # type: ignore[arg-type]
    return bytes(encode(records, **options))  # type: ignore[arg-type]


def transactional(base: int, count: int, *, producer_id: int, sequence: int) -> bytes:
    return batch_of(
        base, count, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )


def commit_batches(
    backup: Backup, batches: Mapping[PartitionId, Sequence[bytes]], *, holds_schemas: bool = False, partitions: int = 2
) -> BackupState:
    """One commit with one segment for each partition, which goes on where the one before ended."""
    base = backup.state()
    segments, positions, shapes = [], [], []
    for partition, found in batches.items():
        segment = _write(backup, base, partition, b"".join(found))
        segments.append(segment)
        positions.append(Position(partition_id=partition, log_start=0, end=segment.end))
        shapes.append(
            TopicShape(
                topic=partition.topic,
                topic_id=partition.topic_id,
                partitions=partitions,
                replication_factor=1,
                holds_schemas=holds_schemas,
            )
        )
    changes = CommitChanges(segments=tuple(segments), positions=tuple(positions), topics=tuple(shapes))
    return backup.commit(changes, base=base, writer=f"writer-{base.seq}")


def _write(backup: Backup, base: BackupState, partition: PartitionId, data: bytes) -> Segment:
    known = base.positions.get(partition)
    log_range = LogRange(
        topic=partition.topic,
        partition=partition.partition,
        start=known.end if known else scan(data)[0].base_offset,
        end=scan(data)[-1].next_offset,
    )
    with SegmentWriter(
        store=backup.store, layout=backup.layout, log_range=log_range, topic_id=partition.topic_id
    ) as writer:
        writer.append(chunk_of(data))
        (segment,) = writer.close()
    return segment


@dataclass(kw_only=True)
class CountingStore:
    """Passes everything to `inner`; `read_bytes` counts what was read of segments and their indexes, by key."""

    inner: Store
    read_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def total_read_bytes(self) -> int:
        return sum(size for key, size in self.read_bytes.items() if "/topics/" in key)

    def get(self, key: str) -> bytes | None:
        return self._counted(key, self.inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._counted(key, self.inner.get_range(key, start, length))

    def prepare(self) -> None:
        self.inner.prepare()

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        return self.inner.put_if_absent(key, data)

    def put_overwrite(self, key: str, data: Buffer) -> None:
        self.inner.put_overwrite(key, data)

    def open_write(self, key: str) -> ObjectWriter:
        return self.inner.open_write(key)

    def head(self, key: str) -> ObjectInfo | None:
        return self.inner.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def now_ms(self) -> int:
        return self.inner.now_ms()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        return self.inner.sweep_unfinished(before_ms=before_ms)

    def _counted(self, key: str, data: bytes | None) -> bytes | None:
        self.read_bytes[key] = self.read_bytes.get(key, 0) + len(data or b"")
        return data
