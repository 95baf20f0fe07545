"""The read_committed view of a log. The only place that decides visibility, for backups and live logs alike.

Kafka writes the records of a transaction into the log at once, among the records of other producers. When the
transaction ends, a marker follows in every partition of the transaction: a control batch for commit or abort (KIP-98).
The decision about a batch therefore stands behind the batch, maybe far behind. Brokers help consumers: a fetch response
names the aborted transactions (producer id and first offset), and ends at the last stable offset, where the first open
transaction begins. A backup has no broker, and reads raw batches as read_uncommitted. Here the markers decide alone:

- A transactional batch belongs to the next marker of its producer id in the same partition: a producer has one
  transaction at a time. A marker without data in front decides nothing: the data was deleted or compacted, lies before
  the first batch read, or never existed.
- Offsets may be missing between a batch and the next marker (a hole: the source deleted them before the copy). The
  batch's own marker may be among the missing offsets, and the next marker may belong to another transaction. Such a
  batch is undecided for ever, and left out.
- Producer epoches play no part. A marker of a higher epoch than the data ends a producer that was fenced or timed out,
  and since KIP-890 any transaction. Later data of the same producer id is another transaction.
- A view ends at its restore point or range. Markers at or after the end do not count: their transactions are undecided,
  and left out like aborted data. Committed data of other producers behind an undecided transaction is visible, although
  a consumer at the time had to wait at the last stable offset: nothing decides the transaction any more.
- An export that continues later must wait at the last stable offset as well (`is_undecided`). Otherwise the export
  would miss records that are committed later.
- Control batches are never visible, whatever the isolation level and the content.
- A consistent cut leaves out committed transactions: their commit markers count as aborts (`abort_left_out`).

`log.group_fold` folds offsets that were committed in a transaction (KIP-447 has consumers wait for such offsets).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.markers import HoleStart, Marker
from offsite.log.transactions import UndecidedTransaction
from offsite.model.errors import DamagedObject

_RECENT_MIN = 32_768
"""Producers kept in a dictionary, about 100 bytes a producer, before the move to the sorted arrays."""
_RECENT_SHARE = 16
"""At most a sixteenth of all producers is in the dictionary: a producer moves only a few times, for any number of
producers."""
_BLOCK_CHANGES = 1_024
"""Changes of a producer that are packed together: enough to cost little, few enough to lie anywhere in memory."""
_KNOWN_MAX = 4_096
"""Producers with a remembered last answer: readers ask about one transaction after another."""


def sees_uncommitted(header: BatchHeader) -> bool:
    """Whether a read_uncommitted consumer sees the batch's records: true for all batches but control batches."""
    return not header.attributes & CONTROL_BIT


def abort_left_out(
    markers: Iterable[Sequence[Marker]], left_out: Sequence[int], *, keep_aborted: bool = False
) -> Iterator[Sequence[Marker]]:
    """The markers in the same parts, with the commit markers at the offsets `left_out` turned into aborts. With
    `keep_aborted` all remaining markers become commits: a read_uncommitted consumer misses only the transactions left
    out.

    Raises `DamagedObject` at the end, unless every offset had a commit marker. Otherwise a transaction to hide would be
    visible, or another transaction would be hidden.
    """
    expected, matched = frozenset(left_out), set[int]()
    for part in markers:
        if not part:
            continue
        hits = (
            {marker.offset for marker in part if marker.committed and marker.offset in expected}
            if expected
            else frozenset[int]()
        )
        matched |= hits
        if hits or keep_aborted:
            yield [
                marker._replace(committed=marker.offset not in hits and (keep_aborted or bool(marker.committed)))
                for marker in part
            ]
        else:
            yield part
    if missing := sorted(expected - matched):
        raise DamagedObject(
            f"the consistent cut leaves out a transaction that was committed at offset {missing[0]}, but the backup "
            f"has no commit marker there{_more(len(missing) - 1)}",
            hint="restore what was copied (--cut as-copied), or another commit (--commit)",
        )


def _more(count: int) -> str:
    return f" (nor at {count} others)" if count else ""


