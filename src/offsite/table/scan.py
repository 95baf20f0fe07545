"""Read the segments of one scan task, frame by frame: the batches of the restore point that may hold wanted rows, and
the matching records in them, decoded for people. Runs in a worker (a table, a search) or in the driver (`cat`).

Frames are left out by offset and by latest time, batches by headers. The yielded batches still hold unwanted records:
bounds save reading, while `VisibleBatch` and the reader's own check of records decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from offsite.engine.meter import count_items
from offsite.log.batch import HEADER_BYTES, BatchHeader
from offsite.log.codec import decompress
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.markers import with_hole_starts
from offsite.log.range import Chunk, PartitionId
from offsite.log.records.record import Record
from offsite.log.records.record_arrow import ArrowColumns, null_out_of_range_times, time_us
from offsite.log.records.record_columns import rare_collections
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedObject
from offsite.model.schema_registry import RegistrySnapshot
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.repository.segments.index import SegmentIndex
from offsite.repository.segments.reader import SegmentReader, stored_markers
from offsite.schemas.framing import FramedReader
from offsite.schemas.shown_bytes import show_bytes
from offsite.stores.store import Store
from offsite.table.scan_plan import RowFilter, ScanTask, SegmentScan
from offsite.table.value_condition import ValueCondition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def scan_batches(task: ScanTask, store: Store) -> Iterator[tuple[SegmentScan, VisibleBatch]]:
    """Yield the batches of the task in offset order, with the scan of the segment.

    Raises `DamagedObject` with object, topic and range, and the store's errors.
    """
    is_visible = _committed_view(task, store).is_visible if task.read_committed else sees_uncommitted
    for scan in task.segments:
        for chunk in count_items(_chunks(scan, task.rows, store)):
            for header in chunk.batches:
                record_bounds = RecordBounds(scan.start, scan.end, task.point_until_ms)
                if record_bounds.takes_none(header) or _holds_none(header, task.rows):
                    continue
                if is_visible(header):
                    yield scan, VisibleBatch(chunk.data, header, record_bounds)


def _committed_view(task: ScanTask, store: Store) -> CommittedView:
    """The outcomes of the task's transactions, read on demand: markers may stand far behind, but usually stand in the
    same segment or the next."""
    markers = with_hole_starts(stored_markers(task.deciding, store), task.hole_starts)
    return CommittedView(markers, end_offset=task.partition_end, as_needed=True)


def frame_ranges(index: SegmentIndex, scan: SegmentScan, rows: RowFilter) -> list[tuple[int, int]]:
    """Return half-open ranges of base offsets, of consecutive frames. No wanted row lies outside."""
    starts = [frame.first_offset for frame in index.frames] or [scan.segment.lowest_offset]
    borders = [*starts, scan.segment.end]
    low, high = max(scan.start, rows.start), min(scan.end, rows.end)
    first = index.frame_of(low) if index.frames else 0
    ranges: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(pairwise(borders)):
        is_old = rows.since_ms is not None and index.frames and index.frames[number].timestamp_max_ms < rows.since_ms
        if number < first or start >= high or is_old:
            continue
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]  # noqa: PLW2901  # the run goes on
        ranges.append((start, end))
    return ranges


def _chunks(scan: SegmentScan, rows: RowFilter, store: Store) -> Iterator[Chunk]:
    reader = SegmentReader(store=store, segment=scan.segment)
    wants_all = rows.start <= scan.start and scan.end <= rows.end and rows.since_ms is None
    if wants_all and scan.end > scan.segment.last_offset:
        yield from reader.chunks()
        return
    for start, end in frame_ranges(_index(reader), scan, rows):
        yield from reader.chunks(start=start, end=end)


def _index(reader: SegmentReader) -> SegmentIndex:
    """Return the segment's index, or an empty index for a damaged one. Damage costs the saving, not the data: `chunks`
    works without an index, logs the damage, and reads everything."""
    try:
        return reader.index()
    except DamagedObject:
        return SegmentIndex(segment_key=reader.segment.key, frames=())


def _holds_none(header: BatchHeader, rows: RowFilter) -> bool:
    """Whether the header shows that no record of the batch is wanted."""
    is_old = rows.since_ms is not None and header.max_timestamp_ms < rows.since_ms
    return is_old or header.last_offset < rows.start or header.base_offset >= rows.end


def scan_arrow(task: ScanTask, store: Store) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of `log.record_arrow.arrow_schema`, in offset order: exactly the rows of the task's filter.

    Raises `DamagedObject`, `DamagedBatch`, and the store's errors. Memory: a few pieces of the segment of about 4 MiB,
    and one Arrow batch.
    """
    with rare_collections():
        yield from null_out_of_range_times(_scan_arrow(task, store))


