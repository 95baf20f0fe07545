"""How the transactions of a partition ended, whatever their number: what of millions of markers decides on data.

Of each producer only its last marker is kept, and where its outcomes changed from commit to abort or back: everything
between two changes ended alike. A batch ends as its producer's next marker says (KIP-98), so it ends as the last marker
does, turned once for each change behind the batch.

Bound, with 20 million markers of few producers: 82 MB if every one differs from the one before of its producer, 8 MB
if one in twenty is an abort among commits, nothing if all are alike. A producer takes 16 bytes, about 190 more when its
outcomes ever changed. No marker is kept as an object.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from offsite.log.markers import Marker

_RECENT_MIN = 32_768
"""Producers kept in a dictionary, about 100 bytes each, before they move to the sorted arrays."""
_RECENT_SHARE = 16
"""No more of them than this part of all: so each producer moves a few times only, however many there are."""
_BLOCK_CHANGES = 1_024
"""So many changes of a producer are packed at a time: large enough to cost little, small enough to lie anywhere."""
_KNOWN_MAX = 4_096
"""Producers whose last answer is remembered: readers ask about one transaction after the other."""


class Outcomes:
    """Of the markers below `end_offset`, which come by offset."""

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