class CommittedView:
    """The read_committed view of a partition that ends at `end_offset` (exclusive).

    `markers`: the markers from the first batch of interest on, by offset, in parts, as read by `stored_markers` from
    segments and by `log_markers` from a live log. A `HoleStart` between markers says where offsets are missing: a
    transaction open at a hole stays undecided.

    The constructor reads all markers: a damaged index is found before anything is written, and markers of a live log
    are known before retention deletes them. `as_needed`: a part is read only when a batch has no outcome yet. Meant for
    a task that reads a small piece of a stored log, and would otherwise read the indexes of all later segments.
    """

    def __init__(
        self, markers: Iterable[Iterable[Marker] | HoleStart], *, end_offset: int, as_needed: bool = False
    ) -> None:
        self._end_offset = end_offset
        self._missing_from = array("q")
        self._outcomes = [TransactionOutcomes(end_offset=end_offset)]  # one for the markers between two holes
        self._first_undecided: dict[tuple[int, int], int] = {}
        self._unread = iter(markers)
        if not as_needed:
            for part in self._unread:
                self._take(part)

    @property
    def undecided(self) -> list[UndecidedTransaction]:
        """The transactions without a marker before the end or the next hole. Covers batches passed to `is_visible` so
        far."""
        return [
            UndecidedTransaction(producer_id=producer_id, first_offset=first_offset)
            for (producer_id, _), first_offset in sorted(self._first_undecided.items(), key=itemgetter(1))
        ]

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether the batch's records reach the consumer; always false for a control batch. `as_needed`: raises the
        errors of reading markers."""
        kind = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        if kind != TRANSACTIONAL_BIT:
            return not kind
        outcome = self.outcome(header)
        if outcome is None:
            transaction = header.producer_id, self.stretch_index(header)
            first = self._first_undecided.get(transaction, header.base_offset)
            self._first_undecided[transaction] = min(first, header.base_offset)
        return outcome is True

    def is_undecided(self, header: BatchHeader) -> bool:
        """Whether the batch holds data of a transaction without a marker before the end or the next hole. Raises as
        `is_visible`."""
        kind = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        return kind == TRANSACTIONAL_BIT and self.outcome(header) is None

    def is_open(self, header: BatchHeader) -> bool:
        """Whether the batch is undecided, and a marker behind the end may decide. No marker behind a hole decides.
        Raises as `is_visible`."""
        return self.is_undecided(header) and self.stretch_index(header) == len(self._missing_from)

    def stretch_index(self, header: BatchHeader) -> int:
        """The number of holes before the batch's last record, as far as markers were read: a transaction lies between
        two holes. The first batch behind a hole may begin before the hole, when the log started inside the batch."""
        return bisect_right(self._missing_from, header.last_offset) if self._missing_from else 0

    def outcome(self, header: BatchHeader) -> bool | None:
        """Whether the next marker of the producer id committed the transactional batch. None: no such marker. Raises as
        `is_visible`."""
        while True:
            stretch = self.stretch_index(header)
            outcome = self._outcomes[stretch].outcome_of(header.producer_id, header.base_offset)
            if outcome is not None or stretch < len(self._missing_from):
                return outcome
            if (part := next(self._unread, None)) is None:
                return None
            self._take(part)

    def _take(self, part: Iterable[Marker] | HoleStart) -> None:
        if isinstance(part, HoleStart):
            self._missing_from.append(part.offset)
            self._outcomes.append(TransactionOutcomes(end_offset=self._end_offset))
        else:
            self._outcomes[-1].add(part)


class TransactionOutcomes:
    """How the transactions of a partition ended, by the markers below `end_offset`. A table for any number of
    transactions.

    For a producer the table keeps the last marker, and the offsets where outcomes changed from commit to abort or back.
    All transactions between two changes ended alike. The outcome of a batch is the outcome of the last marker, flipped
    once for every change behind the batch.

    Memory bound, with 20 million markers of few producers: 82 MB if every marker differs from the producer's previous
    marker, 8 MB if one in twenty is an abort among commits, nothing if all are alike. A producer takes 16 bytes, and
    about 190 bytes more after the first change. No marker is kept as an object.
    """

    def __init__(self, *, end_offset: int) -> None:
        self._end_offset = end_offset
        # A last marker is its offset, shifted, and a bit for a commit. A producer is in the dictionary or the arrays.
        self._recent: dict[int, int] = {}
        self._producer_ids = array("q")
        self._last_markers = array("q")
        self._changes: dict[int, array[int] | _Packed] = {}
        # The last answer: offsets from, to, and the outcome of all transactions between.
        self._known: dict[int, tuple[int, int, bool]] = {}

    def add(self, markers: Iterable[Marker]) -> None:
        """Add the next markers."""
        end_offset, recent = self._end_offset, self._recent  # locals: the hot loop
        for offset, producer_id, _, committed, _ in markers:
            if offset >= end_offset:
                return
            marker = offset << 1 | committed
            last = recent.get(producer_id)
            if last is not None:
                recent[producer_id] = marker
            elif (place := self._place(producer_id)) >= 0:
                last = self._last_markers[place]
                self._last_markers[place] = marker
            else:
                recent[producer_id] = marker
                self._settle_if_many()
            if last is not None and last & 1 != committed:
                self._change(producer_id, last >> 1)

    def outcome_of(self, producer_id: int, offset: int) -> bool | None:
        """Whether the producer's transactional batch at `offset` was committed. None: no marker has decided yet."""
        cached = self._known.get(producer_id)
        if cached is not None and cached[0] <= offset < cached[1]:
            return cached[2]
        last = self._last(producer_id)
        if last >> 1 <= offset:
            return None
        end, committed = last >> 1, last & 1
        if (changes := self._changes.get(producer_id)) is not None:
            place = bisect_right(changes, offset) if isinstance(changes, array) else changes.place(offset)
            committed ^= len(changes) - place & 1
            end = changes[place] if place < len(changes) else end
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[producer_id] = offset, end, committed == 1
        return committed == 1

    def _last(self, producer_id: int) -> int:
        if (last := self._recent.get(producer_id)) is not None:
            return last
        place = self._place(producer_id)
        return self._last_markers[place] if place >= 0 else -1

    def _change(self, producer_id: int, offset: int) -> None:
        """The marker at `offset` was the last of a run with equal outcomes."""
        changes = self._changes.get(producer_id)
        if changes is None:
            changes = self._changes[producer_id] = array("q")
        elif len(changes) == _BLOCK_CHANGES and isinstance(changes, array):
            changes = self._changes[producer_id] = _Packed(changes)
        changes.append(offset)

    def _place(self, producer_id: int) -> int:
        """The index of the producer in the arrays; -1: not present."""
        ids = self._producer_ids
        place = bisect_left(ids, producer_id)
        return place if place < len(ids) and ids[place] == producer_id else -1

    def _settle_if_many(self) -> None:
        """Move the recent producers to the arrays."""
        if len(self._recent) <= max(_RECENT_MIN, len(self._producer_ids) // _RECENT_SHARE):
            return
        ids, lasts = array("q"), array("q")
        low = 0
        for producer_id in sorted(self._recent):
            high = bisect_left(self._producer_ids, producer_id, low)
            ids += self._producer_ids[low:high]
            lasts += self._last_markers[low:high]
            ids.append(producer_id)
            lasts.append(self._recent[producer_id])
            low = high
        ids += self._producer_ids[low:]
        lasts += self._last_markers[low:]
        self._producer_ids, self._last_markers = ids, lasts
        self._recent.clear()


class _Packed:
    """Many rising offsets. Packed in blocks of distances from the block's first offset, 4 bytes a distance unless the
    offsets are far apart. The newest offsets are not packed."""

    __slots__ = ("_blocks", "_newest", "_starts")

    def __init__(self, offsets: array[int]) -> None:
        self._newest = offsets
        self._starts: list[int] = []
        self._blocks: list[array[int]] = []

    def append(self, offset: int) -> None:
        if len(self._newest) == _BLOCK_CHANGES:
            start, end = self._newest[0], self._newest[-1]
            kind = "I" if end - start < 1 << 32 else "q"
            self._blocks.append(array(kind, [change_offset - start for change_offset in self._newest]))
            self._starts.append(start)
            self._newest = array("q")
        self._newest.append(offset)

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_CHANGES + len(self._newest)

    def __getitem__(self, place: int) -> int:
        block, number = divmod(place, _BLOCK_CHANGES)
        return self._newest[number] if block == len(self._blocks) else self._starts[block] + self._blocks[block][number]

    def place(self, offset: int) -> int:
        """The number of offsets at or before `offset`."""
        if offset >= self._newest[0]:
            return len(self._blocks) * _BLOCK_CHANGES + bisect_right(self._newest, offset)
        block = max(bisect_right(self._starts, offset) - 1, 0)
        return block * _BLOCK_CHANGES + bisect_right(self._blocks[block], offset - self._starts[block])
