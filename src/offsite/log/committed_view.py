"""What a read_committed consumer sees of a log. The one place that decides it, for backups and live logs alike.

Kafka writes the records of a transaction into the log at once, among those of others. Only when the transaction ends, a
marker follows in each partition of it: a control batch that says commit or abort (KIP-98). So what decides whether a
batch is seen stands behind the batch, maybe far behind. Brokers help consumers: with each fetch they tell the aborted
transactions (producer id and first offset), and they give nothing from the last stable offset on, where the first open
transaction begins. A backup has no broker, and reads raw batches as read_uncommitted. So here the markers decide alone:

- A transactional batch belongs to the next marker of its producer id in the same partition: a producer has one
  transaction at a time. A marker without data before it decides nothing: the data was deleted or compacted, or lies
  before what is read, or there was none.
- Where offsets are missing between a batch and that marker (a hole: the source had deleted them before they were
  copied), the batch's own marker may have been among them, and the next one belong to another transaction. Nobody can
  tell any more: the batch is undecided for ever, and left out.
- Producer epochs play no part. A producer that was fenced or timed out is ended by a marker of a higher epoch than its
  data has, and since KIP-890 any transaction may be. What follows with the same producer id is another transaction.
- A view ends where its restore point or range ends. Markers at or after the end do not count: what they decide is
  undecided, and left out like what was aborted. What others committed behind it is seen all the same, though a consumer
  at that time had to wait at the last stable offset: nothing decides that transaction any more.
- An export that goes on later must wait there as well (`is_undecided`), or it would miss what is decided after it.
- Control batches are never seen, whatever the isolation level and whatever they hold.
- A consistent cut leaves out transactions that were committed: their commit markers count as aborts (`leave_out`).

Offsets that were committed in a transaction (KIP-447 has consumers wait for them) are folded in `groups.fold`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from offsite.log.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from offsite.log.markers import Marker, MissingFrom
from offsite.log.transactions import Undecided
from offsite.model.errors import DamagedObject

__all__ = ["CommittedView", "Outcomes", "leave_out", "sees_uncommitted"]

_RECENT_MIN = 32_768
"""Producers kept in a dictionary, about 100 bytes each, before they move to the sorted arrays."""
_RECENT_SHARE = 16
"""No more of them than this part of all: so each producer moves a few times only, however many there are."""
_BLOCK_CHANGES = 1_024
"""So many changes of a producer are packed at a time: large enough to cost little, small enough to lie anywhere."""
_KNOWN_MAX = 4_096
"""Producers whose last answer is remembered: readers ask about one transaction after the other."""


def sees_uncommitted(header: BatchHeader) -> bool:
    """Whether the batch's records reach a read_uncommitted consumer: those of all batches but control batches do."""
    return not header.attributes & CONTROL_BIT


def leave_out(
    markers: Iterable[Sequence[Marker]], left_out: Sequence[int], *, keep_aborted: bool = False
) -> Iterator[Sequence[Marker]]:
    """The markers, in the same parts, with the commit markers at the offsets `left_out` taken for aborts. With
    `keep_aborted` all others are taken for commits: so a read_uncommitted consumer misses what is left out alone.

    Raises `DamagedObject` at its end, unless there was a commit marker at each of the offsets: else what is to be
    hidden would be seen, or something else be hidden.
    """
    wanted, found = frozenset(left_out), set[int]()
    for part in markers:
        if not part:
            continue
        hits = (
            {each.offset for each in part if each.committed and each.offset in wanted} if wanted else frozenset[int]()
        )
        found |= hits
        if hits or keep_aborted:
            yield [
                each._replace(committed=each.offset not in hits and (keep_aborted or bool(each.committed)))
                for each in part
            ]
        else:
            yield part
    if missing := sorted(wanted - found):
        raise DamagedObject(
            f"the consistent cut leaves out a transaction that was committed at offset {missing[0]}, and the backup has"
            f" no commit marker there{_more(len(missing) - 1)}",
            hint="restore what was copied (--cut as-copied), or another commit (--commit)",
        )


def _more(count: int) -> str:
    return f" (nor at {count} others)" if count else ""


