"""The consistent cut of a restore point: which one is read, or why none is.

A cut belongs to the ends of its commit. What ends elsewhere, by date or by offsets of its own, is read as it was
copied, and so is a commit without a cut, or one whose cut was refused: then `why` says so, and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from offsite.log.range import Span
from offsite.model.choices import CutChoice
from offsite.model.errors import DamagedObject, NoConsistentCut
from offsite.repository.commit import PartitionId
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition, get_commit_cut
from offsite.repository.state import BackupState
from offsite.stores.store import Store

HINT = "restore what was copied (--cut as-copied), or another commit (--commit)"


@dataclass(frozen=True, kw_only=True)  # no slots: the table of partitions is made once
class PointCut:
    """What a restore point leaves out: all that `used` says, or nothing (None), with the reason in `why`. `refused`:
    why the cut that the commit has must not be used; empty where it may, or is not known."""

    used: CommitCut | None = None
    why: str = ""
    refused: str = ""

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


def choose_cut(
    store: Store, commit: BackupState, choice: CutChoice, *, ends_elsewhere: str = "", unasked: str = ""
) -> PointCut:
    """The cut by which `commit` is read. `ends_elsewhere`: why the point does not end where the commit does; empty
    where it does. `unasked`: why it is as copied although nobody asked for that now.

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
    if choice is CutChoice.CONSISTENT:
        raise NoConsistentCut(
            f"commit {commit.seq} of backup {commit.backup} cannot be restored to a consistent cut: {why}", hint=HINT
        )
    return PointCut(why=why, refused=refused)


def _unknown(commit: BackupState) -> str:
    amid = ", which was made amid a run" if commit.incomplete else ""
    return f"no consistent cut is known for commit {commit.seq}{amid}"


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
