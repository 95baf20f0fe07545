"""Finds keys that a generation holds and the next one lacks, with the shuffle of compaction.

The last committed record of a key in the older generation counts. A key is lost if the record is no tombstone and the
next generation has no record of the key at its offset or behind. The source neither replaced nor deleted such a record:
it was emptied (records deleted, retention, another policy). Nothing can replace a record without a key.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from offsite.archives.archive import ArchiveReader, Piece
from offsite.engine.runner import Failed, Runner, Shuffle, ShuffledTask, job_named
from offsite.log.range import PartitionId
from offsite.log.records.record_columns import KeyedRecords
from offsite.model.errors import OffsiteError
from offsite.model.names import amount
from offsite.model.units import MIB
from offsite.repository.state import BackupState
from offsite.stores.store import Store
from offsite.upkeep.compaction.latest import (
    LatestCollector,
    LatestKeys,
    UnreadableRegion,
    count_buckets,
    find_latest,
    report_unreadable,
)
from offsite.upkeep.compaction.regions import MAX_END, CompactionPart, Region, make_parts

TaskT = TypeVar("TaskT")

_BUCKET_FILE_BYTES = 32 * MIB
"""Approximate bytes of compressed archive files whose keys share a bucket: the number of their records is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The partition of a stretch of the job, by index, and its generation."""

    partition: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LostKeys:
    """The number of lost keys, or of lost records without a key, in a partition, and their first offset."""

    partition: int
    keys: int
    first: int


def lost_of_backups(
    old: BackupState,
    new: BackupState,
    *,
    topics: Collection[tuple[str, str]] | None,
    store: Store,
    runner: Runner,
) -> tuple[str, ...]:
    """What `old` holds and `new` lacks, a sentence per partition. `topics`: names and ids of the compared topics (None:
    all). Raises the errors of reading and of Spark."""
    partitions = [
        partition
        for partition in sorted(old.segments)
        if topics is None or (partition.topic, partition.topic_id) in topics
    ]
    regions, sides = _regions(partitions, old, new)
    parts = [replace(part, first=()) for part in make_parts(regions)[0]]  # every tombstone counts
    buckets = count_buckets(parts, slots=runner.slots)
    find = partial(find_keys, store=store, buckets=buckets, sides=sides)
    lost = _lost(parts, find, report_unreadable, sides, buckets=buckets, runner=runner)
    return tuple(_describe_lost(partitions[at], keys, first, new) for at, (keys, first) in sorted(lost.items()))


def _regions(
    partitions: Sequence[PartitionId], old: BackupState, new: BackupState
) -> tuple[Sequence[Region], Sequence[Side]]:
    """The segments of both generations, a region for every partition and generation, and the side of every region."""
    regions: list[Region] = []
    sides: list[Side] = []
    for at, partition in enumerate(partitions):
        for state, is_new in ((old, False), (new, True)):
            if segments := state.segments[partition].read() if partition in state.segments else ():
                regions.append(Region(partition=partition, segments=segments, tombstones_below=MAX_END))
                sides.append(Side(partition=at, is_new=is_new))
    return regions, sides


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePart:
    """The part of a generation's archive that a task reads, and its stretch."""

    piece: Piece
    stretch: int
    reader: ArchiveReader


