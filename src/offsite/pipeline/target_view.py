"""What a live partition shows of a range: the other side of a proof, seen as a consumer of that isolation sees it."""

from __future__ import annotations

from collections.abc import Generator

from offsite.kafka.reader import PartitionReader
from offsite.kafka.routing import Router
from offsite.log.batch import BatchHeader
from offsite.log.chunk import Chunk, Gap, Hole
from offsite.log.range import LogRange
from offsite.log.transactions import CommittedView, TransactionIndexer
from offsite.pipeline.cutoff import Cutoff
from offsite.pipeline.source_view import VisibleBatch


class TargetView:
    """The batches of `log_range`, without control batches; `read_committed`: without what transactions aborted or had
    not decided before the range's end."""

    def __init__(self, router: Router, log_range: LogRange, *, read_committed: bool) -> None:
        self._router = router
        self._range = log_range
        self._read_committed = read_committed
        self._committed: CommittedView | None = None
        self.holes: list[Hole] = []
        """Ranges that the cluster did not have any more when they were read."""

    def batches(self) -> Generator[VisibleBatch, None, None]:
        """In offset order, once; each is valid until the next is asked for. Raises what `PartitionReader` raises."""
        cutoff = Cutoff(self._range.start, self._range.end)
        for item in PartitionReader(self._router).read(self._range):
            if isinstance(item, Hole):
                self.holes.append(item)
            if isinstance(item, Hole | Gap):
                continue
            for header in item.batches:
                if not cutoff.takes_none(header) and self._is_visible(header):
                    yield VisibleBatch(item.data, header, cutoff)

    def _is_visible(self, header: BatchHeader) -> bool:
        if header.is_control or not (self._read_committed and header.is_transactional):
            return not header.is_control
        if self._committed is None:
            self._committed = self._read_markers(header.base_offset)
        return self._committed.is_visible(header)

    def _read_markers(self, start: int) -> CommittedView:
        """Outcomes come after the data they decide on, so what is left of the range is read once for them alone: only
        partitions with transactions pay for it."""
        indexer = TransactionIndexer()
        rest = LogRange(topic=self._range.topic, partition=self._range.partition, start=start, end=self._range.end)
        view = CommittedView(end_offset=self._range.end)
        for item in PartitionReader(self._router).read(rest):
            if isinstance(item, Chunk):
                indexer.feed(item.data, item.batches)
                view.take(indexer.drain())
        return view
