"""Reads a segment safely after any crash: by the index where index and records agree, else by walking. Finds the
offsets of a segment from both ends of a trusted index.

An entry is trusted when the record at the position has the entry's offset and length. At a wrong entry, reading
continues at the next trusted entry, and the bytes between are walked. Source: the tool's order of writing (records,
then entries) and reopening after a crash (appends, cuts nothing).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import add, lt
from typing import TypeAlias

from offsite.archives.archive import Damage, OnDamage, Piece, read_while_usable
from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import SegmentFile
from offsite.archives.kafka_backup.segments.files import (
    FIRST_POSITION,
    WINDOW_BYTES,
    Entries,
    RecordsFile,
    SegmentIndexFile,
    entry_position,
)
from offsite.archives.kafka_backup.segments.record import decode_run, offsets_of
from offsite.archives.kafka_backup.segments.walk import SkippedBytes, Walk, WholeRecords
from offsite.archives.overlap import clip_to_piece
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_OFFSET, MAX_RECORD_BYTES

_ENTRIES_AT_ONCE = 1 << 14
_MAX_LOOK_AHEAD = 1 << 12
"""Entries tried behind damage; with more lost records the index is useless."""
_MAX_CONTRADICTIONS = 100
"""An index with more contradictions is useless too: finding a contradiction costs a window."""
_RECORDS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class IndexContradiction:
    """The entry at byte `position` of the index contradicts the complete records behind offset `after`."""

    position: int
    after: int


SegmentStep: TypeAlias = WholeRecords | SkippedBytes | IndexContradiction


@dataclass(slots=True)
class KafkaBackupSegmentReader:
    """Reads from the first record with an offset of `from_offset` or more, or from an earlier record without a useful
    index. State: the next entry, the expected position of its record, and the last returned offset."""

    files: Files
    segment: SegmentFile
    from_offset: int = 0
    _file: RecordsFile = field(init=False)
    _index: SegmentIndexFile = field(init=False)
    _number: int = field(init=False, default=0)
    _position: int = field(init=False, default=FIRST_POSITION)
    _last: int = field(init=False, default=-1)
    _contradictions: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._file = RecordsFile(self.files, self.segment.records_key, self.segment.records_bytes)
        self._index = SegmentIndexFile.of(self.files, self.segment)

    def steps(self) -> Iterator[SegmentStep]:
        """Yield records in rising order of offsets, and skipped bytes. Raises `DamagedArchive` only when the file
        shrinks meanwhile."""
        self._seek()
        while self._number < self._index.count:
            entries = self._next_entries()
            agreed = self._agreed(entries)
            if len(agreed.records) < len(entries):
                yield from self._pass_contradiction(agreed)
            elif self._number + len(entries) < self._index.count:
                yield from self._advance(agreed)
            elif agreed.ends[-1] < self._file.size_bytes:
                yield from self._advance(agreed)
                break
            else:
                yield agreed
                return
        yield from self._walk(self._file.size_bytes).steps()

    def _seek(self) -> None:
        if self.from_offset <= self.segment.start:
            return
        number = self._index.first_from(self.from_offset)
        if 0 < number < self._index.count and self._is_right(number):
            self._number, self._position = number, self._index.entries(number, 1).positions[0]
            self._last = self.from_offset - 1

    def _is_right(self, number: int) -> bool:
        """Whether `from_offset` lies between entry `number` and the entry before, with both trusted."""
        entries = self._index.entries(number - 1, 2)
        before, entry = entries[:1], entries[1:]
        is_between = before.offsets[0] < self.from_offset <= entry.offsets[0]
        is_chain = before.end(0) == entry.positions[0]
        return is_between and is_chain and self._file.describes(before) and self._file.describes(entry)

    def _next_entries(self) -> Entries:
        """Return the next entries within a window, at least one."""
        entries = self._index.entries(self._number, _ENTRIES_AT_ONCE)
        window_end = self._position + WINDOW_BYTES
        if entries.end(len(entries) - 1) <= window_end:
            return entries
        fitting = bisect_right(entries.positions, window_end) - 1  # the last that begins there may end behind
        return entries[: max(fitting, 2)]

    def _agreed(self, entries: Entries) -> WholeRecords:
        """Return the records from the position that match the entries exactly."""
        end = self._contiguous_end(entries)
        run = decode_run(self._file.read(self._position, end))
        ends = [self._position + run_end for run_end in run.ends]
        offsets = offsets_of(run.records)
        count = self._agreeing(entries, offsets, ends)
        return WholeRecords(self._position, run.records[:count], ends[:count])

    def _contiguous_end(self, entries: Entries) -> int:
        """Return the end of the last adjoining entry, inside the file and the bounds."""
        position, limit = self._position, min(self._file.size_bytes, self._position + MAX_RECORD_BYTES)
        starts: list[int] = [position, *map(add, entries.positions, entries.lengths)]
        end = starts.pop()
        if list(entries.positions) == starts and position < end <= min(limit, position + 2 * WINDOW_BYTES):
            return end
        for number, (start, length) in enumerate(zip(entries.positions, entries.lengths, strict=True)):
            if start != position or not 0 < length <= limit - start or self._is_lie(entries, number):
                break
            position += length
        return position

    def _is_lie(self, entries: Entries, number: int) -> bool:
        """Whether the entry of a long record is wrong: the bytes may be a million short records."""
        return entries.lengths[number] > WINDOW_BYTES and not self._file.describes(entries[number : number + 1])

    def _agreeing(self, entries: Entries, offsets: list[int], ends: list[int]) -> int:
        """Return how many decoded records match the entries; nearly always all."""
        is_same = offsets == list(entries.offsets) and ends == list(map(add, entries.positions, entries.lengths))
        if is_same and all(map(lt, [self._last, *offsets], offsets)) and (not offsets or offsets[-1] < MAX_OFFSET):
            return len(offsets)
        previous = self._last
        for number, (offset, end) in enumerate(zip(offsets, ends, strict=True)):
            if offset != entries.offsets[number] or end != entries.end(number) or not previous < offset < MAX_OFFSET:
                return number
            previous = offset
        return len(offsets)

    def _advance(self, agreed: WholeRecords) -> Iterator[WholeRecords]:
        """Yield all but the last record, which is read again: the last record counts when the following bytes agree
        too."""
        confirmed = agreed[:-1]
        self._number += len(confirmed.records)
        if confirmed.records:
            self._position, self._last = confirmed.ends[-1], confirmed.records[-1].offset
            yield confirmed

    def _pass_contradiction(self, agreed: WholeRecords) -> Iterator[SegmentStep]:
        wrong = self._number + len(agreed.records)
        fence = agreed.ends[-1] if agreed.ends else self._position
        last = agreed.records[-1].offset if agreed.records else self._last
        self._contradictions += 1
        is_usable = self._contradictions <= _MAX_CONTRADICTIONS
        resume = self._next_fitting(wrong, fence, last) if is_usable else None
        yield from self._advance(agreed)
        walk = self._walk(self._file.size_bytes) if resume is None else self._walk(resume[1], resume[2])
        has_skipped = False
        for step in walk.steps():
            has_skipped |= isinstance(step, SkippedBytes)
            yield step
        if not has_skipped and not self._index.is_torn:
            yield IndexContradiction(entry_position(wrong), last)
        self._last = walk.last
        self._number = self._index.count if resume is None else resume[0]
        self._position = self._file.size_bytes if resume is None else resume[1]

    def _next_fitting(self, number: int, fence: int, last: int) -> tuple[int, int, int] | None:
        """Return number, position and offset of the next trusted entry, from `fence` and `last`."""
        entries = self._index.entries(number, _MAX_LOOK_AHEAD)
        for n, (offset, position) in enumerate(zip(entries.offsets, entries.positions, strict=True)):
            if position >= fence and offset > last and self._file.describes(entries[n : n + 1]):
                return number + n, position, offset
        return None

    def _walk(self, end: int, below: int | None = None) -> Walk:
        walk = Walk(self._file, self._position, end, self._last)
        if below is not None:
            walk.below = below
        return walk


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    """The records of a segment inside a piece, in batches; damage is reported once, by the piece around the damage."""

    files: Files
    segment: SegmentFile
    piece: Piece
    on_damage: OnDamage

    def batches(self) -> Iterator[Sequence[Record]]:
        """Yield rising batches; stops at the end of the piece."""
        return clip_to_piece(self.piece, read_while_usable(self._unclipped, self.segment.records_key, self.on_damage))

    def _unclipped(self, on_damage: OnDamage) -> Iterator[Sequence[Record]]:
        end = self.piece.end
        for step in KafkaBackupSegmentReader(self.files, self.segment, self.piece.start).steps():
            if isinstance(step, SkippedBytes | IndexContradiction):
                if self.piece.covers(max(step.after + 1, self.segment.start)):
                    on_damage(describe_damage(self.files, self.segment, step))
                continue
            for first in range(0, len(step.records), _RECORDS_AT_ONCE):
                yield step.records[first : first + _RECORDS_AT_ONCE]
            if end is not None and step.records[-1].offset >= end:
                return


def describe_damage(files: Files, segment: SegmentFile, step: SkippedBytes | IndexContradiction) -> Damage:
    """Describe the damage. Bytes stored twice, as after a crash of the tool, are no loss but a note."""
    if isinstance(step, IndexContradiction):
        problem = (
            f"the entry contradicts the records after offset {step.after}; one of these records may have a wrong offset"
        )
        return Damage(file=segment.index_key, position=step.position, problem=problem)
    size_bytes = step.end - step.start
    problem = f"{size_bytes} bytes skipped after offset {step.after}: {step.problem}"
    file = RecordsFile(files, segment.records_key, segment.records_bytes)
    if file.is_repeated(step.start, step.end):
        problem = (
            f"{size_bytes} bytes skipped after offset {step.after}: a crash left them, and the records were written "
            "again"
        )
        return Damage(file=file.key, position=step.start, problem=problem, is_note=True)
    return Damage(file=file.key, position=step.start, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentExtent:
    """Offsets `first` to `last`, both inclusive. `is_indexed`: an index describes the whole segment, judged by both
    ends (unchecked for small segments). `ends_whole`: the file ends with the last record."""

    segment: SegmentFile
    first: int
    last: int
    is_indexed: bool
    ends_whole: bool


def find_extent(files: Files, segment: SegmentFile, *, small_bytes: int = 0) -> SegmentExtent | None:
    """Find the extent of a segment; None for a segment without records. Reads the whole file only without a trusted
    index, or for at most `small_bytes`: reading a small file is faster than checking both ends of the index."""
    if segment.records_bytes <= FIRST_POSITION:
        return None
    if segment.records_bytes <= small_bytes and (extent := _small(files, segment)) is not None:
        return extent
    index = SegmentIndexFile.of(files, segment)
    if index.count and not index.is_torn:
        file = RecordsFile(files, segment.records_key, segment.records_bytes)
        first, last = index.entries(0, 1), index.entries(index.count - 1, 1)
        if first.positions[0] == FIRST_POSITION and file.describes(first) and file.describes(last):
            return _indexed(segment, file, first.offsets[0], last)
    return _read_through(files, segment)


def _small(files: Files, segment: SegmentFile) -> SegmentExtent | None:
    """Return None for a file with more or less than complete records."""
    file = RecordsFile(files, segment.records_key, segment.records_bytes)
    run = decode_run(file.read(FIRST_POSITION, file.size_bytes))
    offsets = offsets_of(run.records)
    is_whole = bool(offsets) and FIRST_POSITION + run.ends[-1] == file.size_bytes
    if not is_whole or not all(map(lt, offsets, offsets[1:])):
        return None
    return SegmentExtent(segment=segment, first=offsets[0], last=offsets[-1], is_indexed=False, ends_whole=True)


def _indexed(segment: SegmentFile, file: RecordsFile, first: int, last_entry: Entries) -> SegmentExtent:
    """Return the extent by the index. Records behind the last entry are walked."""
    last = last_entry.offsets[0]
    if last_entry.end(0) == file.size_bytes:
        return SegmentExtent(segment=segment, first=first, last=last, is_indexed=True, ends_whole=True)
    walk = Walk(file, last_entry.positions[0], file.size_bytes, last - 1)
    steps = list(map(type, walk.steps()))
    last = max(last, walk.last)
    return SegmentExtent(
        segment=segment, first=first, last=last, is_indexed=False, ends_whole=SkippedBytes not in steps
    )


def _read_through(files: Files, segment: SegmentFile) -> SegmentExtent | None:
    """Read the whole file. If damage comes first, the extent begins at the offset in the name: the damage belongs to
    the segment."""
    first = last = -1
    ends_whole = False
    for step in KafkaBackupSegmentReader(files, segment).steps():
        if isinstance(step, WholeRecords):
            first = step.records[0].offset if first < 0 else first
            last = step.records[-1].offset
            ends_whole = True
        elif isinstance(step, SkippedBytes):
            first = segment.start if first < 0 else first
            ends_whole = False
    if last < 0:
        return None
    return SegmentExtent(segment=segment, first=first, last=last, is_indexed=False, ends_whole=ends_whole)
