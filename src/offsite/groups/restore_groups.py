"""The last step of a restore with requested groups: the consumer groups, by the maps that the restore has just
stored."""

from __future__ import annotations

from dataclasses import replace

from offsite.groups.run import AppliedGroups, GroupsRequest, apply_groups, prepare_groups
from offsite.kafka.admin import ClusterAdmin
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.selection import GroupPatterns
from offsite.repository.backup import Backup
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.state import BackupState


def check_groups(point: BackupState, groups: GroupPatterns) -> None:
    """Raise `NoSuchRestorePoint` when groups are requested and the point knows none. Call before any write."""
    if groups and point.groups is None:
        raise NoSuchRestorePoint(
            f"backup {point.backup} has no groups at commit {point.seq}",
            hint="restore without --groups, or choose a commit of a backup run without --groups none",
        )


def restore_groups(
    backup: Backup, admin: ClusterAdmin, record: RestoreRecord, groups: GroupPatterns
) -> AppliedGroups | None:
    """Put the groups in place, and return the result; None when no groups were requested. May be repeated: the change
    to undo has the restore's own id, and keeps the offsets found by the first attempt, provided that they cover all
    groups put in place now; otherwise the change has a new id."""
    if not groups:
        return None
    planned = prepare_groups(backup, admin, GroupsRequest(groups=groups, restore=record.restore))
    return apply_groups(replace(planned, change=replace(planned.change, change=record.restore)), admin)
