"""Reads overlapping files as a single sequence: in all archives an offset is returned once, in rising order. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from offsite.archives.archive import MAX_DAMAGES, Damage, OnDamage, Piece
from offsite.log.records.record import Record

ItemT = TypeVar("ItemT")

Batches = Iterator[Sequence[Record]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Records of a `file` with offsets rising from `start`. `open` is called when the records are needed."""

    file: str
    start: int
    open: Callable[[], Batches]


def group_overlapping(items: Iterable[ItemT], ends: Callable[[ItemT], tuple[int, int]]) -> Iterator[list[ItemT]]:
    """Group items that share offsets, in the order of first offsets; a group nearly always holds a single item. `ends`
    returns the first and last offset of an item."""
    run: list[ItemT] = []
    highest = -1
    for (first, last), item in sorted(((ends(item), item) for item in items), key=lambda entry: entry[0][0]):
        if run and first > highest:
            yield run
            run = []
        run.append(item)
        highest = max(highest, last)
    if run:
        yield run


class _Head(NamedTuple):
    """The next offset of an open run, and its position; `run` decides between equal offsets."""

    offset: int
    run: int
    batch: Sequence[Record]
    position: int
    remaining: Batches | None


def merge_runs(runs: Sequence[SortedRun], on_damage: OnDamage) -> Batches:
    """Merge the records of all runs by rising offset. Of an offset in several runs, the record of the earliest run is
    taken.

    `on_damage` receives contradicting records at the same offset, and offsets below 0. Runs without overlap are open in
    turn, and their batches pass untouched.
    """
    heads = [_Head(run.start, index, (), 0, None) for index, run in enumerate(runs)]
    heapify(heads)
    next_offset = 0
    last: tuple[Record, str] | None = None
    contradictions = 0
    while heads:
        head = heappop(heads)
        if head.position == len(head.batch):
            _push_next_batch(heads, head, runs)
            continue
        limit = heads[0].offset if heads else None
        start, stop = _span(head, next_offset, limit)
        for record in head.batch[head.position : start]:
            if (last is None or record != last[0]) and (contradictions := contradictions + 1) <= MAX_DAMAGES:
                on_damage(_not_taken(runs[head.run].file, record, last))
        if start < stop:
            accepted = head.batch if stop - start == len(head.batch) else head.batch[start:stop]
            next_offset, last = accepted[-1].offset + 1, (accepted[-1], runs[head.run].file)
            yield accepted
        position = max(start, stop)
        offset = head.batch[position].offset if position < len(head.batch) else head.batch[-1].offset + 1
        heappush(heads, head._replace(offset=offset, position=position))


def _not_taken(file: str, record: Record, last: tuple[Record, str] | None) -> Damage:
    if last is None:  # offsets begin at 0
        return Damage(file=file, position=0, problem=f"offset {record.offset} is impossible")
    return describe_contradiction(file, record, *last)


def describe_contradiction(file: str, record: Record, accepted: Record, of_file: str, *, position: int = 0) -> Damage:
    """Describe a `record` of `file` that comes behind `accepted`, a returned record of the same or a later offset."""
    if record.offset < accepted.offset:
        problem = f"offset {record.offset} after {accepted.offset} of {of_file}: offsets go backwards"
    else:
        where = "the same file" if file == of_file else of_file
        problem = f"offset {record.offset} is another record than in {where}; only one of the two can be right"
    return Damage(file=file, position=position, problem=problem)


def clip_to_piece(piece: Piece, batches: Batches) -> Batches:
    """Yield the records of rising `batches` inside the piece."""
    for batch in batches:
        if batch and piece.covers(batch[0].offset) and piece.covers(batch[-1].offset):
            yield batch
        elif inside := [record for record in batch if piece.covers(record.offset)]:
            yield inside


def _push_next_batch(heads: list[_Head], head: _Head, runs: Sequence[SortedRun]) -> None:
    batches = runs[head.run].open() if head.remaining is None else head.remaining
    batch = next((batch for batch in batches if batch), None)
    if batch is not None:
        heappush(heads, _Head(batch[0].offset, head.run, batch, 0, batches))


def _span(head: _Head, next_offset: int, limit: int | None) -> tuple[int, int]:
    """Return the positions of the next records in the head's batch: behind the returned offsets, before the next offset
    of another run."""
    batch, size = head.batch, len(head.batch)
    start = _position(batch, next_offset, head.position, size)
    if limit is None or batch[-1].offset < limit:
        return start, size
    return start, max(_position(batch, limit, head.position, size), head.position + 1)


def _position(batch: Sequence[Record], offset: int, low: int, high: int) -> int:
    return bisect_left(batch, offset, low, high, key=_offset)


def _offset(record: Record) -> int:
    return record.offset
