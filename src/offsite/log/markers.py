"""Transaction markers: parsed from control batches, and many markers in little memory.

Only brokers write control batches, and no consumer sees them. `Markers` holds rows of integers, not objects.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Literal, NamedTuple, overload

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import iterate
from offsite.model.errors import DamagedBatch

_WIDTH = 5
_PRODUCER_ID, _FIRST_OFFSET = 1, 4
_KINDS: dict[int, Literal["abort", "commit"]] = {0: "abort", 1: "commit"}


class Marker(NamedTuple):
    """The control record at `offset` that ended a transaction of `producer_id`. A tuple, because millions are made.

    `first_offset` is the base offset of the transaction's first batch seen by the indexer. -1: a transaction without
    data here, or with data before the indexed range.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool
    first_offset: int


class HoleStart(NamedTuple):
    """From `offset` on, some offsets of the log are missing. The markers of transactions open at `offset` may be among
    the missing offsets."""

    offset: int


def with_hole_starts(
    parts: Iterable[Sequence[Marker]], hole_starts: Sequence[int]
) -> Iterator[Sequence[Marker] | HoleStart]:
    """The markers, by offset and in parts, with a `HoleStart` between them at every hole. `hole_starts` rise."""
    place = 0
    for part in parts:
        low = 0
        while part and place < len(hole_starts) and hole_starts[place] <= part[-1].offset:
            high = bisect_left(part, hole_starts[place], low, key=itemgetter(0))
            if low < high:
                yield part[low:high]
            yield HoleStart(hole_starts[place])
            place, low = place + 1, high
        yield part[low:] if low else part
    yield from map(HoleStart, hole_starts[place:])


class Markers(Sequence[Marker]):
    """Markers by offset, 40 bytes a marker. `rows`: the fields of the markers back to back; `Markers` takes over the
    array."""

    __slots__ = ("_rows",)

    def __init__(self, markers: Iterable[Marker] = (), *, rows: array[int] | None = None) -> None:
        self._rows = array("q") if rows is None else rows
        for marker in markers:
            self._rows.extend(marker)

    @property
    def offsets(self) -> array[int]:
        """A copy of the offsets."""
        return self._rows[::_WIDTH]

    @property
    def producer_ids(self) -> array[int]:
        """A copy of the producer ids."""
        return self._rows[_PRODUCER_ID::_WIDTH]

    def first_places(self) -> dict[int, int]:
        """Producer id → index of its first marker. Runs no Python code per marker."""
        producer_ids = self.producer_ids
        return dict(zip(reversed(producer_ids), reversed(range(len(producer_ids))), strict=True))

    def with_first_offsets(self, first_offsets: Mapping[int, int]) -> Markers:
        """A copy with new values of `first_offset`, by index of the marker."""
        rows = self._rows[:]
        for place, first_offset in first_offsets.items():
            rows[place * _WIDTH + _FIRST_OFFSET] = first_offset
        return Markers(rows=rows)

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
        """Slices are copies. Only slices without a step are supported."""
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
"""Builds a marker without a Python call. `committed` is 0 or 1, equal to false and true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMarker:
    """The outcome of a transaction in one partition, and the epoch of the coordinator that wrote the marker."""

    kind: Literal["abort", "commit"]
    coordinator_epoch: int


def parse_control_marker(batch: Buffer, header: BatchHeader) -> ControlMarker | None:
    """The marker in a control batch (KIP-98: key `version, type`, value `version, coordinator epoch`).

    None without a marker: compaction has emptied the batch, or consumers ignore the type as well.
    """
    for record in iterate(batch, header):
        try:
            _, kind = struct.unpack_from(">hh", record.key or b"")
            if kind in _KINDS:
                _, coordinator_epoch = struct.unpack_from(">hi", record.value or b"")
                return ControlMarker(kind=_KINDS[kind], coordinator_epoch=coordinator_epoch)
        except struct.error as error:
            raise DamagedBatch(f"the control batch at offset {header.base_offset} is damaged inside") from error
    return None
