"""A live partition's range as seen by a consumer of an isolation level: the other side of a proof.

Never takes silence for emptiness: ranges without an answer of the reader are named (a hole) or raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from offsite.log.batch import BatchHeader
from offsite.log.committed_view import CommittedView, sees_uncommitted
from offsite.log.range import Chunk, Gap, Hole, LogRange
from offsite.log.transactions import log_markers
from offsite.points.source_view import RecordBounds, VisibleBatch

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
