"""The target's side of a proof: a live partition's range as seen by a consumer of an isolation level, and the stored
offset map of a restore, looked up at every batch during the comparison of both ends.

Never takes silence for emptiness: ranges without an answer of the reader are named (a hole) or raise an error. The
comparison shows that the n-th record of the source is the n-th of the target. Therefore a map must send the first and
the last record of every source batch to the target offset with the same number of records before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from offsite.log.batch import BatchHeader
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.difference import RecordDifference
from offsite.log.offset_map import OffsetMap
from offsite.log.range import Chunk, Gap, Hole, LogRange, TopicPartition
from offsite.log.transactions import log_markers
from offsite.points.point_in_time import PartitionChain
from offsite.points.source_view import RecordBounds, VisibleBatch
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store

RangeReader = Callable[[LogRange], Iterator[Chunk | Hole | Gap]]
"""`PartitionReader.read`, with a new reader for every call. A `Gap` stands for offsets proven to hold no record."""


class TargetView:
    """The batches of `log_range`, without batches in `ignored` ranges. `read_committed`: without aborted data, and
    without data undecided before the range's end. `whole_log`: with control batches, else without."""

    def __init__(
        self,
        read: RangeReader,
        log_range: LogRange,
        *,
        read_committed: bool,
        whole_log: bool = False,
        ignored: Sequence[LogRange] = (),
    ) -> None:
        self._read = read
        self._range = log_range
        self._read_committed = read_committed
        self._whole_log = whole_log
        self._wanted = tuple(_without(log_range, ignored))
        self._committed: CommittedView | None = None
        self.holes: list[Hole] = []
        """Ranges that the cluster no longer had when they were read, without `ignored` ranges."""

    def batches(self) -> Generator[VisibleBatch, None, None]:
        """The batches in offset order, once; a batch is valid until the caller asks for the next. Raises the errors of
        `PartitionReader`."""
        for item in self._read(self._range):
            if isinstance(item, Hole):
                self._note(item)
            elif isinstance(item, Chunk):
                for header in item.batches:
                    for record_bounds in self._wanted:
                        if not record_bounds.takes_none(header) and self._is_visible(header):
                            yield VisibleBatch(item.data, header, record_bounds)

    def _note(self, hole: Hole) -> None:
        if any(hole.start < bounds.end and bounds.start < hole.end for bounds in self._wanted):
            self.holes.append(hole)

    def _is_visible(self, header: BatchHeader) -> bool:
        if self._whole_log:
            return True
        if header.is_control or not (self._read_committed and header.is_transactional):
            return sees_uncommitted(header)
        if self._committed is None:
            remaining = replace(self._range, start=header.base_offset)
            self._committed = CommittedView(log_markers(self._read, remaining), end_offset=remaining.end)
        return self._committed.is_visible(header)


def _without(log_range: LogRange, ignored: Sequence[LogRange]) -> Iterator[RecordBounds]:
    """The parts of the range outside of all `ignored` ranges, in order."""
    start = log_range.start
    for ignored_range in sorted(ignored):
        if start < min(ignored_range.start, log_range.end):
            yield RecordBounds(start, min(ignored_range.start, log_range.end))
        start = max(start, ignored_range.end)
    if start < log_range.end:
        yield RecordBounds(start, log_range.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredMaps:
    """The maps of one restore in `store`, and the valid ones: `makings` are numbers of target topics that were made
    more than once, `starts` are the first offsets of target partitions."""

    store: Store
    layout: RestoreLayout
    makings: tuple[tuple[str, int], ...]
    starts: tuple[tuple[TopicPartition, int], ...]

    def of(self, chain: PartitionChain, target: str) -> OffsetMap | None:
        """The map of `chain` into topic `target`. Raises `DamagedObject`, and the errors of the store."""
        return self.layout.get_map(self.store, chain.source, making=dict(self.makings).get(target, 1))


class MapProof:
    """A check of one map, made with the batches of its source as they pass. `keeps_offsets`: every record has the
    offset of its source."""

    def __init__(self, offset_map: OffsetMap | None, *, target_start: int, keeps_offsets: bool) -> None:
        self._map = offset_map
        self._at = target_start
        self._keeps_offsets = keeps_offsets
        self.difference = None if offset_map is not None else _wrong("the offset map is missing", -1, -1)
        """The first place where the map does not match the written records."""

    def check_batches(self, batches: Iterator[VisibleBatch]) -> Iterator[VisibleBatch]:
        """The same batches. After the last batch `difference` is final."""
        for batch in batches:
            self._look_up(batch)
            yield batch
        if self._map is not None and not self._keeps_offsets and self._map.target_end != self._at:
            self._note("the offset map ends at another offset", self._map.source_end, self._at)

    def _look_up(self, batch: VisibleBatch) -> None:
        if self._map is None or self.difference is not None:
            return
        first, last, count = _visible(batch)
        if count:
            target = first if self._keeps_offsets else self._at
            self._at += count
            # Compaction keeps the last offset of a batch when it removes the record: the map finds the next record.
            after = self._map.lookup(last)
            past = (last if self._keeps_offsets else self._at - 1) + (after.match != "exact")
            if (self._map.lookup(first).target, after.target) != (target, past):
                self._note("the offset map points to another offset", first, target)

    def _note(self, detail: str, source_offset: int, target_offset: int) -> None:
        self.difference = self.difference or _wrong(detail, source_offset, target_offset)


def _visible(batch: VisibleBatch) -> tuple[int, int, int]:
    """First and last offset and number of the records that count. Without a record at a base offset the next record is
    used, as by the map."""
    if batch.record_bounds.takes_all(batch.header):
        return batch.header.base_offset, batch.header.last_offset, batch.header.record_count
    records = batch.records()
    return (records[0].offset, records[-1].offset, len(records)) if records else (0, 0, 0)


def _wrong(detail: str, source_offset: int, target_offset: int) -> RecordDifference:
    return RecordDifference(
        kind="map", fields=(), source_offset=source_offset, target_offset=target_offset, records=1, detail=detail
    )