def _scan_arrow(task: ScanTask, store: Store) -> Iterator[pa.RecordBatch]:
    columns = ArrowColumns(topic=task.partition.topic, partition=task.partition.partition)
    for scan, batch in scan_batches(task, store):
        commit = scan.commit_of(batch.header.base_offset)
        if batch.record_bounds.takes_all(batch.header):
            columns.add_batch(batch.header.view(batch.data), batch.header, commit=commit)
        else:
            columns.add_records(batch.records(), commit=commit)
        if columns.is_full and (full := columns.take()) is not None:
            yield _wanted(full, task.rows)
    if (remaining := columns.take()) is not None:
        yield _wanted(remaining, task.rows)


def _wanted(batch: pa.RecordBatch, rows: RowFilter) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if (rows.start, rows.end, rows.since_ms, rows.until_ms) == (0, MAX_OFFSET, None, None):
        return batch
    kind, offsets, times = batch.schema.field("timestamp").type, batch.column("offset"), batch.column("timestamp")
    mask = pc.and_(pc.greater_equal(offsets, rows.start), pc.less(offsets, rows.end))
    if rows.since_ms is not None:
        mask = pc.and_(mask, pc.greater_equal(times, pa.scalar(time_us(rows.since_ms), kind)))
    if rows.until_ms is not None:
        mask = pc.and_(mask, pc.less_equal(times, pa.scalar(time_us(rows.until_ms), kind)))
    return batch.filter(mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMatch:
    """A condition on a record: the key, bytes contained in the value, headers by name (with a value, where given), and
    conditions on the decoded value. An empty condition matches every record."""

    key: bytes | None = None
    value_holds: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    where: tuple[ValueCondition, ...] = ()

    def matches(self, record: Record) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        if self.value_holds is not None and self.value_holds not in (record.value or b""):
            return False
        return all(
            any(name == header_name and (value is None or actual == value) for name, actual in record.headers)
            for header_name, value in self.headers
        )

    def matches_decoded(self, record: Record, topic: str, framed: FramedReader) -> bool:
        """Whether the decoded value fulfils all conditions on it; bytes and texts that are no JSON fulfil none."""
        if not self.where:
            return True
        shown = show_bytes(record.value, framed, topic)
        if shown is None or shown.encoding in {"text", "base64"}:
            return False
        return all(condition.matches(shown.data) for condition in self.where)

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes that the decompressed body of a batch must contain if a record of the batch matches."""
        parts = [self.key, self.value_holds, *(part for name, value in self.headers for part in (name.encode(), value))]
        return tuple(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRecord:
    partition: PartitionId
    record: Record


def matching_records(
    task: ScanTask, store: Store, match: RecordMatch, framed: FramedReader
) -> Iterator[MatchingRecord]:
    """Yield the task's matching rows, in offset order. Most batches are only searched for bytes, not decoded.

    Raises `DamagedObject`, `DamagedBatch`, and the store's errors.
    """
    needles = match.needles
    for _, batch in scan_batches(task, store):
        if needles and not _holds(batch.data, batch.header, needles):
            continue
        for record in batch.iterate():
            if not (task.rows.includes(record.offset, record.timestamp_ms) and match.matches(record)):
                continue
            if match.matches_decoded(record, task.partition.topic, framed):
                yield MatchingRecord(partition=task.partition, record=record)


def find_in_task(
    task: ScanTask, *, store: Store, match: RecordMatch, limit: int, registry: RegistrySnapshot
) -> tuple[MatchingRecord, ...]:
    """Return the first `limit` of `matching_records`, without reading further. `registry`: the schemas of values."""
    return tuple(islice(matching_records(task, store, match, FramedReader(lambda: registry)), limit))


def _holds(data: memoryview, header: BatchHeader, needles: tuple[bytes, ...]) -> bool:
    plain = decompress(header.codec, header.view(data)[HEADER_BYTES:])
    if isinstance(plain, memoryview):
        plain = bytes(plain)  # a view cannot be searched
    return all(needle in plain for needle in needles)