def lost_of_archives(
    old: ArchiveReader, new: ArchiveReader, *, topics: Collection[tuple[str, str]] | None, runner: Runner
) -> tuple[str, ...]:
    """As `lost_of_backups`, for two archives. Raises the errors of their readers and of Spark."""
    contents = old.contents(), new.contents()
    ids = [{topic.topic: topic.topic_id for topic in archive_contents.topics} for archive_contents in contents]
    partitions = sorted(
        {
            (piece.topic, piece.partition)
            for piece in contents[0].pieces
            if topics is None or (piece.topic, ids[0].get(piece.topic, "")) in topics
        }
    )
    sides = [Side(partition=at, is_new=is_new) for at, _ in enumerate(partitions) for is_new in (False, True)]
    tasks = [
        ArchivePart(piece=piece, stretch=2 * partitions.index((piece.topic, piece.partition)) + is_new, reader=reader)
        for is_new, reader, archive_contents in ((0, old, contents[0]), (1, new, contents[1]))
        for piece in archive_contents.pieces
        if (piece.topic, piece.partition) in partitions and ids[0].get(piece.topic) == ids[1].get(piece.topic)
    ]
    size_bytes = sum(task.piece.size_bytes for task in tasks)
    buckets = max(runner.slots, -(-size_bytes // _BUCKET_FILE_BYTES))
    find = partial(find_archived_keys, buckets=buckets, sides=sides)
    lost = _lost(tasks, find, spoil_archived, sides, buckets=buckets, runner=runner)
    return tuple(_sentence(*partitions[at], keys, first, log_start=0) for at, (keys, first) in sorted(lost.items()))


def find_archived_keys(
    part: ArchivePart, *, buckets: int, sides: Sequence[Side]
) -> Iterator[tuple[int, LatestKeys | UnreadableRegion]]:
    """As `find_keys`, for a piece of an archive."""
    gathering = LatestCollector(buckets)
    for records in part.reader.read(part.piece):
        keyed = KeyedRecords(
            [record.key for record in records],
            [record.offset for record in records],
            [record.value for record in records],
        )
        for bucket, gathered in gathering.take(part.stretch, keyed, MAX_END):
            yield _bucket(bucket, gathered, sides, buckets), gathered
    for bucket, gathered in gathering.flush():
        yield _bucket(bucket, gathered, sides, buckets), gathered


def spoil_archived(part: ArchivePart, error: OffsiteError) -> Iterator[tuple[int, LatestKeys | UnreadableRegion]]:  # noqa: ARG001
    """The substitute for an unreadable part."""
    yield 0, UnreadableRegion((0, 1), error)


def _lost(  # noqa: PLR0913  # the two ways to read, and what both need
    tasks: Sequence[TaskT],
    find: Callable[[TaskT], Iterator[tuple[int, LatestKeys | UnreadableRegion]]],
    give_up: Callable[[TaskT, OffsiteError], Iterator[tuple[int, LatestKeys | UnreadableRegion]]],
    sides: Sequence[Side],
    *,
    buckets: int,
    runner: Runner,
) -> Mapping[int, tuple[int, int]]:
    """The number of lost keys of every partition and their first offset, by index."""
    shuffle = Shuffle(buckets=buckets, find=find, send=partial(send_lost, sides=sides), give_up=give_up)
    lost: dict[int, tuple[int, int]] = {}
    with job_named(f"compare generations: {amount(len(tasks), 'part')}"):
        outcomes = runner.run_shuffled(tasks, gather_lost, shuffle) if tasks else []
    for outcome in outcomes:
        if isinstance(outcome, Failed):
            raise outcome.error
        for lost_keys in outcome.value:
            keys, first = lost.get(lost_keys.partition, (0, lost_keys.first))
            lost[lost_keys.partition] = keys + lost_keys.keys, min(first, lost_keys.first)
    return lost


def find_keys(
    part: CompactionPart, *, store: Store, buckets: int, sides: Sequence[Side]
) -> Iterator[tuple[int, LatestKeys | UnreadableRegion]]:
    """As `find_latest`; records without a key of both generations share a bucket."""
    for bucket, gathered in find_latest(part, store=store, buckets=buckets):
        yield _bucket(bucket, gathered, sides, buckets), gathered


def _bucket(bucket: int, gathered: LatestKeys | UnreadableRegion, sides: Sequence[Side], buckets: int) -> int:
    if isinstance(gathered, UnreadableRegion) or gathered.keys is not None:
        return bucket
    return sides[gathered.stretch].partition % buckets


@dataclass(slots=True)
class _ComparedPartition:
    """A partition in a bucket: the last offset of every key, doubled, and the offsets without a key."""

    old: dict[bytes, int] = field(default_factory=dict)
    new: dict[bytes, int] = field(default_factory=dict)
    old_without_key: set[int] = field(default_factory=set)
    new_without_key: set[int] = field(default_factory=set)

    def take(self, gathered: LatestKeys, *, is_new: bool) -> None:
        if gathered.keys is None:
            (self.new_without_key if is_new else self.old_without_key).update(gathered.offsets)
            return
        newest = self.new if is_new else self.old
        for key, offset in zip(gathered.keys, gathered.offsets, strict=True):
            newest[key] = max(offset, newest.get(key, -1))

    def lost(self) -> Sequence[int]:
        """The offsets of lost records. The lowest bit of a doubled offset marks a tombstone."""
        of_keys = (at >> 1 for key, at in self.old.items() if not at & 1 and self.new.get(key, -1) | 1 < at)
        return array("q", chain(of_keys, self.old_without_key - self.new_without_key))


def send_lost(
    received: Iterator[LatestKeys | UnreadableRegion], *, sides: Sequence[Side]
) -> Iterator[tuple[int, LostKeys | UnreadableRegion]]:
    """Send the losses of a bucket to the first task, and the errors of unreadable parts."""
    compared: dict[int, _ComparedPartition] = {}
    for batch in received:
        if isinstance(batch, UnreadableRegion):
            yield 0, batch
            continue
        side = sides[batch.stretch]
        compared.setdefault(side.partition, _ComparedPartition()).take(batch, is_new=side.is_new)
    for partition, both in compared.items():
        if offsets := both.lost():
            yield 0, LostKeys(partition=partition, keys=len(offsets), first=min(offsets))


def gather_lost(fed: ShuffledTask[TaskT, LostKeys | UnreadableRegion]) -> tuple[LostKeys, ...]:
    """The losses sent to a task. Raises the error of an unreadable part."""
    lost: list[LostKeys] = []
    for lost_keys in fed.received:
        if isinstance(lost_keys, UnreadableRegion):
            raise lost_keys.error
        lost.append(lost_keys)
    return tuple(lost)


def _describe_lost(partition_id: PartitionId, keys: int, first: int, new: BackupState) -> str:
    position = new.positions.get(partition_id)
    return _sentence(
        partition_id.topic, partition_id.partition, keys, first, log_start=position.log_start if position else 0
    )


def _sentence(topic: str, partition: int, keys: int, first: int, *, log_start: int) -> str:
    lost = f"{topic}/{partition}: {amount(keys, 'key')} from offset {first} on that were not replaced or deleted"
    emptied = f"; its log starts at {log_start} now: somebody, or its retention, deleted records"
    return f"{lost}{emptied if log_start > first else ''}"
