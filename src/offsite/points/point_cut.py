"""The consistent cut of a restore point: the cut to use, or the reason for none.

A cut belongs to the ends of its commit. A point with other ends, by date or by offsets, is read as copied. The same
holds for a commit without a cut, or with a refused cut: `why` gives the reason, and nothing is claimed. Without a named
commit a restore uses the newest commit with a cut (`default_point`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from offsite.log.range import PartitionId, Span
from offsite.model.errors import Damaged, DamagedObject, NoConsistentCut
from offsite.model.journal import warned
from offsite.model.options import CutChoice
from offsite.model.units import format_duration, format_time
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition, get_commit_cut
from offsite.repository.state import BackupState
from offsite.stores.store import Store

HINT = "restore what was copied (--cut as-copied), or another commit (--commit)"
RECENT_MS = 3_600_000
"""The most by which the newest consistent cut may be older than the newest complete pass, and still be the default. A
person has to decide to give up more data for the sake of transactions at the ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerCommit:
    """The newest commit, when it is later than the commit of a restore and has no usable cut. `more_ms`: how much
    later; `at_most`: `more_ms` is an upper limit, because commits without new data have followed. `is_amid`: the commit
    was made during a run."""

    commit: int
    more_ms: int
    is_amid: bool
    at_most: bool = False

    def __str__(self) -> str:
        amid = "made during a run, " if self.is_amid else ""
        more = f"{'up to ' if self.at_most else ''}{format_duration(self.more_ms / 1000)}"
        return f"commit {self.commit} has {more} more, {amid}without a consistent cut: --commit {self.commit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPoint:
    """The default commit of a restore. `complete_ms`: the commit has all data that the source held at the time (epoch
    ms by the store's clock). `newer`: the newer commit passed over for a consistent cut; None when nothing was passed
    over, or no recent commit has a cut."""

    commit: int
    complete_ms: int
    newer: NewerCommit | None = None

    @classmethod
    def newest(cls, head: BackupState) -> DefaultPoint:
        """The newest commit. A commit of a running pass reaches no further in some partitions than the previous pass; a
        commit of retention reaches no further at all."""
        return cls(commit=head.seq, complete_ms=head.completed_at_ms or head.committed_at_ms)


@dataclass(frozen=True, kw_only=True)  # no slots: the table of partitions is made once
class PointCut:
    """The records that a restore point leaves out: those of `used`, or none (None) for the reason `why`. `refused`: why
    the commit's cut must not be used; empty when usable or unknown. `newer`: the commit passed over for the cut."""

    used: CommitCut | None = None
    why: str = ""
    refused: str = ""
    newer: NewerCommit | None = None

    @property
    def choice(self) -> CutChoice:
        """The decision: never `AUTO`."""
        return CutChoice.AS_COPIED if self.used is None else CutChoice.CONSISTENT

    def left_out(self, partition: PartitionId) -> tuple[int, ...] | None:
        """The offsets of commit markers in `partition` that count as aborts; None: the partition is read as copied."""
        if self.used is None:
            return None
        cut_partition = self._partitions.get(partition)
        return () if cut_partition is None else cut_partition.markers

    def ends(self) -> dict[PartitionId, int]:
        """The ends of partitions that the cut defines."""
        return {partition_id: cut_partition.end for partition_id, cut_partition in self._partitions.items()}

    def unsettled(self, partition: PartitionId) -> Span | None:
        """The offsets from the first record that may be left out to the end; None: no record is left out. A record in
        this span must not be removed because a later record replaced it: the later record may be left out."""
        cut_partition = self._partitions.get(partition)
        return (
            None
            if cut_partition is None or cut_partition.floor == cut_partition.end
            else (cut_partition.floor, cut_partition.end)
        )

    @cached_property
    def _partitions(self) -> Mapping[PartitionId, CutPartition]:
        return (
            {cut_partition.partition_id: cut_partition for cut_partition in self.used.partitions} if self.used else {}
        )


AS_COPIED = PointCut()


