"""What single commits say that a history of restore points does not: whether the source was read, and how old the
newest record was. Reads the newest commits only, up to a limit of bytes; what was read once is kept, because a commit
never changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from offsite.model.errors import OffsiteError
from offsite.model.journal import noted
from offsite.repository.backup import Backup
from offsite.repository.commit import Commit
from offsite.repository.commit_history import CommitSummary
from offsite.repository.commit_log import CommitLog
from offsite.repository.segments.segment import NO_TIMESTAMP_MS, SegmentFigures
from offsite.repository.state import BackupState

COMMITS_MAX = 200
"""The newest commits that are looked at."""
BYTES_MAX = 32 * 1024 * 1024
"""Commits that are read at once, in bytes. A larger one is not read."""
_READERS = 8
_KEPT_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFigures:
    """A commit that was read. `reads_source`: it is no upkeep of stored data. `newest_record_ms`: of the records that
    it added, epoch ms; -1 without a time."""

    reads_source: bool
    newest_record_ms: int = NO_TIMESTAMP_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCommits:
    """The newest restore points, ascending, each with its figures; None: not read, or not readable."""

    points: tuple[CommitSummary, ...] = ()
    figures: tuple[CommitFigures | None, ...] = ()

    def read(self) -> Iterator[tuple[CommitSummary, CommitFigures]]:
        """Those that were read."""
        for point, figures in zip(self.points, self.figures, strict=True):
            if figures is not None:
                yield point, figures

    def by_source(self) -> Iterator[tuple[CommitSummary | None, CommitSummary, CommitFigures | None]]:
        """Each commit that may have read the source, with the one before it; None where a commit between them is not a
        restore point any more, or was not read: what was added since then is not known."""
        before: CommitSummary | None = None
        last_seq = 0
        for point, figures in zip(self.points, self.figures, strict=True):
            if point.seq != last_seq + 1:
                before = None
            last_seq = point.seq
            if figures is not None and not figures.reads_source:
                continue
            yield before, point, figures
            before = point if figures is not None else None


@dataclass(slots=True)
class FiguresCache:
    """The figures by backup and restore point, for several threads."""

    _figures: OrderedDict[tuple[str, CommitSummary], CommitFigures] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def recent(self, state: BackupState) -> RecentCommits:
        """The newest commits of `state`, as far as they were read. Sends no request."""
        points = state.history[-COMMITS_MAX:]
        with self._lock:
            return RecentCommits(
                points=points, figures=tuple(self._figures.get((state.backup, point)) for point in points)
            )

    def fill(self, backup: Backup, state: BackupState, *, bytes_max: int = BYTES_MAX) -> None:
        """Read the newest commits of `state` that were not read, the newest first, until `bytes_max` of them are read.
        A commit that cannot be read is not known. Raises errors of the store for a listing."""
        recent = self.recent(state)
        wanted = [point for point, figures in zip(recent.points, recent.figures, strict=True) if figures is None][::-1]
        log = CommitLog(store=backup.store, layout=backup.layout)
        if not (affordable := _affordable(log, wanted, bytes_max)):
            return
        with ThreadPoolExecutor(_READERS) as readers:
            for point, figures in zip(affordable, readers.map(partial(_read, log), affordable), strict=True):
                if figures is not None:
                    self._put(state.backup, point, figures)

    def _put(self, backup: str, point: CommitSummary, figures: CommitFigures) -> None:
        with self._lock:
            self._figures[backup, point] = figures
            while len(self._figures) > _KEPT_MAX:
                self._figures.popitem(last=False)


def _affordable(log: CommitLog, wanted: Sequence[CommitSummary], bytes_max: int) -> list[CommitSummary]:
    """The first of `wanted`, of `bytes_max` together. A larger commit is left out."""
    if not wanted:
        return []
    first = log.layout.commit_key(max(0, wanted[-1].seq - 1))
    sizes = {info.key: info.size_bytes for info in log.store.list(log.layout.commits_prefix, start_after=first)}
    affordable: list[CommitSummary] = []
    for point in wanted:
        size = sizes.get(log.layout.commit_key(point.seq), bytes_max + 1)
        if size <= bytes_max:
            bytes_max -= size
            affordable.append(point)
    return affordable


def _read(log: CommitLog, point: CommitSummary) -> CommitFigures | None:
    try:
        stored = log.get(point.seq)
    except OffsiteError as error:
        noted("commit_figures", error=error.id, why=error.message, commit=point.seq)
        return None
    return None if stored is None else figures_of(stored.commit)


def figures_of(commit: Commit) -> CommitFigures:
    changes = commit.changes
    reads_source = not (changes.is_upkeep or changes.seal)
    figures = SegmentFigures.of(changes.segments if reads_source else ())
    return CommitFigures(reads_source=reads_source, newest_record_ms=figures.timestamp_max_ms)
