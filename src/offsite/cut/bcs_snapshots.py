"""Base snapshots that a log processor takes beside its processing: which of them it keeps, and for which checkpoint.

Such a snapshot takes a while, the engine goes on meanwhile, and afterwards nobody can say, without opening it, how much
it has seen. Two positions are certain: what was processed when it began is in it, what was written after it ended is
not. Its end lies between. A checkpoint between the two makes it a danger, in two ways:

- Whoever goes by the first position takes it for the base of that checkpoint. The base may have seen what lies behind
  the checkpoint: the state of one partition would be ahead of the others after a restore.
- It takes the place of the older snapshot, which is the base that the checkpoint needs.

So it is aborted, as by the `SnapshotDirector` of ZEP008, and the next one is taken instead. ZEP008 looks at the newest
checkpoint that was *processed*. Here every `Create` in the log counts, also one that still waits: its pin comes later,
and needs the older snapshot as well. An engine that knows where its snapshot ends needs none of this: `is_base` alone
decides.

Pure, like `offsite.cut.bcs`: it asks the engine for positions, and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSpan:
    """Where a snapshot ends: it holds all that follows from the records up to `processed`, and nothing that lies behind
    `written`. Both are stored with it."""

    processed: int
    written: int


class SnapshotLog(Protocol):
    """What an engine is asked about its log while it takes a snapshot. A `processed` that is too low, or a `written`
    that is too high, costs no more than an abort in vain."""

    def processed(self) -> int:
        """The position of the last record of which everything that follows is in the state; -1 for none."""

    def written(self) -> int:
        """The highest position in the log, durable or not. Whatever the state has seen is at or below it."""

    def creates_after(self, position: int) -> Iterable[int]:
        """The positions of the `Create`s in the log behind `position`, whether they were processed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnd:
    """What becomes of a snapshot. `aborted_by`: the position of a checkpoint that may be in it or not, None if it is
    kept. Kept means: it becomes durable, once the log is so up to `span.written`; only then older ones may go."""

    span: SnapshotSpan
    aborted_by: int | None = None

    @property
    def is_kept(self) -> bool:
        return self.aborted_by is None


class SnapshotBeside:
    """One snapshot. It is made before the first byte of the snapshot is taken; `end` is called after the last one."""

    def __init__(self, log: SnapshotLog) -> None:
        self._log, self._processed = log, log.processed()

    def end(self) -> SnapshotEnd:
        """Whether to keep it. Call it once nothing is added to the snapshot any more, and drop it if this raises."""
        span = SnapshotSpan(processed=self._processed, written=self._log.written())
        return SnapshotEnd(span=span, aborted_by=doubtful(span, self._log.creates_after(span.processed)))


def doubtful(span: SnapshotSpan, creates: Iterable[int]) -> int | None:
    """The first of the `creates` of which nobody can say whether a snapshot of that `span` has seen beyond it; None if
    there is none. The record at `processed` itself is in the snapshot for certain: that is no doubt, and no base."""
    return min((position for position in creates if span.processed < position <= span.written), default=None)


def is_base(span: SnapshotSpan, *, before: int) -> bool:
    """Whether a snapshot has certainly seen nothing from position `before` on (`Step.pin_before`)."""
    return span.written < before
