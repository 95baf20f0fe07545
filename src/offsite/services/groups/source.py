"""The committed offsets of groups as of a restore point: from the snapshot of a commit, or from the groups' own
history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.copy.point_cut import choose_cut
from offsite.copy.restore_point import FixedPoint, PointRequest, fix_point
from offsite.log.groups.offsets import GroupOffsets, GroupTable, TopicOffsets
from offsite.model.choices import CutChoice
from offsite.model.errors import NoSuchRestorePoint
from offsite.model.selections.selection import GroupPatterns
from offsite.model.time import format_time
from offsite.repository.backup import Backup
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.repository.state import BackupState
from offsite.services.groups.cut_offsets import as_of_cut
from offsite.services.groups.history import has_history, read_history

SNAPSHOT, HISTORY = "snapshot", "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAsOf:
    """The groups as of `point`: from the `history` those of a time, from a `snapshot` those of its commit."""

    groups: GroupTable
    point: BackupState
    origin: str
    notes: tuple[str, ...] = ()

    def only(self, patterns: GroupPatterns) -> GroupsAsOf:
        """The chosen ones. Raises `NoSuchRestorePoint` for a literal name that is not there."""
        if missing := patterns.missing(self.groups):
            raise NoSuchRestorePoint(
                f"backup {self.point.backup} knows no group {', '.join(missing)} at commit {self.point.seq}",
                hint=f"see its groups with: offsite groups show --backup {self.point.backup}",
            )
        return replace(self, groups={name: self.groups[name] for name in patterns.select(self.groups)})

    def of_incarnations(self, topic_ids: Mapping[str, str]) -> GroupsAsOf:
        """The same groups without offsets on topics that are known to be others than these (name → id): in another log
        they would point at other records."""
        kept = {name: replace(group, topics=tuple(_on(group, topic_ids))) for name, group in self.groups.items()}
        others = {
            f"offsets on {each.topic} are left out: at commit {self.point.seq} they belong to another incarnation of "
            f"it ({each.topic_id[:8]}); a restore of a commit or a time when that lived has its groups"
            for group in self.groups.values()
            for each in group.topics
            if not _is_on(each, topic_ids)
        }
        groups = {name: group for name, group in kept.items() if group.topics}
        return replace(self, groups=groups, notes=(*self.notes, *sorted(others))) if others else self


def _on(group: GroupOffsets, topic_ids: Mapping[str, str]) -> Iterator[TopicOffsets]:
    return (each for each in group.topics if _is_on(each, topic_ids))


def _is_on(offsets: TopicOffsets, topic_ids: Mapping[str, str]) -> bool:
    wanted = topic_ids.get(offsets.topic, "")
    return not offsets.topic_id or not wanted or offsets.topic_id == wanted


def groups_as_of(backup: Backup, request: PointRequest, fixed: FixedPoint | None = None) -> GroupsAsOf:
    """The groups as of the commit that `request` means, or of its time `at`; or as of `fixed`.

    With a time: exactly then where the backup has the history of groups, else by the newest commit at or before it. As
    of a consistent cut: with the offsets that belong to it in the place of the commit's own.
    Raises `NoSuchRestorePoint` where nothing is known of groups, `BadOption` for a time that is none, `DamagedObject`.
    """
    backup = backup.reading(is_named=request.is_named or fixed is not None, as_of=request.as_of_head)
    head = backup.sound_state()
    fixed = fixed or fix_point(backup, request, head)
    point = head.as_point() if fixed.commit == head.seq else backup.state_at(fixed.commit, head=head)
    time_ms = fixed.until_ms
    if time_ms is None:
        found, cut = _snapshot(backup, point), choose_cut(backup.store, point, fixed.cut or CutChoice.AS_COPIED)
        return found if cut.used is None else replace(found, groups=as_of_cut(found.groups, cut.used.groups))
    if has_history(point):
        history = read_history(backup, point, until_ms=time_ms, head=head)
        notes = tuple(
            f"{topic} was deleted and made anew about {format_time(time_ms)}: offsets of groups on it are left out"
            for topic in history.unclear
        )
        return GroupsAsOf(groups=_described(backup, point, history.groups), point=point, origin=HISTORY, notes=notes)
    return _snapshot_before(backup, point, time_ms, head)


def _snapshot(backup: Backup, point: BackupState) -> GroupsAsOf:
    if point.groups is None:
        raise NoSuchRestorePoint(
            f"backup {point.backup} knows nothing of groups at commit {point.seq}",
            hint="they were left out (--groups none), or there was no commit yet: run offsite backup run",
        )
    return GroupsAsOf(groups=get_group_snapshot(backup.store, point.groups), point=point, origin=SNAPSHOT)


def _snapshot_before(backup: Backup, point: BackupState, time_ms: int, head: BackupState) -> GroupsAsOf:
    """Rather an older state than a newer one: groups then see some records again, and miss none."""
    found = point.history.latest_at(time_ms)
    if found is None:
        note = f"no commit is as old as {format_time(time_ms)}: groups are those of commit {point.seq}"
        return replace(_snapshot(backup, point), notes=(note,))
    note = f"groups are those of commit {found.seq}, the newest before {format_time(time_ms)}"
    return replace(_snapshot(backup, backup.state_at(found.seq, head=head)), notes=(note,))


def _described(backup: Backup, point: BackupState, groups: GroupTable) -> GroupTable:
    """The history tells no types: those of the snapshot, where it knows the group."""
    known: Mapping[str, GroupOffsets] = get_group_snapshot(backup.store, point.groups) if point.groups else {}
    return {name: replace(group, kind=known[name].kind if name in known else "") for name, group in groups.items()}
