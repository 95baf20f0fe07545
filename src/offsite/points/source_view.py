"""The records of one partition of a backup that belong to a restore: the one reading for both the copy and the proof.

Reads the segments in order. Leaves out control batches, aborted data, data undecided at the restore point or left out
by a consistent cut, records outside of the bounds, and batches that an overlapping segment brought already. What a
restore changes in the records of a chain is changed here (`rewritten`), for the copy and the proof alike. Bounds are
offsets, and times of records. Nearly every batch lies wholly on one side, and its header decides. Times need not rise
with offsets, nor inside a batch, and a header holds only the latest time: the rest is decided record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from offsite.engine.meter import count_items
from offsite.log.batch import BatchHeader, scan
from offsite.log.committed_view import CommittedView, abort_left_out, sees_uncommitted
from offsite.log.markers import Marker, with_hole_starts
from offsite.log.records.batch_records import decode, iterate
from offsite.log.records.record import LOG_APPEND_TIME, Record
from offsite.log.records.record_columns import RecordColumns, read_columns
from offsite.model.errors import ObjectArchived, OffsiteError, StoreDenied
from offsite.model.units import KIB
from offsite.points.point_in_time import PartitionChain
from offsite.points.record_rewrite import Rewriting
from offsite.repository.segments.reader import SegmentReader, stored_markers
from offsite.repository.segments.segment import Segment
from offsite.stores.store import Store

_READERS = 8
"""Partitions looked up at the same time: a store answers in some milliseconds."""
_TRIED_MAX = 1_000
"""Objects tried before a restore: with more partitions, only every second or third object is tried."""
_ARCHIVED_FROM_BYTES = 128 * KIB
"""Lifecycle rules of buckets skip smaller objects, unless configured otherwise."""


class RecordBounds(NamedTuple):
    """Bounds of the records to take: offsets in `[start, end)`, and a time of `until_ms` (epoch ms) or before; None:
    any time.

    A record without a time (-1) is before every time. A tuple, because every batch gets one.
    """

    start: int
    end: int
    until_ms: int | None = None

    def takes_all(self, header: BatchHeader) -> bool:
        """Whether the header shows that every record of the batch is taken."""
        in_range = self.start <= header.base_offset and header.last_offset < self.end
        return in_range and (self.until_ms is None or header.max_timestamp_ms <= self.until_ms)

    def takes_none(self, header: BatchHeader) -> bool:
        """Whether the header shows that no record of the batch is taken. False leaves the question open."""
        if header.record_count == 0 or header.last_offset < self.start or header.base_offset >= self.end:
            return True
        if self.until_ms is None or header.max_timestamp_ms <= self.until_ms:
            return False
        return header.timestamp_type == LOG_APPEND_TIME

    def takes(self, record: Record) -> bool:
        in_range = self.start <= record.offset < self.end
        return in_range and (self.until_ms is None or record.timestamp_ms <= self.until_ms)


class VisibleBatch(NamedTuple):
    """A batch of `data`, writable memory. Only records accepted by `record_bounds` count: the log may have started
    inside the batch, and the restore point may lie inside."""

    data: memoryview
    header: BatchHeader
    record_bounds: RecordBounds

    def records(self) -> list[Record]:
        """The decoded records that count; maybe none, when the bounds go by time."""
        records = decode(self.header.view(self.data), self.header)
        return records if self.record_bounds.takes_all(self.header) else list(filter(self.record_bounds.takes, records))

    def columns(self) -> RecordColumns:
        """The same records in columns."""
        if self.record_bounds.takes_all(self.header):
            return read_columns(self.header.view(self.data), self.header)
        return RecordColumns.of(self.records())

    def iterate(self) -> Iterator[Record]:
        """The same records one after another, for callers that keep none."""
        return filter(self.record_bounds.takes, iterate(self.header.view(self.data), self.header))


def begin_rewriting(partition: PartitionChain, records: Store, *, proves: bool = False) -> Rewriting | None:
    """A reading that changes the records of the chain; None where they stay as they are. `records`, `proves`: see
    `RecordRewrite`."""
    return None if partition.rewrite is None else partition.rewrite.begin(partition.source, records, proves=proves)


def rewritten(batches: Iterator[VisibleBatch], rewriting: Rewriting | None) -> Iterator[VisibleBatch]:
    """The batches as a restore writes them: the very iterator where nothing changes."""
    return batches if rewriting is None else _rewritten(batches, rewriting)


def _rewritten(batches: Iterable[VisibleBatch], rewriting: Rewriting) -> Iterator[VisibleBatch]:
    for batch in batches:
        if batch.header.is_control:
            yield batch
            continue
        counted = None if batch.record_bounds.takes_all(batch.header) else batch.records()
        changed = rewriting.change(batch.header.view(batch.data), batch.header, counted)
        if changed is None:
            yield batch
        else:
            yield from (VisibleBatch(part, scan(part)[0], batch.record_bounds) for part in changed)


class SourceView:
    """The batches of `partition` to restore. `read_committed`: the view of a consumer of this isolation at the end of
    the partition. `records`: the store of the restore's records, if another. `proves`: see `RecordRewrite`."""

    def __init__(
        self,
        partition: PartitionChain,
        store: Store,
        *,
        read_committed: bool,
        records: Store | None = None,
        proves: bool = False,
    ) -> None:
        self._partition = partition
        self.rewriting = begin_rewriting(partition, records or store, proves=proves)
        self._store = store
        sees_all = not read_committed and partition.left_out is None
        self._committed = None if sees_all else committed_view(partition, store, keep_aborted=not read_committed)
        self._sees = self._committed.is_visible if self._committed else sees_uncommitted
        self._taken_to = 0
        self.invisible_records = 0
        """Number of records left out so far: aborted, undecided at the restore point, or left out by the cut."""

    @property
    def undecided(self) -> int:
        """Number of transactions in the batches so far that are left out without an outcome before the end."""
        return len(self._committed.undecided) if self._committed else 0

    def batches(self, *, start: int = 0, end: int | None = None) -> Iterator[VisibleBatch]:
        """The batches with a base offset in `[start, end)`, all by default, in offset order, once: the next range must
        begin at the end of the last. Raises `DamagedObject`, and the errors of the store."""
        return rewritten(self._stored_batches(start, end), self.rewriting)

    def _stored_batches(self, start: int, end: int | None) -> Iterator[VisibleBatch]:
        end = self._partition.end if end is None else min(end, self._partition.end)
        for segment in self._partition.segments:
            low, high = max(start, segment.lowest_offset), min(end, segment.end)
            if low < high:
                yield from self._segment_batches(segment, low, high)

    def _segment_batches(self, segment: Segment, low: int, high: int) -> Iterator[VisibleBatch]:
        plan = self._partition
        for chunk in count_items(SegmentReader(store=self._store, segment=segment).chunks(start=low, end=high)):
            for header in chunk.batches:
                record_bounds = RecordBounds(max(segment.start, self._taken_to), plan.end, plan.until_ms)
                self._taken_to = header.next_offset
                if not record_bounds.takes_none(header) and self._is_visible(header):
                    yield VisibleBatch(chunk.data, header, record_bounds)

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._sees(header):
            return True
        self.invisible_records += 0 if header.is_control else header.record_count
        return False


