"""Consistent cuts made by hand, in commits that name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from offsite.log.range import PartitionId
from offsite.model.ids import random_id
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, PassProgress
from offsite.repository.segments.reader import stored_markers
from offsite.repository.snapshots.commit_cut import CommitCut, CutPartition, put_commit_cut
from offsite.repository.state import BackupState


def commit_cut(backup: Backup, cut: CommitCut) -> BackupState:
    """A commit on top of the newest one that moves nothing and names `cut`."""
    base = backup.sound_state()
    ref = put_commit_cut(backup.store, base, cut)
    return backup.commit(CommitChanges(cut=ref, cut_refused=bool(cut.refused)), base=base, writer=random_id())


def commit_amid(backup: Backup) -> BackupState:
    """What a pass commits that was stopped: each partition ends one offset later, and no record came with it."""
    base = backup.sound_state()
    positions = tuple(replace(each, end=each.end + 1) for each in base.positions.values())
    progress = PassProgress(copied=1, planned=2)
    changes = CommitChanges(incomplete=True, progress=progress, positions=positions)
    return backup.commit(changes, base=base, writer=random_id())


def partition_of(state: BackupState, topic: str, partition: int = 0) -> PartitionId:
    return next(each for each in state.positions if (each.topic, each.partition) == (topic, partition))


def commit_markers(backup: Backup, partition: PartitionId) -> list[int]:
    """The offsets of the commit markers of a partition, as they were backed up."""
    state = backup.sound_state()
    parts = stored_markers(state.segments[partition], backup.store)
    return [marker.offset for part in parts for marker in part if marker.committed]


def leaving_out(
    backup: Backup, partition: PartitionId, markers: Iterable[int], *, floor: int, end: int | None = None
) -> CutPartition:
    at = backup.sound_state().positions[partition].end if end is None else end
    return CutPartition(partition_id=partition, end=at, floor=floor, markers=tuple(sorted(markers)))
