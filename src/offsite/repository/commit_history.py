"""The restore points of a backup: one line per commit, stored in columns and chunks, because there may be millions.

A full chunk never changes: states share the chunk, catalogs name its object (`PartRef`), and its lines are read on
demand. Only the tail after the chunks is copied for a new state.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeAlias, overload

from offsite.model.errors import check
from offsite.model.untrusted.json_codec import Count
from offsite.repository.commit import Commit

NO_CHECKPOINT = -1
COLUMNS = ("seq", "committed_at_ms", "records", "raw_bytes", "stored_bytes", "holes", "checkpoint")
LINES_PER_CHUNK = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRef:
    """One immutable Parquet object with `rows` rows: its key, and the hash of its bytes."""

    key: str
    hash: str
    rows: Count


Columns: TypeAlias = "tuple[array[int], ...]"
"""The columns named by `COLUMNS`, all of the same length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """One commit in a list of restore points. `checkpoint`: the id of the commit's checkpoint, or -1."""

    seq: int
    committed_at_ms: int
    records: int
    raw_bytes: int
    stored_bytes: int
    holes: int
    checkpoint: int


class HistoryChunk:
    """Lines that never change: in memory, or read by `load` on first use. `first` and `last`: number and time of the
    first and the last line. `ref`: the object with the lines, if stored."""

    __slots__ = ("_columns", "_load", "first", "last", "lines", "ref")

    def __init__(
        self, load: Callable[[HistoryChunk], Columns], *, ref: PartRef, first: tuple[int, int], last: tuple[int, int]
    ) -> None:
        self.ref: PartRef | None = ref
        self.lines, self.first, self.last = ref.rows, first, last
        self._columns: Columns | None = None
        self._load = load

    @classmethod
    def of(cls, columns: Columns) -> HistoryChunk:
        """A chunk in memory."""
        first, last = ((columns[0][at], columns[1][at]) for at in (0, -1))
        nowhere = PartRef(key="", hash="", rows=len(columns[0]))
        chunk = cls(_nothing_stored, ref=nowhere, first=first, last=last)
        chunk.ref, chunk._columns = None, columns
        return chunk

    @property
    def columns(self) -> Columns:
        """The columns; must not be changed. Raises `DamagedObject`."""
        if self._columns is None:
            self._columns = self._load(self)
        return self._columns


class CommitHistory(Sequence[CommitSummary]):
    """The commits that are restore points, ascending by number and by time."""

    __slots__ = ("_starts", "chunks", "tail")

    def __init__(self, columns: Sequence[array[int]] | None = None, *, chunks: Sequence[HistoryChunk] = ()) -> None:
        """`columns`: the lines after `chunks`."""
        tail = tuple(columns) if columns else _no_lines()
        check(len(tail) == len(COLUMNS), "columns of a history")
        check(len({len(column) for column in tail}) == 1, "lengths of the columns of a history")
        full = len(tail[0]) // LINES_PER_CHUNK * LINES_PER_CHUNK
        cut = (_cut(tail, low, low + LINES_PER_CHUNK) for low in range(0, full, LINES_PER_CHUNK))
        self.chunks = (*chunks, *map(HistoryChunk.of, cut))
        self.tail: Columns = _cut(tail, full, len(tail[0])) if full else tail
        self._starts = tuple(accumulate((chunk.lines for chunk in self.chunks), initial=0))

    @property
    def first_ms(self) -> int:
        """When the oldest restore point was committed; 0 without restore points."""
        if self.chunks:
            return self.chunks[0].first[1]
        return self.tail[1][0] if len(self) else 0

    def latest_at(self, time_ms: int) -> CommitSummary | None:
        """The newest restore point committed at or before `time_ms`."""
        count = self.count_at(time_ms)
        return self[count - 1] if count else None

    def count_at(self, time_ms: int) -> int:
        """The number of restore points committed at or before `time_ms`."""
        behind = bisect_right(self.chunks, time_ms, key=lambda chunk: chunk.first[1])
        if not self.chunks or (behind == len(self.chunks) and self.chunks[-1].last[1] <= time_ms):
            return self._starts[-1] + bisect_right(self.tail[1], time_ms)
        if behind == 0:
            return 0
        return self._starts[behind - 1] + bisect_right(self.chunks[behind - 1].columns[1], time_ms)

    def lines(self, low: int, high: int) -> Columns:
        """The lines of the restore points at positions `[low, high)`."""
        selected = _no_lines()
        for start, columns in self._parts(low, high):
            for column, lines in zip(selected, columns, strict=True):
                column.extend(lines[max(0, low - start) : max(0, high - start)])
        return selected

    def _parts(self, low: int, high: int) -> Iterator[tuple[int, Columns]]:
        """The parts with lines at positions `[low, high)`, each with its first position. Reads no other chunk."""
        for start, chunk in zip(self._starts, self.chunks, strict=False):
            if start < high and low < start + chunk.lines:
                yield start, chunk.columns
        yield self._starts[-1], self.tail

    def find(self, seq: int) -> CommitSummary | None:
        """The restore point with commit number `seq`; None if the commit is no restore point, or no longer one."""
        at = bisect_left(self.chunks, seq, key=lambda chunk: chunk.last[0])
        columns = self.chunks[at].columns if at < len(self.chunks) else self.tail
        index = bisect_left(columns[0], seq)
        return _line(columns, index) if index < len(columns[0]) and columns[0][index] == seq else None

    def upto(self, seq: int) -> CommitHistory:
        """The restore points up to commit `seq`, inclusive."""
        at = bisect_right(self.chunks, seq, key=lambda chunk: chunk.last[0])
        columns = self.chunks[at].columns if at < len(self.chunks) else self.tail
        end = bisect_right(columns[0], seq)
        if at == len(self.chunks) and end == len(columns[0]):
            return self
        return CommitHistory(_cut(columns, 0, end), chunks=self.chunks[:at])

    def between(self, first: int, last: int) -> Columns:
        """The lines of commits `first` to `last`, both inclusive."""
        selected = _no_lines()
        for columns in (*(chunk.columns for chunk in self.chunks if _overlaps(chunk, first, last)), self.tail):
            low, high = bisect_left(columns[0], first), bisect_right(columns[0], last)
            for column, lines in zip(selected, columns, strict=True):
                column.extend(lines[low:high])
        return selected

    def __len__(self) -> int:
        return self._starts[-1] + len(self.tail[0])

    @overload
    def __getitem__(self, index: int) -> CommitSummary: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CommitSummary, ...]: ...
    def __getitem__(self, index: int | slice) -> CommitSummary | tuple[CommitSummary, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        at = bisect_right(self._starts, position) - 1
        return _line(self.chunks[at].columns if at < len(self.chunks) else self.tail, position - self._starts[at])

    def __iter__(self) -> Iterator[CommitSummary]:
        for columns in (*(chunk.columns for chunk in self.chunks), self.tail):
            yield from (_line(columns, index) for index in range(len(columns[0])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommitHistory) or len(self) != len(other):
            return False
        if self._starts == other._starts:
            pairs = zip(self.chunks, other.chunks, strict=True)
            return self.tail == other.tail and all(a is b or a.columns == b.columns for a, b in pairs)
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), tuple(self.tail[0])))