def committed_view(partition: PartitionChain, store: Store, *, keep_aborted: bool = False) -> CommittedView:
    """The read_committed view of the partition at its end, without the transactions that its cut leaves out; with
    `keep_aborted` aborted data is visible as well. Raises `DamagedObject`, also when the cut names markers that do not
    exist, and the errors of the store, before any data is read."""
    markers: Iterable[Sequence[Marker]] = stored_markers(partition.segments, store)
    if partition.left_out is not None:
        markers = abort_left_out(markers, needed_markers(partition), keep_aborted=keep_aborted)
    return CommittedView(with_hole_starts(markers, partition.hole_starts), end_offset=partition.end)


def needed_markers(partition: PartitionChain) -> tuple[int, ...]:
    """The commit markers of the cut that must exist in the data to read: data before the first segment is not read."""
    start = partition.segments[0].start if partition.segments else partition.end
    return tuple(offset for offset in partition.left_out or () if start <= offset < partition.end)


def check_left_out(partitions: Iterable[PartitionChain], store: Store) -> None:
    """Look up the commit markers that cuts leave out, in the indexes of their segments. Raises `DamagedObject` when an
    offset has no commit marker, and the errors of the store."""
    having = [partition for partition in partitions if needed_markers(partition)]
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="check-cut") as pool:
        for _ in pool.map(partial(_check_left_out, store=store), having):
            pass


