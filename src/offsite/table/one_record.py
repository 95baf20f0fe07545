"""One record of a backup, and its place in the log: its batch, the outcome of its transaction, and its neighbours over
holes, markers and offsets without a record. Reads a few frames; never from the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.codec import CODEC_NAMES
from offsite.log.committed_view import CommittedView
from offsite.log.markers import parse_control_marker, with_hole_starts
from offsite.log.range import Span, uncovered
from offsite.log.records.batch_records import decode
from offsite.log.records.record import Record
from offsite.model.errors import DamagedObject
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import RecordBounds
from offsite.repository.commit import RecordedHole
from offsite.repository.segments.reader import SegmentReader, stored_markers
from offsite.stores.store import Store
from offsite.table.scan_plan import SegmentScan, scans_of

FRAMES_MAX = 8
"""Frames of 4 MiB that are read for a neighbour on each side."""
PASSED_MAX = 20
_SEQUENCES = 1 << 31
"""Sequence numbers of a producer wrap around to 0."""

Outcome = Literal["", "committed", "aborted", "open", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOffsets:
    """Offsets `[start, end)` without a record. `why`: `hole`, the source had lost them before the copy (`reason` as
    recorded); `marker`, the end of a transaction; `nothing`, the log has no record there: compaction removed it, or
    nothing was ever written."""

    start: int
    end: int
    why: Literal["hole", "marker", "nothing"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The next record on one side. `offset` None: there is none, or with `looked_to`, none up to that offset, where the
    search was given up. `passed`: the offsets between, at most `PASSED_MAX`."""

    offset: int | None
    looked_to: int | None = None
    passed: tuple[PassedOffsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What the header of the record's batch says. `sequence`: of this record. -1: not given by the producer."""

    base_offset: int
    last_offset: int
    records: int
    size_bytes: int
    codec: str
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    is_transactional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """The surroundings of `offset` of a partition, which the backup has from `start` to `end`. Without a record there,
    `batch` is None, and `passed` says why, if the offset does not lie outside. `marker`: the outcome that a transaction
    marker at the offset states."""

    offset: int
    start: int
    end: int
    batch: BatchFacts | None
    transaction: Outcome
    marker: Literal["", "commit", "abort"]
    passed: PassedOffsets | None
    previous: Neighbour
    next: Neighbour


class _StoredBatch(NamedTuple):
    """A batch of a frame, and the bounds of its records that count."""

    header: BatchHeader
    data: memoryview
    bounds: RecordBounds

    @property
    def low(self) -> int:
        return max(self.header.base_offset, self.bounds.start)

    @property
    def high(self) -> int:
        return min(self.header.next_offset, self.bounds.end)

    def records(self) -> list[Record]:
        if self.header.is_control:
            return []
        return [record for record in decode(self.data, self.header) if self.bounds.takes(record)]


def read_record(
    chain: PartitionChain, holes: Sequence[RecordedHole], offset: int, store: Store
) -> tuple[RecordPlace, Record | None]:
    """Read what `chain` has at `offset`, with the record itself. `holes`: of the same partition. Raises
    `DamagedObject`, `DamagedBatch`, and the errors of the store."""
    scans = tuple(scans_of(chain.segments, end=chain.end))
    log = _Log(chain, scans, tuple(holes), store)
    batch = log.batch_at(offset)
    record = None if batch is None else next((stored for stored in batch.records() if stored.offset == offset), None)
    start = scans[0].start if scans else chain.end
    place = RecordPlace(
        offset=offset,
        start=start,
        end=chain.end,
        batch=None if batch is None or record is None else _facts(batch.header, offset),
        transaction="" if batch is None or record is None else log.outcome(batch.header),
        marker=_marker(batch),
        passed=log.passed(offset, offset + 1, [batch] if batch else [])[0] if record is None else None,
        previous=log.previous(offset),
        next=log.next(offset),
    )
    return place, record


def _facts(header: BatchHeader, offset: int) -> BatchFacts:
    delta = offset - header.base_offset
    return BatchFacts(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        records=header.record_count,
        size_bytes=header.size_bytes,
        codec=CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else str(header.codec),
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=-1 if header.base_sequence < 0 else (header.base_sequence + delta) % _SEQUENCES,
        is_transactional=header.is_transactional,
    )


def _marker(batch: _StoredBatch | None) -> Literal["", "commit", "abort"]:
    if batch is None or not batch.header.is_control:
        return ""
    marker = parse_control_marker(batch.data, batch.header)
    return "" if marker is None else marker.kind


class _Log:
    """The batches of one partition of a backup, read frame by frame, forwards and backwards."""

    def __init__(
        self, chain: PartitionChain, scans: Sequence[SegmentScan], holes: Sequence[RecordedHole], store: Store
    ) -> None:
        self._chain, self._scans, self._holes, self._store = chain, scans, holes, store
        self._newest: tuple[Span, list[_StoredBatch]] | None = None

    def batch_at(self, offset: int) -> _StoredBatch | None:
        _, scan, frame = next(self._frames_from(offset), (0, None, (0, 0)))
        batches = () if scan is None else self._batches(scan, frame)
        return next((batch for batch in batches if batch.low <= offset < batch.high), None)

    def next(self, offset: int) -> Neighbour:
        seen: list[_StoredBatch] = []
        for number, scan, frame in self._frames_from(offset + 1):
            if number == FRAMES_MAX:
                return Neighbour(offset=None, looked_to=frame[0])
            for batch in self._batches(scan, frame):
                seen.append(batch)
                if batch.high > offset + 1 and (later := _offsets(batch, offset + 1, self._chain.end)):
                    return Neighbour(offset=later[0], passed=self.passed(offset + 1, later[0], seen))
        return Neighbour(offset=None)

    def previous(self, offset: int) -> Neighbour:
        seen: list[_StoredBatch] = []
        for number, scan, frame in self._frames_before(offset):
            if number == FRAMES_MAX:
                return Neighbour(offset=None, looked_to=frame[1])
            for batch in reversed(self._batches(scan, frame)):
                seen.append(batch)
                if batch.low < offset and (earlier := _offsets(batch, 0, offset)):
                    between = self.passed(earlier[-1] + 1, min(offset, self._chain.end), seen)
                    return Neighbour(offset=earlier[-1], passed=between)
        return Neighbour(offset=None)

    def passed(self, start: int, end: int, seen: Sequence[_StoredBatch]) -> tuple[PassedOffsets, ...]:
        """Account for the offsets `[start, end)`, which have no record. `seen`: the batches there."""
        stretches = [
            PassedOffsets(start=max(hole.start, start), end=min(hole.end, end), why="hole", reason=hole.reason)
            for hole in self._holes
            if hole.start < end and start < hole.end
        ]
        stretches += [
            PassedOffsets(start=max(batch.low, start), end=min(batch.high, end), why="marker")
            for batch in seen
            if batch.header.is_control and batch.low < end and start < batch.high
        ]
        spans = sorted((stretch.start, stretch.end) for stretch in stretches)
        nothing = [PassedOffsets(start=low, end=high, why="nothing") for low, high in uncovered(start, end, spans)]
        return tuple(sorted([*stretches, *nothing], key=lambda stretch: stretch.start)[:PASSED_MAX])

    def outcome(self, header: BatchHeader) -> Outcome:
        """The outcome of the batch's transaction; empty without one. `unknown`: its end lies in a hole."""
        if not header.is_transactional:
            return ""
        deciding = [segment for segment in self._chain.segments if segment.end > header.base_offset]
        markers = with_hole_starts(stored_markers(deciding, self._store), self._chain.hole_starts)
        view = CommittedView(markers, end_offset=self._chain.end, as_needed=True)
        if (outcome := view.outcome(header)) is None:
            return "open" if view.is_open(header) else "unknown"
        return "committed" if outcome else "aborted"

    def _frames_from(self, offset: int) -> Iterator[tuple[int, SegmentScan, Span]]:
        """The frames with offsets from `offset` on, counted."""
        count = 0
        for scan in self._scans:
            for frame in self._frames(scan) if scan.end > offset else ():
                if frame[1] > offset:
                    yield count, scan, frame
                    count += 1

    def _frames_before(self, offset: int) -> Iterator[tuple[int, SegmentScan, Span]]:
        """The frames with offsets before `offset`, the last one first, counted."""
        count = 0
        for scan in reversed(self._scans):
            for frame in reversed(self._frames(scan)) if scan.start < offset else ():
                if frame[0] < offset:
                    yield count, scan, frame
                    count += 1

    def _frames(self, scan: SegmentScan) -> list[Span]:
        """The frames of a segment by base offsets; the segment as a whole without a usable index."""
        segment = scan.segment
        try:
            index = SegmentReader(store=self._store, segment=segment).index(with_markers=False)
            starts = [frame.first_offset for frame in index.frames]
        except DamagedObject:
            starts = []
        return list(pairwise([*(starts or [segment.lowest_offset]), max(segment.end, segment.last_offset + 1)]))

    def _batches(self, scan: SegmentScan, frame: Span) -> list[_StoredBatch]:
        if self._newest is not None and self._newest[0] == frame:
            return self._newest[1]
        bounds = RecordBounds(scan.start, scan.end, self._chain.until_ms)
        chunks = SegmentReader(store=self._store, segment=scan.segment).chunks(start=frame[0], end=frame[1])
        batches = [
            _StoredBatch(header, header.view(chunk.data), bounds) for chunk in chunks for header in chunk.batches
        ]
        self._newest = frame, batches
        return batches


def _offsets(batch: _StoredBatch, start: int, end: int) -> list[int]:
    return [record.offset for record in batch.records() if start <= record.offset < end]
