"""The consistent cut of a restore point: which one is read, or why none is; and which commit a restore goes to where
nobody names one.

A cut belongs to the ends of its commit. What ends elsewhere, by date or by offsets of its own, is read as it was
copied, and so is a commit without a cut, or one whose cut was refused: then `why` says so, and nothing is claimed.
Where nobody names a commit, the newest one with a cut is meant (`default_point`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from offsite.log.range import Span
from offsite.model.choices import CutChoice
from offsite.model.errors import Damaged, DamagedObject, NoConsistentCut
from offsite.model.journal import warned
from offsite.model.time import format_duration, format_time
from offsite.repository.commit import PartitionId
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition, get_commit_cut
from offsite.repository.state import BackupState
from offsite.stores.store import Store

HINT = "restore what was copied (--cut as-copied), or another commit (--commit)"
RECENT_MS = 3_600_000
"""By how much the newest consistent cut may be older than the newest complete pass to be the default: giving up more
than that for the sake of transactions at the ends is for a person to decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointWithCut:
    """A restore point that has a cut which may be used. `complete_ms`: all that the source held then is in it (epoch
    ms by the store's clock)."""

    commit: int
    complete_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerCommit:
    """The newest commit, where that is later than the one that a restore goes to and has no cut that may be used.
    `more_ms`: how much later, `at_most` that where commits that bring nothing have followed; `is_amid`: it was made
    amid a run."""

    commit: int
    more_ms: int
    is_amid: bool
    at_most: bool = False

    def __str__(self) -> str:
        amid = "made amid a run, " if self.is_amid else ""
        more = f"{'up to ' if self.at_most else ''}{format_duration(self.more_ms / 1000)}"
        return f"commit {self.commit} has {more} more, {amid}without a consistent cut: --commit {self.commit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPoint:
    """The commit that a restore goes to where nobody names one. `complete_ms`: all that the source held then is in it
    (epoch ms by the store's clock). `newer`: what it leaves aside for a consistent cut; None where that is nothing, or
    where no recent commit has a cut."""

    commit: int
    complete_ms: int
    newer: NewerCommit | None = None

    @classmethod
    def newest(cls, head: BackupState) -> DefaultPoint:
        """The newest commit. One of a pass under way reaches no further in some partitions than the pass before it, and
        one of retention reaches no further at all."""
        return cls(commit=head.seq, complete_ms=head.completed_at_ms or head.committed_at_ms)


@dataclass(frozen=True, kw_only=True)  # no slots: the table of partitions is made once
class PointCut:
    """What a restore point leaves out: all that `used` says, or nothing (None), with the reason in `why`. `refused`:
    why the cut that the commit has must not be used; empty where it may, or is not known. `newer`: the commit that was
    left aside for the cut."""

    used: CommitCut | None = None
    why: str = ""
    refused: str = ""
    newer: NewerCommit | None = None

    @property
    def choice(self) -> CutChoice:
        """What was decided: never `AUTO`."""
        return CutChoice.AS_COPIED if self.used is None else CutChoice.CONSISTENT

    def left_out(self, partition: PartitionId) -> tuple[int, ...] | None:
        """The offsets of the commit markers in `partition` that count as aborts; None: it is read as it was copied."""
        if self.used is None:
            return None
        found = self._partitions.get(partition)
        return () if found is None else found.markers

    def ends(self) -> dict[PartitionId, int]:
        """Where partitions end, of which the cut says so."""
        return {each: found.end for each, found in self._partitions.items()}

    def unsettled(self, partition: PartitionId) -> Span | None:
        """The offsets from the first record that may be left out to the end; None: nothing is left out there. Of what
        lies there, nothing may be gone because a later record replaced it: that one may be left out."""
        found = self._partitions.get(partition)
        return None if found is None or found.floor == found.end else (found.floor, found.end)

    @cached_property
    def _partitions(self) -> Mapping[PartitionId, CutPartition]:
        return {each.partition_id: each for each in self.used.partitions} if self.used else {}


AS_COPIED = PointCut()