class CommittedView:
    """What a read_committed consumer sees of a partition that ends at `end_offset` (exclusive).

    `markers`: those from the first batch on that will be asked about, by offset, in parts, as `stored_markers` reads
    them from segments and `log_markers` from a live log. The constructor reads them all, so that a damaged index shows
    before anything is written, and markers are known before retention deletes them from a live log. `as_needed`: a part
    is read only when a batch has no outcome yet. That is for a task that reads a small piece of a stored log, which
    would otherwise read the indexes of all that follows. Where offsets are missing, a `MissingFrom` says so between
    them: what was open there stays undecided.
    """

    def __init__(
        self, markers: Iterable[Iterable[Marker] | MissingFrom], *, end_offset: int, as_needed: bool = False
    ) -> None:
        self._end_offset = end_offset
        self._missing_from = array("q")
        self._outcomes = [Outcomes(end_offset=end_offset)]  # of what lies between two holes
        self._first_undecided: dict[tuple[int, int], int] = {}
        self._unread = iter(markers)
        if not as_needed:
            for part in self._unread:
                self._take(part)

    @property
    def undecided(self) -> list[Undecided]:
        """The transactions without a marker before the end or the next hole, of the batches that `is_visible` was asked
        about."""
        return [
            Undecided(producer_id=producer_id, first_offset=first_offset)
            for (producer_id, _), first_offset in sorted(self._first_undecided.items(), key=itemgetter(1))
        ]

    def is_visible(self, header: BatchHeader) -> bool:
        """Whether the batch's records reach the consumer; those of a control batch never do. `as_needed`: raises what
        reading markers raises."""
        kind = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        if kind != TRANSACTIONAL_BIT:
            return not kind
        outcome = self.outcome(header)
        if outcome is None:
            transaction = header.producer_id, self.stretch(header)
            first = self._first_undecided.get(transaction, header.base_offset)
            self._first_undecided[transaction] = min(first, header.base_offset)
        return outcome is True

    def is_undecided(self, header: BatchHeader) -> bool:
        """Whether the batch holds data of a transaction that has no marker before the end or the next hole. Raises as
        `is_visible`."""
        kind = header.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        return kind == TRANSACTIONAL_BIT and self.outcome(header) is None

    def is_open(self, header: BatchHeader) -> bool:
        """Whether it is undecided, and a marker behind the end may decide on it: none behind a hole does. Raises as
        `is_visible`."""
        return self.is_undecided(header) and self.stretch(header) == len(self._missing_from)

    def stretch(self, header: BatchHeader) -> int:
        """The number of holes before the batch's last record, as far as markers were read: a transaction lies between
        two of them. The first batch behind a hole may begin before it: the log started inside the batch."""
        return bisect_right(self._missing_from, header.last_offset) if self._missing_from else 0

    def outcome(self, header: BatchHeader) -> bool | None:
        """Whether the transactional batch was committed, by its producer id's next marker; None: there is none. Raises
        as `is_visible`."""
        while True:
            stretch = self.stretch(header)
            outcome = self._outcomes[stretch].of(header.producer_id, header.base_offset)
            if outcome is not None or stretch < len(self._missing_from):
                return outcome
            if (part := next(self._unread, None)) is None:
                return None
            self._take(part)

    def _take(self, part: Iterable[Marker] | MissingFrom) -> None:
        if isinstance(part, MissingFrom):
            self._missing_from.append(part.offset)
            self._outcomes.append(Outcomes(end_offset=self._end_offset))
        else:
            self._outcomes[-1].take(part)


class Outcomes:
    """How the transactions of a partition ended, by its markers below `end_offset`: a table for any number of them.

    Of each producer only its last marker is kept, and where its outcomes changed from commit to abort or back:
    everything between two changes ended alike. So a batch ends as the last marker does, turned once for each change
    behind the batch.

    Bound, with 20 million markers of few producers: 82 MB if every one differs from the one before of its producer,
    8 MB if one in twenty is an abort among commits, nothing if all are alike. A producer takes 16 bytes, about 190 more
    when its outcomes ever changed. No marker is kept as an object.
    """

    def __init__(self, *, end_offset: int) -> None:
        self._end_offset = end_offset
        # A last marker is its offset, shifted, and a bit for a commit. A producer is in the dictionary or the arrays.
        self._recent: dict[int, int] = {}
        self._producer_ids = array("q")
        self._last_markers = array("q")
        self._changes: dict[int, array[int] | _Packed] = {}
        # What was found last: offsets from, to, and how everything between them ended.
        self._known: dict[int, tuple[int, int, bool]] = {}

    def take(self, markers: Iterable[Marker]) -> None:
        """Go on with the next markers."""
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

    def of(self, producer_id: int, offset: int) -> bool | None:
        """Whether the producer's transactional batch at `offset` was committed; None: no marker has decided on it."""
        known = self._known.get(producer_id)
        if known is not None and known[0] <= offset < known[1]:
            return known[2]
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
        """The marker at `offset` was the last of those that ended alike."""
        changes = self._changes.get(producer_id)
        if changes is None:
            changes = self._changes[producer_id] = array("q")
        elif len(changes) == _BLOCK_CHANGES and isinstance(changes, array):
            changes = self._changes[producer_id] = _Packed(changes)
        changes.append(offset)

    def _place(self, producer_id: int) -> int:
        """Where the producer is in the arrays; -1: it is not."""
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
    """Many rising offsets: in blocks, each at its distance from the block's first, which takes 4 bytes unless they are
    far apart; the newest as they are."""

    __slots__ = ("_blocks", "_newest", "_starts")

    def __init__(self, offsets: array[int]) -> None:
        self._newest = offsets
        self._starts: list[int] = []
        self._blocks: list[array[int]] = []

    def append(self, offset: int) -> None:
        if len(self._newest) == _BLOCK_CHANGES:
            start, end = self._newest[0], self._newest[-1]
            kind = "I" if end - start < 1 << 32 else "q"
            self._blocks.append(array(kind, [each - start for each in self._newest]))
            self._starts.append(start)
            self._newest = array("q")
        self._newest.append(offset)

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_CHANGES + len(self._newest)

    def __getitem__(self, place: int) -> int:
        block, number = divmod(place, _BLOCK_CHANGES)
        return self._newest[number] if block == len(self._blocks) else self._starts[block] + self._blocks[block][number]

    def place(self, offset: int) -> int:
        """How many are at or before `offset`."""
        if offset >= self._newest[0]:
            return len(self._blocks) * _BLOCK_CHANGES + bisect_right(self._newest, offset)
        block = max(bisect_right(self._starts, offset) - 1, 0)
        return block * _BLOCK_CHANGES + bisect_right(self._blocks[block], offset - self._starts[block])
