"""The markers that ended transactions, many of them in little memory: rows of integers, no object for each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, overload

__all__ = ["Marker", "Markers"]

_WIDTH = 5


class Marker(NamedTuple):
    """The control record at `offset` that ended a transaction of `producer_id`. A tuple, because millions are made.

    `first_offset` is the base offset of the transaction's first batch that the indexer saw, or -1: a transaction
    without data here, or one whose data lies before the indexed range.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool
    first_offset: int


class Markers(Sequence[Marker]):
    """Markers by offset, 40 bytes each. `rows`: their fields one after the other, which are taken over."""

    __slots__ = ("_rows",)

    def __init__(self, markers: Iterable[Marker] = (), *, rows: array[int] | None = None) -> None:
        self._rows = array("q") if rows is None else rows
        for marker in markers:
            self._rows.extend(marker)

    @property
    def offsets(self) -> array[int]:
        """A copy of theirs."""
        return self._rows[::_WIDTH]

    def append(self, marker: Marker) -> None:
        self._rows.extend(marker)

    def extend(self, markers: Markers) -> None:
        self._rows.extend(markers._rows)

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    @overload
    def __getitem__(self, index: int) -> Marker: ...
    @overload
    def __getitem__(self, index: slice) -> Markers: ...
    def __getitem__(self, index: int | slice) -> Marker | Markers:
        """Slices are copies; only those without a step are there."""
        low, high, _ = (index if isinstance(index, slice) else slice(index, index + 1)).indices(len(self))
        if isinstance(index, slice):
            return Markers(rows=self._rows[low * _WIDTH : high * _WIDTH])
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        low = index % len(self)
        return _marker(self._rows[low * _WIDTH : (low + 1) * _WIDTH])

    def __iter__(self) -> Iterator[Marker]:
        values = iter(self._rows)
        return map(_marker, zip(values, values, values, values, values, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Markers) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(self._rows.tobytes())

    def __repr__(self) -> str:
        return f"Markers({len(self)} from {self[0].offset} on)" if self else "Markers()"


_marker: Callable[[Sequence[int]], Marker] = partial(tuple.__new__, Marker)
"""Without a Python call for each. `committed` is 0 or 1 then, which equal false and true."""
