"""Walks records without an index, from record to record, and finds the next complete record behind other bytes.

A crashed writer leaves a torn record and continues behind, so a record may *seem* complete although the last bytes
belong to the next record. Hence a record counts only when a complete record with a higher offset follows, or the end.
If the check fails, the same offset is searched for between the record's first and last byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from offsite.archives.kafka_backup.segments.files import WINDOW_BYTES, RecordsFile
from offsite.archives.kafka_backup.segments.record import (
    Effort,
    Exhausted,
    Malformed,
    RecordRun,
    Torn,
    decode_run,
    offsets_of,
)
from offsite.log.records.record import Record
from offsite.model.bounds import MAX_OFFSET, MAX_RECORD_BYTES

_CANDIDATE_COST = 20
_BYTES_OF_COST = 32  # decoded in a microsecond, about
_SMALL_WINDOW_BYTES = 64 << 10
"""Window of the first looks behind damage: where damage abounds, the next damage is near."""
_HEAD_BYTES = 12
_HEAD = re.compile(rb"(?=(?!\x00{8})[\x00-\x7f][\x00-\xff]{7}(?:\x00\x00\x00[\x00\x01]|\xff\xff\xff[\xfe\xff]))")
"""Possible beginnings of a record: a positive offset, and one of the four timestamp types. Offset 0 is not searched for
behind damage: zeros left by a crash are more common."""


@dataclass(frozen=True, slots=True)
class WholeRecords:
    """Adjoining records from `start`; record n ends at `ends[n]`, a position in the file."""

    start: int
    records: list[Record]
    ends: list[int]

    def __getitem__(self, part: slice) -> WholeRecords:
        """Return a part that starts at the first record, or a part that ends at the last record."""
        first = part.indices(len(self.records))[0]
        return WholeRecords(self.start if first == 0 else self.ends[first - 1], self.records[part], self.ends[part])


@dataclass(frozen=True, slots=True)
class SkippedBytes:
    """Bytes `[start, end)` without a complete record. `after`: offset of the last record before."""

    start: int
    end: int
    after: int
    problem: str


Step = WholeRecords | SkippedBytes


@dataclass(slots=True)
class Walk:
    """Walks `[position, end)` of a file; all offsets are above `last` and below `below`."""

    file: RecordsFile
    position: int
    end: int
    last: int = -1
    below: int = MAX_OFFSET
    _window_bytes: int = field(default=WINDOW_BYTES, repr=False)
    _needed_bytes: int = field(default=0, repr=False)
    _effort: Effort = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._effort = Effort.for_bytes(self.end - self.position)

    def steps(self) -> Iterator[Step]:
        """Yield the steps. Where damage abounds, the walk ends early and skips the rest."""
        try:
            yield from self._steps()
        except Exhausted:
            yield self._skip(self.end, "too much data without a whole record: the rest was not checked")

    def _steps(self) -> Iterator[Step]:
        while self.position < self.end:
            whole = self._decode()
            if whole.ends and whole.ends[-1] == self.end:
                yield self._take(whole)
            elif self._may_go_on(whole):
                yield from self._advance(whole)
            else:
                yield from self._pass_damage(whole)

    def _decode(self) -> WholeRecords:
        """Decode the complete records at the position, as long as offsets rise."""
        run = decode_run(self.file.window(self.position, self.end, self._window_bytes))
        count = self._rising(run)
        position = self.position
        return WholeRecords(position, run.records[:count], [position + end for end in run.ends[:count]])

    def _rising(self, run: RecordRun) -> int:
        offsets = [self.last, *offsets_of(run.records)]
        rising = (n for n, (before, after) in enumerate(pairwise(offsets)) if not before < after < self.below)
        return next(rising, len(run.records))

    def _may_go_on(self, whole: WholeRecords) -> bool:
        """Whether only the end of the window stopped the decoding."""
        stop = whole.ends[-1] if whole.ends else self.position
        window_end = min(self.end, self.position + self._window_bytes)
        if window_end == self.end or window_end - stop >= MAX_RECORD_BYTES:
            return False
        try:
            shape = self.file.shape_at(stop, self.end, self._effort)
        except Malformed:
            return False
        self._needed_bytes = shape.end - self.position
        last = whole.records[-1].offset if whole.records else self.last
        return shape.end > window_end and last < shape.offset < self.below

    def _advance(self, whole: WholeRecords) -> Iterator[Step]:
        """Continue with the next window and decode the last record again: the last record counts only when another
        record follows."""
        if len(whole.records) > 1:
            yield self._take(whole[:-1])
            self._window_bytes = min(2 * self._window_bytes, WINDOW_BYTES)
        else:
            self._window_bytes = self._needed_bytes + _SMALL_WINDOW_BYTES

    def _take(self, whole: WholeRecords) -> WholeRecords:
        self.position, self.last = whole.ends[-1], whole.records[-1].offset
        return whole

    def _pass_damage(self, whole: WholeRecords) -> Iterator[Step]:
        self._window_bytes = _SMALL_WINDOW_BYTES
        self._effort.spend(min(self._window_bytes, self.end - self.position) // _BYTES_OF_COST)
        suspect = whole[-1:]
        if suspect.records:
            if len(whole.records) > 1:
                yield self._take(whole[:-1])
            if (again := self._written_again(suspect)) is not None:
                yield self._skip(again, "a torn record; the record was written again after it")
                return
            if self._is_out_of_order(suspect):
                yield self._skip(suspect.ends[-1], f"offset {suspect.records[0].offset} is followed by lower ones")
                return
            yield self._take(suspect)
        yield self._skip_to_whole()

    def _skip(self, end: int, problem: str) -> SkippedBytes:
        skipped = SkippedBytes(self.position, end, self.last, problem)
        self.position = end
        return skipped

    def _written_again(self, suspect: WholeRecords) -> int | None:
        """Return where the record at `suspect.start` begins again, inside its apparent bytes."""
        offset = suspect.records[0].offset
        return self._find(suspect.start + 1, suspect.ends[-1], lowest=offset, highest=offset)

    def _is_out_of_order(self, suspect: WholeRecords) -> bool:
        """Whether the next complete record fits the record before `suspect`: then the offset of `suspect` is wrong."""
        position = self._find(suspect.ends[-1], self.end, lowest=self.last + 1, highest=self.below - 1)
        return position is not None and self.file.shape_at(position, self.end).offset < suspect.records[0].offset

    def _skip_to_whole(self) -> SkippedBytes:
        problem, first = self._problem()
        position = self._find(first, self.end, lowest=self.last + 1, highest=self.below - 1)
        return self._skip(self.end if position is None else position, problem)

    def _problem(self) -> tuple[str, int]:
        """Return the problem at the position, and the first possible start of a record."""
        try:
            shape = self.file.shape_at(self.position, self.end, self._effort)
        except Malformed as error:
            return f"no whole record ({error})", self.position + 1
        return f"offset {shape.offset} is not between {self.last} and the following offset", shape.end

    def _find(self, start: int, stop: int, *, lowest: int, highest: int) -> int | None:
        """Return the first position in `[start, stop)` of a complete record with an offset in the bounds, followed by a
        complete record or the end."""
        window_bytes = _SMALL_WINDOW_BYTES
        while start < min(stop, self.end - _HEAD_BYTES):
            data = self.file.window(start, min(self.end, stop - 1 + _HEAD_BYTES), window_bytes)
            for match in _HEAD.finditer(data):
                self._effort.spend(_CANDIDATE_COST)
                at = match.start()
                if lowest <= int.from_bytes(data[at : at + 8]) <= highest and self._is_record(start + at):
                    return start + at
            start += len(data) - _HEAD_BYTES + 1
            window_bytes = min(2 * window_bytes, WINDOW_BYTES)
        return None

    def _is_record(self, position: int) -> bool:
        try:
            shape = self.file.shape_at(position, self.end, self._effort)
        except Malformed:
            return False
        return shape.has_valid_names and (shape.end == self.end or self._may_follow(shape.offset, shape.end))

    def _may_follow(self, offset: int, position: int) -> bool:
        """Whether a record with a higher offset is at `position`, or the torn beginning of such a record at the very
        end."""
        try:
            return self.file.shape_at(position, self.end, self._effort).offset > offset
        except Torn:
            head = self.file.read(position, min(position + 8, self.end))
            return len(head) < 8 or int.from_bytes(head) > offset
        except Malformed:
            return False
