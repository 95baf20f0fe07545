"""Records visible since a micro-batch: of transactions begun before the micro-batch and ended in it.

A marker ends everything that the producer wrote since its previous marker. The indexes of earlier segments tell the
previous marker, newest segment first; usually the first segment suffices. Only a producer that never ended a
transaction before needs further segments, and only if its first batch in the new segments does not have the sequence
number 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from offsite.engine.meter import count_items
from offsite.log.batch import BatchHeader
from offsite.log.markers import Marker
from offsite.log.range import Span
from offsite.log.records.record_arrow import ArrowColumns, null_out_of_range_times
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.repository.commit_log import CommitLog
from offsite.repository.coverage import Origins, find_range_origins
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.table.scan_plan import scans_of
from offsite.table.stream_plan import EndedTask

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def scan_ended(task: EndedTask, log: CommitLog, *, with_commit: bool) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of `log.record_arrow.arrow_schema`, in offset order. Raises `DamagedObject`, and the store's
    errors."""
    return null_out_of_range_times(_scan_ended(task, log, with_commit=with_commit))


def _scan_ended(task: EndedTask, log: CommitLog, *, with_commit: bool) -> Iterator[pa.RecordBatch]:
    floors = _floors(task, log)
    columns = ArrowColumns(topic=task.partition.topic, partition=task.partition.partition)
    lowest = min(floors.values(), default=task.start)
    scans = [scan for scan in scans_of(task.earlier, end=task.start) if scan.segment.last_offset >= lowest]
    if not floors or not scans:
        return
    origins = _origins(task, (max(lowest, scans[0].start), task.start), log) if with_commit else None
    for scan in scans:
        record_bounds = RecordBounds(scan.start, scan.end)
        start = min(lowest, scan.segment.lowest_offset) if scan.segment.start >= lowest else lowest
        for data, header in _batches(scan.segment, log, start=start, end=task.start):
            if header.is_transactional and header.last_offset >= floors.get(header.producer_id, header.next_offset):
                columns.add_records(
                    VisibleBatch(data, header, record_bounds).records(),
                    commit=None if origins is None else origins.at(header.base_offset),
                )
                if columns.is_full and (full := columns.take()) is not None:
                    yield full
    if (remaining := columns.take()) is not None:
        yield remaining


def _origins(task: EndedTask, span: Span, log: CommitLog) -> Origins | None:
    """Search backwards: a recent commit before the micro-batch most likely brought the records."""
    spans = [(segment.start, segment.end) for segment in task.earlier]
    return find_range_origins(log.read_back(upto=task.before), task.partition, span=span, held_spans=spans)


def _floors(task: EndedTask, log: CommitLog) -> dict[int, int]:
    """Return producer id → the lowest offset of the producer's records, below the micro-batch's start, that were
    committed in the micro-batch."""
    # 1. Find the first marker of every producer in the micro-batch.
    first: dict[int, tuple[Segment, Marker]] = {}
    for segment in task.new:
        for marker in chain.from_iterable(SegmentReader(store=log.store, segment=segment).markers()):
            if task.start <= marker.offset < task.end:
                first.setdefault(marker.producer_id, (segment, marker))
    # 2. Keep producers with a commit whose records may begin below the micro-batch.
    pending = {
        producer
        for producer, (segment, marker) in first.items()
        if marker.committed and not _begins(segment, marker, task, log)
    }
    # 3. Find the previous marker of every such producer, in the newest segment first.
    floors: dict[int, int] = {}
    for segment in reversed(task.earlier):
        if not pending - set(floors):
            break
        markers = chain.from_iterable(SegmentReader(store=log.store, segment=segment).markers())
        last = {
            marker.producer_id: marker.offset
            for marker in markers
            if marker.producer_id in pending and marker.offset < task.start
        }
        floors |= {producer: offset + 1 for producer, offset in last.items() if producer not in floors}
    return {producer: max(task.floor, floors.get(producer, 0)) for producer in pending}


def _begins(segment: Segment, marker: Marker, task: EndedTask, log: CommitLog) -> bool:
    """Whether the producer's first batch in the micro-batch is the first batch ever: no records lie before."""
    if marker.first_offset < task.start:
        return False  # the producer has data below, or none in the segment's index
    batches = _batches(segment, log, start=marker.first_offset, end=marker.first_offset + 1)
    return any(header.base_sequence == 0 and header.producer_id == marker.producer_id for _, header in batches)


def _batches(
    segment: Segment, log: CommitLog, *, start: int, end: int | None = None
) -> Iterator[tuple[memoryview, BatchHeader]]:
    for chunk in count_items(SegmentReader(store=log.store, segment=segment).chunks(start=start, end=end)):
        for header in chunk.batches:
            yield chunk.data, header
