"""A backup of a source that is a few numbers: topics that grow, lose their beginning, are cut back and made anew.

The truth of each restore point is kept as it was made: what of each living partition must come back from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from offsite.log.range import LogRange, PartitionId
from offsite.model.ids import dated_id
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, CutBack, Position, TopicShape
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, put_record
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.state import BackupState
from tests.batches import RECORDS_PER_BATCH, chunk_of, make_batch
from tests.memory_store import MemoryStore
from tests.virtual_time import VirtualClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RETENTION_MS = DAY_MS

Truth = dict[PartitionId, dict[int, bytes]]
"""By partition: the batches that must come back, by their first offset."""


@dataclass
class Log:
    """One partition of the source: its batches by first offset, from `start` to `end`; new ones from `copied` on."""

    batches: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    copied: int = 0
    epoch: int = 0
    cut_at: int | None = None


class Retained:
    """The source, its backup, and the truth of each restore point."""

    def __init__(self, *, retention_ms: int | None = RETENTION_MS) -> None:
        self.store = MemoryStore()
        self.backup: Backup = Repository.init(self.store).create_backup(  # type: ignore[arg-type]
            "b", cluster_id="cluster", selection=TopicSelection(include=("*",))
        )
        self.logs: dict[PartitionId, Log] = {}
        self.shapes: dict[str, TopicShape] = {}
        self.gone: dict[str, list[TopicShape]] = {}
        self.truth: dict[int, Truth] = {}
        self.retention_ms = retention_ms
        self._ids = count(1)
        self._read: dict[str, dict[int, bytes]] = {}
        self._values = count(1)
        self._epochs = count(1)

    @property
    def clock(self) -> VirtualClock:
        """Of the machine and of the store."""
        return self.store.clock

    def later(self, by_ms: int) -> None:
        self.store.clock.pass_ms(by_ms)

    def make(self, topic: str, partitions: int = 1) -> None:
        """A topic; in the place of the one of that name, if there is one."""
        self.delete(topic)
        configs = () if self.retention_ms is None else (("retention.ms", str(self.retention_ms)),)
        shape = TopicShape(
            topic=topic,
            topic_id=f"id-{next(self._ids)}",
            partitions=partitions,
            replication_factor=1,
            configs=configs,
        )
        self.shapes[topic] = shape
        self.logs |= {each: Log() for each in shape.partition_ids}

    def delete(self, topic: str) -> None:
        if (shape := self.shapes.pop(topic, None)) is not None:
            self.gone.setdefault(topic, []).append(shape)
            self.logs = {each: log for each, log in self.logs.items() if each.incarnation != shape.incarnation}

    def partition(self, topic: str, number: int = 0) -> PartitionId:
        return PartitionId(topic=topic, topic_id=self.shapes[topic].topic_id, partition=number)

    def write(self, topic: str, batches: int = 1, *, number: int = 0) -> None:
        log = self.logs[self.partition(topic, number)]
        for _ in range(batches):
            log.batches[log.end] = make_batch(log.end, value=b"%d" % next(self._values))
            log.end += RECORDS_PER_BATCH

    def trim(self, topic: str, start: int, *, number: int = 0) -> None:
        """The source lets go of what lies below `start`, a first offset of a batch; what was not copied is not."""
        log = self.logs[self.partition(topic, number)]
        log.start = max(log.start, min(start, log.copied))
        log.batches = {base: data for base, data in log.batches.items() if base >= log.start}

    def cut(self, topic: str, at: int, *, number: int = 0) -> None:
        """The log is another one from `at` on, where a segment of the backup begins."""
        log = self.logs[self.partition(topic, number)]
        log.batches = {base: data for base, data in log.batches.items() if base < at}
        log.cut_at = at if log.cut_at is None else min(at, log.cut_at)
        log.end, log.start = at, min(log.start, at)

    def commit(self, *, incomplete: bool = False) -> BackupState:
        """Back up what is new; the truth of the restore point is noted."""
        base = self.backup.state()
        segments: list[Segment] = []
        positions: list[Position] = []
        cuts: list[CutBack] = []
        for known, log in sorted(self.logs.items()):
            if log.cut_at is not None:
                if log.cut_at < log.copied:
                    epoch, leader = log.epoch, next(self._epochs)
                    cuts.append(
                        CutBack(partition_id=known, at=log.cut_at, end=log.copied, epoch=epoch, leader_epoch=leader)
                    )
                    log.copied, log.epoch = log.cut_at, leader
                log.cut_at = None
            if log.copied < log.end:
                segments.append(self._segment(known, log))
            log.copied = log.end
            positions.append(
                Position(partition_id=known, log_start=log.start, end=log.end, leader_epoch=max(0, log.epoch))
            )
        changes = CommitChanges(
            segments=tuple(segments),
            positions=tuple(positions),
            cut_back=tuple(cuts),
            topics=tuple(self._topics(base)),
            incomplete=incomplete,
        )
        state = self.backup.commit(changes, base=base, writer=f"w{base.seq}")
        self.truth[state.seq] = {
            known: {b: data for b, data in log.batches.items() if log.start <= b < log.end}
            for known, log in self.logs.items()
        }
        return state

    def note(self, state: BackupState) -> None:
        """A commit that was made by others: it is a restore point too, like the one before it."""
        self.truth[state.seq] = self.truth[max(seq for seq in self.truth if seq < state.seq)]

    def restored(self, seq: int) -> Truth:
        """What comes back from restore point `seq`, of what must."""
        state = self.backup.state_at(seq)
        return {known: self._restored(state, known, batches) for known, batches in self.truth[seq].items()}

    def _restored(self, state: BackupState, known: PartitionId, wanted: dict[int, bytes]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for segment in state.segments.get(known, ()):
            found |= self._batches(segment)
        return {base: found.get(base, b"") for base in wanted if base < state.positions[known].end}

    def check(self) -> None:
        """Every restore point that is left gives all that it must, and names no hole in it."""
        for line in self.backup.state().history:
            assert self.restored(line.seq) == self.truth[line.seq], f"restore point {line.seq}"
            state = self.backup.state_at(line.seq)
            lost = [
                h
                for h in state.holes
                if any(h.start <= base < h.end for base in self.truth[line.seq].get(h.partition_id, ()))
            ]
            assert not lost, f"restore point {line.seq} says that it lacks {lost}"

    def unneeded(self) -> list[str]:
        """Segments that are held, and of which no restore point that is left must give anything; the newest of a living
        partition left out."""
        state = self.backup.state()
        needed = {data for each in state.history for held in self.truth[each.seq].values() for data in held.values()}
        lists = [(known, found[:-1] if known in self.logs else found) for known, found in state.segments.items()]
        lists += [(branch.partition_id, branch.segments) for branch in state.branches]
        return [
            f"{known} [{segment.start}, {segment.end})"
            for known, segments in lists
            for segment in segments
            if not needed & set(self._batches(segment).values())
        ]

    def _batches(self, segment: Segment) -> dict[int, bytes]:
        if segment.object_key not in self.store.objects:
            return {}
        if segment.key not in self._read:
            reader = SegmentReader(store=self.store, segment=segment.as_written)  # type: ignore[arg-type]
            self._read[segment.key] = {
                header.base_offset: bytes(header.view(chunk.data))
                for chunk in reader.chunks()
                for header in chunk.batches
            }
        held = self._read[segment.key]
        return {base: data for base, data in held.items() if segment.start <= base < segment.end}

    def _segment(self, known: PartitionId, log: Log) -> Segment:
        where = LogRange(topic=known.topic, partition=known.partition, start=log.copied, end=log.end)
        with SegmentWriter(
            store=self.store,  # type: ignore[arg-type]
            layout=self.backup.layout,
            log_range=where,
            topic_id=known.topic_id,
        ) as writer:
            data = b"".join(data for base, data in sorted(log.batches.items()) if base >= log.copied)
            writer.append(chunk_of(data))
            (segment,) = writer.close()
        return replace(segment, timestamp_max_ms=self.store.clock.now_ms())

    def _topics(self, base: BackupState) -> list[TopicShape]:
        deleted = [
            replace(shape, deleted_ms=self.store.clock.now_ms())
            for gone in self.gone.values()
            for shape in gone
            if shape.incarnation in base.topics and not base.topics[shape.incarnation].is_deleted
        ]
        return [*deleted, *self.shapes.values()]


def begin_restore(made: Retained, *, commit: int) -> None:
    """A restore of that point into another cluster is under way."""
    now_ms = made.store.clock.now_ms()
    record = RestoreRecord(
        restore=dated_id(now_ms),
        commit=commit,
        cluster_id="other",
        request=(),
        isolation="read_committed",
        offsets="translate",
        created_at_ms=now_ms,
        topics=(("a", "a"),),
        created=("a",),
    )
    put_record(made.store, RestoreLayout(backup=made.backup.layout, restore=record.restore), record)  # type: ignore[arg-type]


def twenty_days() -> Retained:
    """Twenty days of a topic that lets go after three."""
    made = Retained()
    made.make("a")
    for day in range(20):
        made.write("a")
        made.trim("a", 10 * (day - 3))
        made.commit()
        made.later(DAY_MS)
    return made


def go_on(made: Retained) -> None:
    """Commits enough for the collection to look at all before."""
    for _ in range(3):
        made.later(HOUR_MS)
        made.write("a")
        made.commit()


def objects(made: Retained) -> set[str]:
    return {key for key in made.store.objects if "/topics/" in key or "/packs/" in key}
