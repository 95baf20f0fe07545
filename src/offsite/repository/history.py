"""The restore points of a backup: one line per commit, in columns, because there may be millions."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from offsite.model.check import check
from offsite.repository.commit import Commit

NO_CHECKPOINT = -1
COLUMNS = ("seq", "committed_at_ms", "records", "raw_bytes", "stored_bytes", "holes", "checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """What a list of restore points shows of one commit. `checkpoint` is the id of the one it carries, or -1."""

    seq: int
    committed_at_ms: int
    records: int
    raw_bytes: int
    stored_bytes: int
    holes: int
    checkpoint: int


class History(Sequence[CommitSummary]):
    """Commits that are restore points, ascending by number and by time."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Sequence[array[int]] | None = None) -> None:
        self._columns = tuple(columns) if columns else tuple(array("q") for _ in COLUMNS)
        check(len(self._columns) == len(COLUMNS), "columns of a history")
        check(len({len(column) for column in self._columns}) == 1, "lengths of the columns of a history")

    @property
    def columns(self) -> tuple[array[int], ...]:
        """The columns named by `COLUMNS`; not to be changed."""
        return self._columns

    def latest_at(self, time_ms: int) -> CommitSummary | None:
        """The newest restore point committed at or before `time_ms`."""
        index = bisect_right(self._columns[1], time_ms)
        return self[index - 1] if index else None

    def find(self, seq: int) -> CommitSummary | None:
        """The restore point with commit number `seq`, if it is one (still)."""
        index = bisect_left(self._columns[0], seq)
        return self[index] if index < len(self) and self._columns[0][index] == seq else None

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, index: int) -> CommitSummary: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CommitSummary, ...]: ...
    def __getitem__(self, index: int | slice) -> CommitSummary | tuple[CommitSummary, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        return CommitSummary(**{name: column[index] for name, column in zip(COLUMNS, self._columns, strict=True)})

    def __iter__(self) -> Iterator[CommitSummary]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash(tuple(self._columns[0]))


class HistoryBuilder:
    """A history's working copy: copied once, then extended commit by commit."""

    def __init__(self, history: History) -> None:
        self._columns = tuple(array("q", column) for column in history.columns)

    def append(self, commit: Commit) -> None:
        """Take in the next commit, and drop those it forgets."""
        for column, value in zip(self._columns, _summary(commit), strict=True):
            column.append(value)
        for start, end in commit.changes.forgotten:
            _forget(self._columns, start, end)

    def built(self) -> History:
        """The history so far."""
        return History([array("q", column) for column in self._columns])


def _summary(commit: Commit) -> tuple[int, ...]:
    checkpoint = commit.changes.checkpoint
    return (
        commit.seq,
        commit.committed_at_ms,
        commit.records,
        commit.raw_bytes,
        commit.stored_bytes,
        len(commit.changes.holes),
        NO_CHECKPOINT if checkpoint is None else checkpoint.id,
    )


def _forget(columns: Sequence[array[int]], start: int, end: int) -> None:
    low, high = bisect_left(columns[0], start), bisect_left(columns[0], end)
    for column in columns:
        del column[low:high]
