"""Base snapshots taken by a log processor beside its processing: which to keep, and for which checkpoint.

Such a snapshot takes a while, and the engine continues meanwhile. Afterwards nobody can say, without opening the
snapshot, how much the snapshot contains. Two positions are certain: records processed before the beginning are inside,
and records written after the end are not. The true end lies between. A checkpoint between both positions makes the
snapshot dangerous in two ways:

- By the first position, the snapshot looks like the base of the checkpoint. But the base may contain records behind the
  checkpoint: after a restore, the state of a partition would be ahead of the rest.
- The snapshot replaces the older snapshot, the base needed by the checkpoint.

The snapshot is therefore aborted, as by the `SnapshotDirector` of ZEP008, and the next is taken instead. ZEP008 looks
at the newest *processed* checkpoint. Here every `Create` in the log counts, also an unprocessed `Create`: the pin comes
later, and needs the older snapshot as well. An engine with an exact end of the snapshot needs only `is_base`.

Pure, like `offsite_participant.bcs`: positions of the engine in, actions out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSpan:
    """The possible end of a snapshot: the snapshot holds all effects of the records up to `processed`, and nothing
    behind `written`. Both are stored with the snapshot."""

    processed: int
    written: int


class SnapshotLog(Protocol):
    """Questions to an engine about its log during a snapshot. A `processed` too low, or a `written` too high, costs no
    more than a needless abort."""

    def processed(self) -> int:
        """The position of the last record whose effects are all in the state; -1 for none."""

    def written(self) -> int:
        """The highest position in the log, durable or not. Everything that the state has seen is at or below it."""

    def creates_after(self, position: int) -> Iterable[int]:
        """The positions of all `Create`s in the log behind `position`, processed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEnd:
    """The result of a snapshot. `aborted_by`: the position of a checkpoint that may be inside or not; None: the
    snapshot is kept. A kept snapshot becomes durable once the log is durable up to `span.written`; only after that
    older snapshots may be deleted."""

    span: SnapshotSpan
    aborted_by: int | None = None

    @property
    def is_kept(self) -> bool:
        return self.aborted_by is None


class SnapshotBeside:
    """A snapshot. Make it before the first byte of the snapshot is taken; call `end` after the last."""

    def __init__(self, log: SnapshotLog) -> None:
        self._log, self._processed = log, log.processed()

    def end(self) -> SnapshotEnd:
        """Decide whether to keep the snapshot. Call `end` once nothing is added any more, and drop the snapshot if the
        call raises."""
        span = SnapshotSpan(processed=self._processed, written=self._log.written())
        return SnapshotEnd(span=span, aborted_by=doubtful(span, self._log.creates_after(span.processed)))


def doubtful(span: SnapshotSpan, creates: Iterable[int]) -> int | None:
    """The first of the `creates` for which a snapshot of `span` may or may not have seen beyond; None if none exists.
    The record at `processed` itself is certainly inside: it is no doubt, and no base."""
    return min((position for position in creates if span.processed < position <= span.written), default=None)


def is_base(span: SnapshotSpan, *, before: int) -> bool:
    """Whether a snapshot has certainly seen nothing from position `before` on (`Step.pin_before`)."""
    return span.written < before
