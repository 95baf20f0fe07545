"""The live segments of one partition in offset order: immutable, cheap to extend, read from the catalog only when looked at.

A catalog can hold a million segments while a backup run needs no more than where each partition ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import overload

from offsite.repository.segment import Segment


class SegmentList(Sequence[Segment]):
    """Segments in ascending, non-overlapping ranges: a stored part, loaded on demand, then `tail`."""

    __slots__ = ("_end", "_load", "_stored", "_stored_count", "_tail")

    def __init__(
        self,
        tail: Iterable[Segment] = (),
        *,
        load: Callable[[], tuple[Segment, ...]] = tuple,
        stored_count: int = 0,
        stored_end: int = 0,
    ) -> None:
        self._tail = tuple(tail)
        self._load = load
        self._stored_count = stored_count
        self._stored: tuple[Segment, ...] | None = None
        self._end = self._tail[-1].end if self._tail else stored_end

    @property
    def end(self) -> int:
        """Where the last segment ends; 0 when there is none."""
        return self._end

    def appended(self, segment: Segment) -> SegmentList:
        """With one more segment, which must begin at or after `end`."""
        longer = SegmentList((*self._tail, segment), load=self._load, stored_count=self._stored_count)
        longer._stored = self._stored
        return longer

    def inserted(self, segment: Segment) -> SegmentList:
        """With one more segment anywhere."""
        return SegmentList(sorted((*self._all(), segment), key=lambda s: s.start))

    def without(self, keys: Collection[str]) -> SegmentList:
        return SegmentList(segment for segment in self._all() if segment.key not in keys)

    def __len__(self) -> int:
        return self._stored_count + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, index: int | slice) -> Segment | tuple[Segment, ...]:
        return self._all()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentList) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"SegmentList({len(self)} segments to {self._end})"

    def _all(self) -> tuple[Segment, ...]:
        if not self._stored_count:
            return self._tail
        if self._stored is None:
            self._stored = self._load()
        return self._stored + self._tail
