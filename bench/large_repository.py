"""Large repositories, made in seconds: what years of backups leave behind, without a broker and without the data.

Segments are only named. Commits and catalogs are written by the project's own encoders, so that what reads them cannot
tell. A long history has only its last commits: whoever opens it from a catalog reads no others.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from offsite.log.batch import LastBatch
from offsite.model.selection import TopicSelection
from offsite.repository.backup import Backup
from offsite.repository.catalog import Catalog, WrittenCatalog
from offsite.repository.commit import Commit, CommitChanges, PartitionId, Position, TopicShape
from offsite.repository.commit_history import NO_CHECKPOINT, CommitHistory
from offsite.repository.fold import fold
from offsite.repository.repository import Repository
from offsite.repository.segments.segment import Compression, Segment, SegmentList
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder

NAME = "nightly"
_OFFSETS = 1_000
"""Offsets of one segment."""

_INTERVAL_MS = 10_000
_STARTED_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    """What is in a repository: `commits` in its history, each of the last `tail` with one segment of each of `moving`
    partitions."""

    topics: int
    partitions: int
    segments: int
    commits: int
    tail: int = 5
    moving: int = 20

    def write(self, folder: Path) -> Backup:
        """Make it in `folder`, which is not there yet: a catalog of all but the last `tail` commits, and those."""
        backup = _empty(folder)
        state = self.state()
        head = Commit(backup=NAME, seq=state.seq, previous="0" * 64, writer="w", committed_at_ms=state.committed_at_ms)
        state = replace(state, head_hash=backup.log.append(backup.log.encode(head)).hash)
        kept = Catalog(log=backup.log).write(state)
        catalog, state = kept.seal, kept.state
        for _ in range(self.tail):
            state = grow(backup, state, list(state.positions)[: self.moving], catalog=catalog)
            catalog = ""
        return backup

    def state(self) -> BackupState:
        """Without the last commits; nothing is written."""
        seq = self.commits - self.tail
        shapes = tuple(_shape(number, self.partitions) for number in range(self.topics))
        known = [each for shape in shapes for each in shape.partition_ids]
        return BackupState(
            backup=NAME,
            seq=seq,
            committed_at_ms=_STARTED_MS + seq * _INTERVAL_MS,
            topics={shape.incarnation: shape for shape in shapes},
            positions={each: _position(each, self.segments * _OFFSETS) for each in known},
            segments={each: SegmentList(_segments(each, self.segments)) for each in known},
            history=_history(seq),
        )


def write_growing(folder: Path, *, commits: int, partitions: int) -> Backup:
    """A backup of `commits` commits, each with one segment of each of `partitions`, and the catalogs that are due."""
    backup = _empty(folder)
    state = backup.state()
    shape = _shape(0, partitions)
    for _ in range(commits):
        kept = backup.catalog.write(state) if backup.catalog.is_due(state) else WrittenCatalog(seal="", state=state)
        state = grow(backup, kept.state, tuple(shape.partition_ids), catalog=kept.seal, shapes=(shape,))
    return backup


def grow(
    backup: Backup,
    state: BackupState,
    moving: list[PartitionId] | tuple[PartitionId, ...],
    *,
    catalog: str = "",
    shapes: tuple[TopicShape, ...] = (),
) -> BackupState:
    """One more commit, with one segment of each partition in `moving`; nobody looks whether its objects are there."""
    commit = Commit(
        backup=NAME,
        seq=state.seq + 1,
        previous=state.head_hash,
        writer="w",
        committed_at_ms=state.committed_at_ms + _INTERVAL_MS,
        changes=news(state, moving, shapes=shapes),
        catalog=catalog,
    )
    return fold(state, [backup.log.append(backup.log.encode(commit))])


def news(
    state: BackupState, moving: list[PartitionId] | tuple[PartitionId, ...], *, shapes: tuple[TopicShape, ...] = ()
) -> CommitChanges:
    ends = [(each, state.positions[each].end if each in state.positions else 0) for each in moving]
    return CommitChanges(
        segments=tuple(_segment(each, end) for each, end in ends),
        positions=tuple(_position(each, end + _OFFSETS) for each, end in ends),
        topics=shapes,
        accounted=True,
    )


def _empty(folder: Path) -> Backup:
    folder.mkdir(parents=True)
    repository = Repository.init(open_folder(folder))
    return repository.create_backup(NAME, cluster_id="cluster", selection=TopicSelection(include=("*",)))


def _shape(number: int, partitions: int) -> TopicShape:
    topic = f"team-{number % 40:02d}.service-{number:05d}.events"
    digest = hashlib.sha256(topic.encode()).hexdigest()[:22]
    configs = (("cleanup.policy", "delete"), ("retention.ms", "604800000"))
    return TopicShape(topic=topic, topic_id=digest, partitions=partitions, replication_factor=3, configs=configs)


def _position(known: PartitionId, end: int) -> Position:
    last = LastBatch(last_offset=end - 1, crc=hash((known.partition, end)) & 0xFFFFFFFF)
    return Position(partition_id=known, log_start=0, end=end, leader_epoch=7, last_batch=last)


def _segments(known: PartitionId, count: int) -> Iterator[Segment]:
    return (_segment(known, number * _OFFSETS) for number in range(count))


def _segment(known: PartitionId, start: int) -> Segment:
    name = f"{known.topic}+{known.partition}-{start:020d}-"
    digest = hashlib.sha256(name.encode()).hexdigest()
    folder = f"backups/{NAME}/topics/{known.topic}/partition={known.partition}"
    return Segment(
        key=f"{folder}/{name}{digest[:8]}.log.zst",
        topic=known.topic,
        topic_id=known.topic_id,
        partition=known.partition,
        start=start,
        end=start + _OFFSETS,
        first_offset=start,
        last_offset=start + _OFFSETS - 1,
        records=_OFFSETS,
        control_batches=0,
        batches=13,
        largest_batch_bytes=16_000 + start % 97,
        raw_bytes=1_000_000 + start % 7919,
        stored_bytes=400_000 + start % 6101,
        compression=Compression.ZSTD,
        base_timestamp_min_ms=_STARTED_MS + start,
        timestamp_max_ms=_STARTED_MS + start + 999,
        timestamp_types=(0,),
        leader_epochs=(7,),
        has_transactions=False,
        hash=f"blake3:{digest}",
    )


def _history(commits: int) -> CommitHistory:
    drawn = random.Random(1)  # noqa: S311 - figures, not secrets
    records = [drawn.randrange(20_000) for _ in range(min(commits, 9_973))]
    sizes = [records[number % len(records)] for number in range(commits)] if commits else []
    times = (_STARTED_MS + (number + 1) * _INTERVAL_MS + number % 83 for number in range(commits))
    return CommitHistory(
        [
            array("q", range(1, commits + 1)),
            array("q", times),
            array("q", sizes),
            array("q", (size * 1_013 for size in sizes)),
            array("q", (size * 401 for size in sizes)),
            array("q", bytes(8 * commits)),
            array("q", [NO_CHECKPOINT]) * commits,
        ]
    )