def check_readable(partitions: Iterable[PartitionChain], store: Store) -> None:
    """Read a byte of one object per partition: of the first object that is large enough for a lifecycle rule, because
    rules archive the oldest objects first. A listing does not tell whether an object is readable: the storage class
    does not say whether an object was brought back. Raises `ObjectArchived`, `StoreDenied`; any other error is left to
    the full read."""
    keys = list(dict.fromkeys(_oldest(partition).object_key for partition in partitions if partition.segments))
    keys = keys[:: -(-len(keys) // _TRIED_MAX) or 1]
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="check-reach") as pool:
        errors = [error for error in pool.map(partial(_out_of_reach, store=store), keys) if error is not None]
    if errors:
        message = (
            f"{errors[0].message}; nothing was started: {len(errors)} of {len(keys)} tested objects have this problem"
        )
        raise type(errors[0])(message, hint=errors[0].hint) from errors[0]


def _oldest(partition: PartitionChain) -> Segment:
    large = (segment for segment in partition.segments if segment.stored_bytes >= _ARCHIVED_FROM_BYTES)
    return next(large, partition.segments[0])


def _out_of_reach(key: str, *, store: Store) -> ObjectArchived | StoreDenied | None:
    try:
        store.get_range(key, 0, 1)
    except (ObjectArchived, StoreDenied) as error:
        return error
    except OffsiteError:
        return None
    return None


def _check_left_out(partition: PartitionChain, *, store: Store) -> None:
    needed = needed_markers(partition)
    segments = [
        segment for segment in partition.segments if any(segment.start <= offset < segment.end for offset in needed)
    ]
    for _ in abort_left_out(stored_markers(segments, store), needed):
        pass


def undecided_batches(
    partition: PartitionChain, store: Store, view: CommittedView, *, start: int = 0
) -> Iterator[BatchHeader]:
    """The batches of transactions without a marker before the partition's end or the next hole, with a base offset of
    `start` or more. Reads only segments with transactions. Raises `DamagedObject`, and the errors of the store."""
    for segment in partition.segments:
        if segment.has_transactions:
            low, high = max(start, segment.lowest_offset), min(segment.end, partition.end)
            for chunk in SegmentReader(store=store, segment=segment).chunks(start=low, end=high):
                yield from filter(view.is_undecided, chunk.batches)


def stored_log(partition: PartitionChain, store: Store) -> Iterator[VisibleBatch]:
    """The whole log of one partition as stored in the backup: every batch below the partition's end, in offset order,
    with control batches and aborted data. A restore reads through `SourceView` instead, without data invisible to
    consumers. Batches of an overlapping segment do not count twice. Raises `DamagedObject`, and the errors of the
    store."""
    return rewritten(_stored_log(partition, store), begin_rewriting(partition, store))


def _stored_log(partition: PartitionChain, store: Store) -> Iterator[VisibleBatch]:
    taken_to = 0
    for segment in partition.segments:
        low, high = segment.lowest_offset, min(partition.end, segment.end)
        if low >= high:
            continue
        for chunk in count_items(SegmentReader(store=store, segment=segment).chunks(start=low, end=high)):
            for header in chunk.batches:
                record_bounds = RecordBounds(max(segment.start, taken_to), partition.end)
                taken_to = header.next_offset
                if not record_bounds.takes_none(header):
                    yield VisibleBatch(chunk.data, header, record_bounds)
