"""The markers that ended transactions: read out of their control batches, and many of them in little memory.

Control batches are written by brokers only, and seen by no consumer. `Markers` holds rows of integers, no object for
each.
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

__all__ = ["ControlMarker", "Marker", "Markers", "MissingFrom", "control_type", "with_missing"]

_WIDTH = 5
_PRODUCER_ID, _FIRST_OFFSET = 1, 4
_KINDS: dict[int, Literal["abort", "commit"]] = {0: "abort", 1: "commit"}


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


class MissingFrom(NamedTuple):
    """From `offset` on, some offsets of the log are missing. The markers of transactions that were open there may have
    been among them."""

    offset: int


def with_missing(
    parts: Iterable[Sequence[Marker]], hole_starts: Sequence[int]
) -> Iterator[Sequence[Marker] | MissingFrom]:
    """The markers, by offset and in parts, with a word between them wherever a hole starts. `hole_starts` rise."""
    place = 0
    for part in parts:
        low = 0
        while part and place < len(hole_starts) and hole_starts[place] <= part[-1].offset:
            high = bisect_left(part, hole_starts[place], low, key=itemgetter(0))
            if low < high:
                yield part[low:high]
            yield MissingFrom(hole_starts[place])
            place, low = place + 1, high
        yield part[low:] if low else part
    yield from map(MissingFrom, hole_starts[place:])


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

    @property
    def producer_ids(self) -> array[int]:
        """A copy of theirs."""
        return self._rows[_PRODUCER_ID::_WIDTH]

    def first_places(self) -> dict[int, int]:
        """For each producer id the place of its first marker. Without Python code for each marker."""
        producer_ids = self.producer_ids
        return dict(zip(reversed(producer_ids), reversed(range(len(producer_ids))), strict=True))

    def with_first_offsets(self, first_offsets: Mapping[int, int]) -> Markers:
        """A copy in which the markers at these places have these `first_offset`s."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMarker:
    """The outcome of a transaction in one partition, and the epoch of the coordinator that wrote it."""

    kind: Literal["abort", "commit"]
    coordinator_epoch: int


def control_type(batch: Buffer, header: BatchHeader) -> ControlMarker | None:
    """The marker in a control batch (KIP-98: key `version, type`, value `version, coordinator epoch`).

    None if it holds none: compaction has emptied the batch, or it is of a type that consumers ignore as well.
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
