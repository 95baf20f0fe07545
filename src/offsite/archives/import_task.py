"""A piece of a foreign archive → segments, in a worker: records into new batches. Commits nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from offsite.archives.archive import ArchiveReader, Damage, OnDamage, Piece, collect_damage
from offsite.engine.meter import count_items
from offsite.log.batch import scan
from offsite.log.codec import ZSTD
from offsite.log.range import Chunk, LogRange
from offsite.log.records.batch_records import encode_batches
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import UnfitArchive
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.stores.store import Store


class ImportedSpan(NamedTuple):
    """Offsets `[start, end)` from which earlier imports took `records` records. None: the records are not compared."""

    start: int
    end: int
    records: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierImports:
    """The earlier imports of a piece that no index lists. The files of the piece begin at `start` now. `spans` rise."""

    start: int
    spans: tuple[ImportedSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTask:
    """One piece of an archive to import. `is_first`: nothing of the partition is known, and the log begins at the start
    of the piece. `lost_at`: offsets of the partition that count as lost unless the archive holds them. `earlier`: for a
    piece that has to be read from its beginning, although earlier imports took the first part."""

    piece: Piece
    is_first: bool
    lost_at: tuple[int, ...] = ()
    earlier: EarlierImports | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEnds:
    """The two ends of an import's copy, as sent to the workers. `skip_damaged`: continue behind damage."""

    reader: ArchiveReader
    store: Store
    layout: BackupLayout
    skip_damaged: bool