def newest_with_cut(store: Store, head: BackupState) -> PointWithCut | None:
    """The newest restore point of `head` that has a cut which may be used: of the cuts that a state remembers, each of
    which costs a read at most. Raises `DamagedObject` for one that is missing or damaged."""
    for known in reversed(head.cuts):
        line = next(iter(head.history.upto(known.last)[-1:]), None)
        if line is not None and line.seq >= known.first and not get_commit_cut(store, known.ref).refused:
            return PointWithCut(commit=line.seq, complete_ms=min(known.completed_at_ms, line.committed_at_ms))
    return None


def default_point(store: Store, head: BackupState) -> DefaultPoint:
    """Where a restore goes that names no commit, when `head` is the newest state: the newest commit with a cut, or the
    newest one where no recent commit has any. Raises as `newest_with_cut`."""
    found, newest = newest_with_cut(store, head), DefaultPoint.newest(head)
    if found is None or newest.complete_ms - found.complete_ms > RECENT_MS:
        return newest
    if found.commit == head.seq:
        return DefaultPoint(commit=found.commit, complete_ms=found.complete_ms)
    # Behind a complete pass the time of a commit of retention, or of a pin, says nothing.
    is_complete = head.completed_at_ms > found.complete_ms and not head.incomplete
    newer = NewerCommit(
        commit=head.seq,
        more_ms=(head.completed_at_ms if is_complete else head.committed_at_ms) - found.complete_ms,
        is_amid=head.incomplete,
        at_most=not is_complete and not head.incomplete,
    )
    return DefaultPoint(commit=found.commit, complete_ms=found.complete_ms, newer=newer)


def choose_cut(  # noqa: PLR0913  # keyword-only: what else speaks for or against a cut
    store: Store,
    commit: BackupState,
    choice: CutChoice,
    *,
    head: BackupState | None = None,
    ends_elsewhere: str = "",
    unasked: str = "",
) -> PointCut:
    """The cut by which `commit` is read. `head`: the newest state, to name a commit with a cut where this one has none.
    `ends_elsewhere`: why the point does not end where the commit does; empty where it does. `unasked`: why it is as
    copied although nobody asked for that now.

    Raises `NoConsistentCut` where one was asked for and there is none, `DamagedObject` for one that is missing, is
    damaged, or is not of this commit.
    """
    if choice is CutChoice.AS_COPIED:
        return PointCut(why=unasked or "that was asked for")
    known = None if ends_elsewhere or commit.cut is None else get_commit_cut(store, commit.cut)
    if known is not None and not known.refused:
        _check_is_of(known, commit)
        return PointCut(used=known)
    refused = "" if known is None else known.refused
    why = ends_elsewhere or (f"its cut must not be used: {refused}" if refused else _unknown(commit))
    if not ends_elsewhere and head is not None:
        why += _other(store, head)
    if choice is CutChoice.CONSISTENT:
        raise NoConsistentCut(
            f"commit {commit.seq} of backup {commit.backup} cannot be restored to a consistent cut: {why}", hint=HINT
        )
    return PointCut(why=why, refused=refused)


def _unknown(commit: BackupState) -> str:
    amid = ", which was made amid a run" if commit.incomplete else ""
    return f"no consistent cut is known for commit {commit.seq}{amid}"


def _other(store: Store, head: BackupState) -> str:
    """The commit that has a cut, where one has; a damaged one of another commit is no reason against this one."""
    try:
        other = newest_with_cut(store, head)
    except Damaged as error:
        warned("cut_unusable", why=error.message)
        return ""
    if other is None:
        return ""
    return f"; commit {other.commit} of {format_time(other.complete_ms)} has one: --commit {other.commit}"


def _check_is_of(cut: CommitCut, commit: BackupState) -> None:
    """A cut takes of a commit, and adds nothing to it."""
    for each in cut.partitions:
        position = commit.positions.get(each.partition_id)
        if position is not None and each.end > position.end:
            raise DamagedObject(
                f"the consistent cut of commit {commit.seq} ends {each.partition_id} at offset {each.end}, and the "
                f"backup holds it to {position.end}",
                hint=HINT,
            )
