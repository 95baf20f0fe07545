"""Records that became visible only now: of transactions that began before a micro-batch of the stream and ended in it.

A marker ends what its producer wrote since its marker before. Which that is, the indexes of earlier segments tell,
newest first; usually the first one does. Only a producer that never ended a transaction before makes it read on, and
only where its first batch in the new segments does not have the sequence number 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from offsite.copy.record_bounds import RecordBounds
from offsite.copy.source_view import VisibleBatch
from offsite.log.batch import BatchHeader
from offsite.log.markers import Marker
from offsite.log.range import Span
from offsite.log.records.record_arrow import ArrowColumns, with_known_times
from offsite.repository.commit_log import CommitLog
from offsite.repository.segment_origins import Origins, find_bringers
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Segment
from offsite.spark.meter import counted
from offsite.table.scan_plan import scans_of
from offsite.table.stream_plan import EndedTask

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def scan_ended(task: EndedTask, log: CommitLog, *, with_commit: bool) -> Iterator[pa.RecordBatch]:
    """Arrow batches of `log.record_arrow.arrow_schema`, in offset order. Raises `DamagedObject`, and what the store
    raises."""
    return with_known_times(_scan_ended(task, log, with_commit=with_commit))


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
    if (rest := columns.take()) is not None:
        yield rest


def _origins(task: EndedTask, span: Span, log: CommitLog) -> Origins | None:
    """Backwards: one of the newest before the micro-batch most likely brought it."""
    held = [(segment.start, segment.end) for segment in task.earlier]
    return find_bringers(log.read_back(upto=task.before), task.partition, span=span, held=held)


def _floors(task: EndedTask, log: CommitLog) -> dict[int, int]:
    """The lowest offset, by producer id, from which its records below the start of the micro-batch belong to what was
    committed in it."""
    first: dict[int, tuple[Segment, Marker]] = {}
    for segment in task.new:
        for marker in chain.from_iterable(SegmentReader(store=log.store, segment=segment).markers()):
            if task.start <= marker.offset < task.end:
                first.setdefault(marker.producer_id, (segment, marker))
    pending = {
        producer
        for producer, (segment, marker) in first.items()
        if marker.committed and not _begins(segment, marker, task, log)
    }
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
    """Whether the producer's first batch in the micro-batch is the first it ever wrote: nothing is before it."""
    if marker.first_offset < task.start:
        return False  # it has data below, or none at all that the segment's index knows of
    batches = _batches(segment, log, start=marker.first_offset, end=marker.first_offset + 1)
    return any(header.base_sequence == 0 and header.producer_id == marker.producer_id for _, header in batches)


def _batches(
    segment: Segment, log: CommitLog, *, start: int, end: int | None = None
) -> Iterator[tuple[memoryview, BatchHeader]]:
    for chunk in counted(SegmentReader(store=log.store, segment=segment).chunks(start=start, end=end)):
        for header in chunk.batches:
            yield chunk.data, header