@dataclass(frozen=True, slots=True)
class LostSpan:
    """Offsets `[start, end)` lost to damage: from behind the last record before the damage to the first record
    after."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """Result of one task: durable segments of `[start, end)`. No segment spans offsets in `lost`. Void unless a commit
    lists the segments."""

    topic: str
    partition: int
    start: int
    end: int
    segments: tuple[Segment, ...]
    damages: tuple[Damage, ...]
    lost: tuple[LostSpan, ...] = ()


def import_piece(task: ImportTask, *, ends: ImportEnds) -> ImportReceipt:
    """Copy the piece, and return the receipt. May run twice: every attempt writes under object names of its own.

    Raises `DamagedArchive` unless damage is skipped, `UnfitArchive` when the archive has new records among the records
    of an earlier import, and the errors of the two ends; nothing of the piece is committed in such a case.
    """
    damages: list[Damage] = []
    on_damage = collect_damage(damages, skip=ends.skip_damaged)
    copy = _Copy(task, ends)
    copy.run(_with_lost(_new_records(ends.reader, task, on_damage), task, damages))
    return ImportReceipt(
        topic=task.piece.topic,
        partition=task.piece.partition,
        start=copy.start,
        end=copy.end,
        segments=copy.segments,
        damages=tuple(damages),
        lost=tuple(copy.lost),
    )


def _new_records(reader: ArchiveReader, task: ImportTask, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
    """The records of the piece. Without an index, the part before the piece is read as well, and compared with the
    records of earlier imports: a commit said of the remaining offsets that the archive holds nothing."""
    if task.earlier is None:
        yield from reader.read(task.piece, on_damage)
        return
    counted_taken = _ImportedCounter(task.piece, task.earlier.spans)
    for run in reader.read(replace(task.piece, start=task.earlier.start), on_damage):
        old = bisect_left(run, task.piece.start, key=_offset)
        counted_taken.count(run[:old])
        if old < len(run):
            yield run[old:] if old else run


class _ImportedCounter:
    """Counts the records of the archive where earlier imports took some."""

    def __init__(self, piece: Piece, spans: Sequence[ImportedSpan]) -> None:
        self._piece, self._spans = piece, spans
        self._span = self._records = 0

    def count(self, run: Sequence[Record]) -> None:
        """Count the next records. Raises `UnfitArchive` for more records than an earlier import took."""
        at = 0
        while at < len(run):
            first = run[at].offset
            while self._span < len(self._spans) and self._spans[self._span].end <= first:
                self._span, self._records = self._span + 1, 0
            if self._span == len(self._spans) or first < self._spans[self._span].start:
                raise self._late(f"offset {first}")
            span = self._spans[self._span]
            stop = bisect_left(run, span.end, at, key=_offset)
            self._records += stop - at
            if span.records is not None and self._records > span.records:
                raise self._late(f"offsets {span.start} to {span.end - 1}")
            at = stop

    def _late(self, where: str) -> UnfitArchive:
        return UnfitArchive(
            f"{self._piece.topic}/{self._piece.partition}: at {where} the archive has records that were not there "
            "when this backup imported later records",
            hint="import the whole archive again under another name (--backup); for a restore, use another --staging",
        )


def _offset(record: Record) -> int:
    return record.offset


def _with_lost(
    runs: Iterator[Sequence[Record]], task: ImportTask, damages: Sequence[Damage]
) -> Iterator[Sequence[Record] | LostSpan]:
    """The `runs`, with a `LostSpan` wherever offsets are missing and damage was reported meanwhile or before. `damages`
    grow while `runs` are read."""
    piece, reported_count = task.piece, 0
    position = piece.start
    for run in runs:
        if run:
            if _is_lost(position, run[0].offset, task, damages[reported_count:]):
                yield LostSpan(position, run[0].offset)
            position, reported_count = run[-1].offset + 1, len(damages)
            yield run
    if piece.end is not None and _is_lost(position, piece.end, task, damages[reported_count:]):
        yield LostSpan(position, piece.end)


def _is_lost(start: int, end: int, task: ImportTask, damages: Sequence[Damage]) -> bool:
    has_damage = not all(damage.is_note for damage in damages)
    return start < end and (has_damage or any(start <= offset < end for offset in task.lost_at))


class _Copy:
    """One task in progress: its start and end are known when the task is done."""

    def __init__(self, task: ImportTask, ends: ImportEnds) -> None:
        piece = task.piece
        self.start, self.end = piece.start, piece.start if piece.end is None else piece.end
        self.segments: tuple[Segment, ...] = ()
        self.lost: list[LostSpan] = []
        self._task, self._ends = task, ends
        self._writer: SegmentWriter | None = None

    def run(self, items: Iterator[Sequence[Record] | LostSpan]) -> None:
        with ExitStack() as stack:
            for lost, group in groupby(items, key=_lost_of):
                if lost is not None:
                    self._lose(lost)
                else:
                    self._take(encode_batches(_runs(group), codec=ZSTD), stack)
            if self._writer is not None:
                self.segments = self._writer.close(end=self.end)

    def _lose(self, lost: LostSpan) -> None:
        self.lost.append(lost)
        if self._writer is not None:
            self._writer.skip_to(lost.end)

    def _take(self, batches: Iterator[bytearray], stack: ExitStack) -> None:
        for chunk in count_items(Chunk(data=memoryview(batch), batches=scan(batch)) for batch in batches):
            (header,) = chunk.batches
            if self._writer is None:
                self._writer = stack.enter_context(self._begin(header.base_offset))
            self._writer.append(chunk)
            if self._task.piece.end is None:
                self.end = header.next_offset

    def _begin(self, first: int) -> SegmentWriter:
        """The log of a partition begins with the first record, unless offsets were lost before."""
        if self._task.is_first and not self.lost:
            self.start = first
        begin = self.lost[-1].end if self.lost else self.start
        piece = self._task.piece
        end = MAX_OFFSET if piece.end is None else piece.end
        return SegmentWriter(
            store=self._ends.store,
            layout=self._ends.layout,
            log_range=LogRange(topic=piece.topic, partition=piece.partition, start=begin, end=end),
            topic_id="",
        )


def _lost_of(run_or_lost: Sequence[Record] | LostSpan) -> LostSpan | None:
    return run_or_lost if isinstance(run_or_lost, LostSpan) else None


def _runs(items: Iterable[Sequence[Record] | LostSpan]) -> Iterator[Sequence[Record]]:
    return (run for run in items if not isinstance(run, LostSpan))