class HistoryBuilder:
    """The working copy of a history: copies the tail once, then extends it commit by commit."""

    def __init__(self, history: CommitHistory) -> None:
        self._chunks = list(history.chunks)
        self._tail = _cut(history.tail, 0, len(history.tail[0]))

    def append(self, commit: Commit) -> None:
        """Add the next commit, and drop the commits that it forgets."""
        for column, value in zip(self._tail, _summary(commit), strict=True):
            column.append(value)
        for start, end in commit.changes.forgotten:
            self._forget(start, end)
        if len(self._tail[0]) >= LINES_PER_CHUNK:
            self._chunks.append(HistoryChunk.of(self._tail))
            self._tail = _no_lines()

    def build(self) -> CommitHistory:
        """The history so far."""
        return CommitHistory(_cut(self._tail, 0, len(self._tail[0])), chunks=self._chunks)

    def _forget(self, start: int, end: int) -> None:
        self._chunks = list(chain.from_iterable(_remembered(chunk, start, end) for chunk in self._chunks))
        self._tail = _without(self._tail, start, end)


def _nothing_stored(_: HistoryChunk) -> Columns:
    return _no_lines()


def _overlaps(chunk: HistoryChunk, first: int, last: int) -> bool:
    return chunk.first[0] <= last and first <= chunk.last[0]


def _remembered(chunk: HistoryChunk, start: int, end: int) -> list[HistoryChunk]:
    """The rest of a chunk; the chunk itself if nothing in it is forgotten."""
    if not _overlaps(chunk, start, end - 1):
        return [chunk]
    remaining = _without(chunk.columns, start, end)
    return [HistoryChunk.of(remaining)] if remaining[0] else []


def _without(columns: Columns, start: int, end: int) -> Columns:
    low, high = bisect_left(columns[0], start), bisect_left(columns[0], end)
    return tuple(column[:low] + column[high:] for column in columns)


def _cut(columns: Columns, low: int, high: int) -> Columns:
    return tuple(column[low:high] for column in columns)


def _no_lines() -> Columns:
    return tuple(array("q") for _ in COLUMNS)


def _line(columns: Columns, index: int) -> CommitSummary:
    return CommitSummary(**{name: column[index] for name, column in zip(COLUMNS, columns, strict=True)})


def _summary(commit: Commit) -> tuple[int, ...]:
    checkpoint = commit.changes.checkpoint
    return (
        commit.seq,
        commit.committed_at_ms,
        commit.records,
        commit.raw_bytes,
        commit.stored_bytes,
        sum(hole.is_loss for hole in commit.changes.holes),
        NO_CHECKPOINT if checkpoint is None else checkpoint.id,
    )
