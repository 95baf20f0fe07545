"""How the transactions of a scan's batches ended, as a read_committed consumer of the whole partition knows it.

A scan reads a part of a partition, and the outcome of what it reads may stand far behind. Later segments' indexes are
read one by one, and only when a batch has no outcome yet: usually none, or the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.transactions import CommittedView
from offsite.repository.segment import Segment
from offsite.repository.segment_reader import SegmentReader
from offsite.repository.store import Store


class Outcomes:
    """Of the transactions in `segments`, and in what follows them as far as needed. Markers from `end` on do not
    count: those transactions were undecided at the restore point, and are not seen."""

    def __init__(self, segments: Iterable[Segment], *, store: Store, end: int) -> None:
        self._store = store
        self._unread = deque(segment for segment in segments if segment.has_transactions)
        self._view = CommittedView(end_offset=end)

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether the records of the batch are seen; those of a control batch never are. Raises `DamagedObject`, and
        what the store raises."""
        if not header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            return True
        if header.attributes & CONTROL_BIT:
            return False
        while (outcome := self._view.outcome(header)) is None and self._unread:
            self._read_next()
        return outcome is True

    def _read_next(self) -> None:
        reader = SegmentReader(store=self._store, segment=self._unread.popleft())
        for markers in reader.markers():
            self._view.take(markers)
