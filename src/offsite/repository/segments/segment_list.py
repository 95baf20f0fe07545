"""The live segments of one partition in offset order: immutable, cheap to extend, read only when looked at.

A catalog can hold a million segments while a backup run needs no more than where each partition ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol, overload

from offsite.repository.segments.segment import Segment


class StoredSegments(Protocol):
    """The first segments of a list, still in the form the catalog keeps them in."""

    def __len__(self) -> int: ...

    @property
    def end(self) -> int:
        """Where the last one ends."""

    def last(self) -> Segment:
        """Read the last one only."""

    def load(self) -> tuple[Segment, ...]:
        """Read them."""


class SegmentList(Sequence[Segment]):
    """Segments in ascending, non-overlapping ranges: a stored part, loaded on demand, then `tail`."""

    __slots__ = ("_everything", "_tail", "stored")

    def __init__(self, tail: Iterable[Segment] = (), *, stored: StoredSegments | None = None) -> None:
        self.stored = stored
        self._tail = tuple(tail)
        self._everything: tuple[Segment, ...] | None = None if stored else self._tail

    @property
    def tail(self) -> tuple[Segment, ...]:
        """The segments after the stored part."""
        return self._tail

    @property
    def end(self) -> int:
        """Where the last segment ends; 0 when there is none."""
        if self._tail:
            return self._tail[-1].end
        return self.stored.end if self.stored else 0

    @property
    def last(self) -> Segment | None:
        """The last segment, read without the others."""
        if self._tail:
            return self._tail[-1]
        return self.stored.last() if self.stored else None

    def appended(self, segment: Segment) -> SegmentList:
        """With one more segment, which must begin at or after `end`."""
        return SegmentList((*self._tail, segment), stored=self.stored)

    def inserted(self, segment: Segment) -> SegmentList:
        """With one more segment anywhere."""
        return SegmentList(sorted((*self._all(), segment), key=lambda s: s.start))

    def without(self, keys: Collection[str]) -> SegmentList:
        return SegmentList(segment for segment in self._all() if segment.key not in keys)

    def __len__(self) -> int:
        return (len(self.stored) if self.stored else 0) + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, index: int | slice) -> Segment | tuple[Segment, ...]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentList) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"SegmentList({len(self)} segments to {self.end})"

    def _all(self) -> tuple[Segment, ...]:
        if self._everything is None:
            self._everything = (self.stored.load() if self.stored else ()) + self._tail
        return self._everything