def newest_with_cut(store: Store, head: BackupState) -> DefaultPoint | None:
    """The newest restore point of `head` with a usable cut, out of the cuts remembered by a state. Every cut costs at
    most one read. Raises `DamagedObject` for a missing or damaged cut."""
    for cut in reversed(head.cuts):
        line = next(iter(head.history.upto(cut.last)[-1:]), None)
        if line is not None and line.seq >= cut.first and not get_commit_cut(store, cut.ref).refused:
            return DefaultPoint(commit=line.seq, complete_ms=min(cut.completed_at_ms, line.committed_at_ms))
    return None


def default_point(store: Store, head: BackupState) -> DefaultPoint:
    """The default commit of a restore when `head` is the newest state: the newest commit with a cut, or the newest
    commit when no recent commit has a cut. Raises as `newest_with_cut`."""
    cut_point, newest = newest_with_cut(store, head), DefaultPoint.newest(head)
    if cut_point is None or newest.complete_ms - cut_point.complete_ms > RECENT_MS:
        return newest
    if cut_point.commit == head.seq:
        return cut_point
    # After a complete pass, the time of a commit of retention or of a pin says nothing.
    is_complete = head.completed_at_ms > cut_point.complete_ms and not head.incomplete
    newer = NewerCommit(
        commit=head.seq,
        more_ms=(head.completed_at_ms if is_complete else head.committed_at_ms) - cut_point.complete_ms,
        is_amid=head.incomplete,
        at_most=not is_complete and not head.incomplete,
    )
    return replace(cut_point, newer=newer)


def choose_cut(  # noqa: PLR0913  # keyword-only: what else speaks for or against a cut
    store: Store,
    commit: BackupState,
    choice: CutChoice,
    *,
    head: BackupState | None = None,
    ends_elsewhere: str = "",
    unasked: str = "",
) -> PointCut:
    """The cut for reading `commit`. `head`: the newest state, to name a commit with a cut when `commit` has none.
    `ends_elsewhere`: why the point has other ends than the commit; empty for equal ends. `unasked`: why the point is
    read as copied although nobody asked for it now.

    Raises `NoConsistentCut` when a cut was requested and none exists, `DamagedObject` for a cut that is missing,
    damaged, or not of this commit.
    """
    if choice is CutChoice.AS_COPIED:
        return PointCut(why=unasked or "ends as copied were requested")
    recorded = None if ends_elsewhere or commit.cut is None else get_commit_cut(store, commit.cut)
    if recorded is not None and not recorded.refused:
        _check_is_of(recorded, commit)
        return PointCut(used=recorded)
    refused = "" if recorded is None else recorded.refused
    why = ends_elsewhere or (f"its cut cannot be used: {refused}" if refused else _unknown(commit))
    if not ends_elsewhere and head is not None:
        why += _other(store, head)
    if choice is CutChoice.CONSISTENT:
        raise NoConsistentCut(
            f"commit {commit.seq} of backup {commit.backup} cannot be restored to a consistent cut: {why}", hint=HINT
        )
    return PointCut(why=why, refused=refused)


def _unknown(commit: BackupState) -> str:
    amid = ", which was made during a run" if commit.incomplete else ""
    return f"no consistent cut is known for commit {commit.seq}{amid}"


def _other(store: Store, head: BackupState) -> str:
    """Names the commit with a cut, if any. A damaged cut of another commit does not make this commit unusable."""
    try:
        other = newest_with_cut(store, head)
    except Damaged as error:
        warned("cut_unusable", why=error.message)
        return ""
    if other is None:
        return ""
    return f"; commit {other.commit} of {format_time(other.complete_ms)} has one: --commit {other.commit}"


def _check_is_of(cut: CommitCut, commit: BackupState) -> None:
    """A cut removes records of a commit, and adds none."""
    for part in cut.partitions:
        position = commit.positions.get(part.partition_id)
        if position is not None and part.end > position.end:
            raise DamagedObject(
                f"the consistent cut of commit {commit.seq} ends {part.partition_id} at offset {part.end}, but the "
                f"backup has records only up to {position.end}",
                hint=HINT,
            )
