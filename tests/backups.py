"""Backups for tests: a run that copies the next batches of some partitions and commits them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from offsite.log.range import LogRange, PartitionId
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit, CommitChanges, Position, ProvenGap, TopicShape
from offsite.repository.coverage import find_unaccounted
from offsite.repository.repository import Repository
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from tests.batches import chunk_of, make_log

SELECTION = TopicSelection(include=("orders", "users"))
SHAPES = (
    TopicShape(topic="orders", topic_id="id-orders", partitions=2, replication_factor=1, configs=(("a", "b"),)),
    TopicShape(topic="users", topic_id="id-users", partitions=1, replication_factor=1),
)
PARTITIONS = tuple(
    PartitionId(topic=shape.topic, topic_id=shape.topic_id, partition=partition)
    for shape in SHAPES
    for partition in range(shape.partitions)
)
STEP = 20

_writers = count()


def new_backup(store: Store, name: str = "b") -> Backup:
    return Repository.init(store).create_backup(name, cluster_id="cluster", selection=SELECTION)


def write_segment(store: Store, backup: Backup, partition_id: PartitionId, start: int, end: int) -> Segment:
    log_range = LogRange(topic=partition_id.topic, partition=partition_id.partition, start=start, end=end)
    with SegmentWriter(
        store=store, layout=backup.layout, log_range=log_range, topic_id=partition_id.topic_id
    ) as writer:
        writer.append(chunk_of(make_log(start, end)))
        (segment,) = writer.close()
    return segment


def run_once(backup: Backup, *, step: int = STEP) -> BackupState:
    """Copy the next `step` offsets of each partition from where the newest commit ends, and commit them."""
    return commit_next(backup, backup.state(), step=step)


def commit_next(backup: Backup, base: BackupState, *, step: int = STEP) -> BackupState:
    segments, positions = [], []
    for partition_id in PARTITIONS:
        known = base.positions.get(partition_id)
        start = known.end if known else 0
        segments.append(write_segment(backup.store, backup, partition_id, start, start + step))
        positions.append(Position(partition_id=partition_id, log_start=0, end=start + step))
    changes = CommitChanges(segments=tuple(segments), positions=tuple(positions), topics=SHAPES)
    return backup.commit(changes, base=base, writer=f"writer-{next(_writers)}")


def accounted(changes: CommitChanges, base: BackupState) -> CommitChanges:
    """`changes` as a run makes them that saw that nothing is where they have no batches."""
    gaps = tuple(
        ProvenGap(
            partition_id=passed.partition_id, start=passed.start, end=passed.end, evidence="batch", seen_at=passed.end
        )
        for passed in find_unaccounted(changes, base.accounted_ends())
    )
    return replace(changes, gaps=(*changes.gaps, *gaps), accounted=True)


def append_unchecked(backup: Backup, base: BackupState, changes: CommitChanges, *, committed_at_ms: int) -> None:
    """A commit such as no writer of ours makes: nothing of it is checked."""
    commit = Commit(
        backup=base.backup,
        seq=base.seq + 1,
        previous=base.head_hash,
        writer="w",
        committed_at_ms=committed_at_ms,
        changes=changes,
    )
    backup.log.append(backup.log.encode(commit))


def content(store: Store, state: BackupState) -> dict[PartitionId, bytes]:
    """The log of each partition up to its position."""
    return {known: b"".join(_batches(store, state, known)) for known in state.positions}


def _batches(store: Store, state: BackupState, partition_id: PartitionId) -> Iterator[bytes]:
    for segment in state.segments.get(partition_id, ()):
        for chunk in SegmentReader(store=store, segment=segment).chunks(end=state.positions[partition_id].end):
            for header in chunk.batches:
                yield bytes(header.view(chunk.data))
