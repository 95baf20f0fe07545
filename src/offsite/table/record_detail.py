"""All that a backup knows of one record: the record decoded, its place in the log, the restore points that hold it, and
where restores of this backup have put it.

What needs time in proportion to the backup is bounded, and says so: a few commits are read back from the newest one
until the one that brought the record is found, more of them only when somebody asks; the newest restores are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from offsite.log.range import PartitionId, TopicPartition
from offsite.log.records.record import Record
from offsite.model.errors import BadOption
from offsite.model.names import amount, check_topic_name
from offsite.model.selection import TopicSelection
from offsite.model.topic_choices import PartitionSelection
from offsite.model.units import KIB
from offsite.points.held_schemas import held_schemas
from offsite.points.point_in_time import PartitionChain, PointInTime, select_chains
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.repository.commit import StoredCommit
from offsite.repository.coverage import find_range_origins
from offsite.repository.heads import check_to_read
from offsite.repository.restores.record import restore_names
from offsite.schemas.framing import FramedReader
from offsite.table.one_record import RecordPlace, read_record
from offsite.table.restored_record import RestoredRecord, RestoreLookup
from offsite.table.scan import MatchingRecord
from offsite.table.shown_record import ShownRecord, record_bytes, show_record

COMMITS_READ, SEGMENTS_READ = 8, 2_000
"""Commits read back for the one that brought a record, and the segments in them after which no further one is read."""
COMMITS_READ_DEEP, SEGMENTS_READ_DEEP = 4_096, 100_000
RESTORES_READ = 10
DECODED_MAX = 256 * KIB
"""Bytes of a record that is decoded: a megabyte of JSON may need thirty, and a second of a processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingPoints:
    """The restore points that hold the record: `count` of them, from commit `since` on (committed at `since_ms`), up to
    commit `upto`. With `is_open`, earlier ones may hold it as well: older commits were not read, or are gone."""

    since: int
    since_ms: int
    upto: int
    count: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDetail:
    """`record` None: none is at the offset (see `place`), or it `is_large`, and was not decoded. `points` None: there
    is no record. `restores`: among the newest `RESTORES_READ` restores; `more_restores` were not looked up."""

    backup: str
    commit: int
    topic: str
    partition: int
    offset: int
    place: RecordPlace
    record: ShownRecord | None
    is_large: bool
    points: HoldingPoints | None
    restores: tuple[RestoredRecord, ...]
    more_restores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """`stored`: the record with its bytes; None where the detail says that there is none."""

    detail: RecordDetail
    stored: Record | None


def find_record_detail(
    backup: Backup, partition: TopicPartition, offset: int, *, commit: int | None = None, deep: bool = False
) -> FoundRecord:
    """What the backup knows of the record at `offset`, as of the newest commit or of `commit`; of any isolation.
    `deep`: read many commits back for the restore points. Raises `NoSuchTopic`, `BadName`, `BadOption`,
    `NoSuchRestorePoint`, `DamagedObject`, and the errors of the store."""
    backup = backup.for_reading(is_named=commit is not None)
    point, chain, (place, stored) = _read(backup, partition, offset, commit)
    is_large = stored is not None and record_bytes(stored) > DECODED_MAX
    names = sorted(restore_names(backup.record_store, backup.layout), reverse=True) if stored is not None else []
    detail = RecordDetail(
        backup=backup.layout.backup,
        commit=point.commit.seq,
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        place=place,
        record=None if stored is None or is_large else _shown(backup, chain.source, stored),
        is_large=is_large,
        points=None if stored is None else _holding(backup, point, chain.source, offset, deep=deep),
        restores=_restored(backup, names[:RESTORES_READ], chain.source, stored, place),
        more_restores=max(0, len(names) - RESTORES_READ),
    )
    return FoundRecord(detail=detail, stored=stored)


def find_stored(backup: Backup, partition: TopicPartition, offset: int, *, commit: int | None = None) -> Record | None:
    """The record at `offset`, with its bytes. Raises as `find_record_detail`."""
    backup = backup.for_reading(is_named=commit is not None)
    return _read(backup, partition, offset, commit)[2][1]


def _read(
    backup: Backup, partition: TopicPartition, offset: int, commit: int | None
) -> tuple[PointInTime, PartitionChain, tuple[RecordPlace, Record | None]]:
    topic = check_topic_name(partition.topic)
    numbers = range(partition.partition, partition.partition + 1)
    request = PointRequest(
        selection=TopicSelection(include=(topic,)),
        partitions=PartitionSelection(chosen={topic: (numbers,)}),
        commit=commit,
    )
    check_to_read(backup, accept_rollback=False)
    point = find_point(backup, request, partitions_exist=False)
    selected = select_chains(point, request.selection)
    shape = selected.topics[0].shape
    if partition.partition >= shape.partitions:
        raise BadOption(f"there is no partition {partition}: the topic has {amount(shape.partitions, 'partition')}")
    source = PartitionId(topic=topic, topic_id=shape.topic_id, partition=partition.partition)
    position = point.state.positions.get(source)
    empty = PartitionChain(source=source, segments=(), end=position.end if position else 0)
    chain = next((chain for chain in selected.chains if chain.source == source), empty)
    holes = [hole for hole in selected.holes if hole.partition_id == source]
    return point, chain, read_record(chain, holes, offset, backup.store)


def _shown(backup: Backup, source: PartitionId, record: Record) -> ShownRecord:
    framed = FramedReader(partial(held_schemas, backup))
    return show_record(MatchingRecord(partition=source, record=record), framed)


def _holding(backup: Backup, point: PointInTime, source: PartitionId, offset: int, *, deep: bool) -> HoldingPoints:
    """The points from the commit that brought the record on. Without that commit among those read, the record was there
    before all of them."""
    newest, span = point.commit, (offset, offset + 1)
    if deep:
        commits = _some(backup.log.read_down(upto=newest.seq), COMMITS_READ_DEEP, SEGMENTS_READ_DEEP)
    else:
        commits = _some(backup.log.read_back(upto=newest.seq), COMMITS_READ, SEGMENTS_READ)
    read: list[int] = []
    origins = find_range_origins(_noting(commits, read), source, span=span, held_spans=[span])
    since = min(read, default=newest.seq) if origins is None else origins.oldest
    before = newest.history.upto(since - 1)
    first = newest.history[len(before)] if len(before) < len(newest.history) else None
    return HoldingPoints(
        since=first.seq if first else newest.seq,
        since_ms=first.committed_at_ms if first else newest.committed_at_ms,
        upto=newest.seq,
        count=len(newest.history) - len(before),
        is_open=origins is None,
    )


def _some(commits: Iterator[StoredCommit], most: int, segments: int) -> Iterator[StoredCommit]:
    """The first `most` commits, none after one that reaches `segments` segments in all."""
    for stored in islice(commits, most):
        yield stored
        segments -= len(stored.commit.changes.segments)
        if segments <= 0:
            return


def _noting(commits: Iterator[StoredCommit], read: list[int]) -> Iterator[StoredCommit]:
    for stored in commits:
        read.append(stored.commit.seq)
        yield stored


def _restored(
    backup: Backup, names: Sequence[str], source: PartitionId, stored: Record | None, place: RecordPlace
) -> tuple[RestoredRecord, ...]:
    if stored is None:
        return ()
    lookup = RestoreLookup(
        layout=backup.layout,
        store=backup.record_store,
        source=source,
        record=stored,
        is_visible=place.transaction in {"", "committed"},
    )
    return tuple(restored for name in names if (restored := lookup.find(name)) is not None)
