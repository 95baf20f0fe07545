"""The groups of a backup: read from the source before its end offsets, stored with the commit they belong to.

A snapshot that is as the one before is not stored again. Nothing that was read badly replaces what was read well: a
group that does not answer keeps its former offsets, and no groups at all where there were some change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.kafka.groups.committed_offsets import FetchedGroups, GroupClient, GroupFailure
from offsite.log.groups.offsets import GroupOffsets, GroupTable, offset_count, on_topics
from offsite.model.errors import DamagedObject
from offsite.model.selections.selection import GroupPatterns
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.snapshots.group_snapshot import get_group_snapshot, put_group_snapshot
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSaved:
    """Result of saving the groups. `changed` is false when the snapshot of an earlier commit still holds; `failed` are
    groups that keep what that one had; `note` is empty unless something is to be known."""

    groups: int
    offsets: int
    changed: bool
    failed: tuple[GroupFailure, ...]
    note: str = ""


class FormerGroups:
    """The groups of the snapshot that a commit has, read once and kept for the rounds of a run that follows."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._groups: GroupTable = {}

    def get(self, backup: Backup, base: BackupState) -> tuple[GroupTable, str]:
        """The groups as of `base`, and what is wrong with their snapshot, if so."""
        if base.groups is None:
            return {}, ""
        if base.groups != self._key:
            try:
                self.keep(base.groups, get_group_snapshot(backup.store, base.groups))
            except DamagedObject as error:
                return {}, f"the former snapshot cannot be read ({error.message})"
        return self._groups, ""

    @property
    def newest(self) -> GroupTable:
        """The groups of the snapshot that was read or kept last."""
        return self._groups

    def keep(self, key: str, groups: GroupTable) -> None:
        self._key, self._groups = key, groups


def read_groups(client: GroupClient, patterns: GroupPatterns) -> FetchedGroups | None:
    """All chosen groups with all they have committed; None when none are chosen. To be called *before* the end offsets
    are asked for: a group commits offsets below the end of the log, so that no commit lies beyond what is backed up."""
    if not patterns:
        return None
    listed = {each.group: each for each in client.list()}
    return client.offsets(listed[name] for name in patterns.select(listed))


def save_groups(
    backup: Backup,
    base: BackupState,
    fetched: FetchedGroups | None,
    topics: Iterable[TopicShape],
    *,
    before: FormerGroups | None = None,
) -> tuple[str | None, GroupsSaved | None]:
    """Store what of `fetched` lies on `topics` for the commit after `base`: the key that it has to name (None: the
    former snapshot still holds), and what there is to say."""
    if fetched is None:
        return None, None
    before = before or FormerGroups()
    former, problem = before.get(backup, base)
    note = problem
    found = on_topics(fetched.groups, {shape.topic: shape.topic_id for shape in topics})
    groups = _with_former(found, former, fetched.failed)
    if former and not groups:
        note = f"no group was found where there were {len(former)}: the former snapshot was kept"
        groups = former
    holds = base.groups is not None and not problem and groups == former
    key = None if holds else put_group_snapshot(backup.store, backup.layout, base.seq + 1, groups)
    if key is not None:
        before.keep(key, groups)
    return key, GroupsSaved(
        groups=len(groups), offsets=offset_count(groups), changed=key is not None, failed=fetched.failed, note=note
    )


def _with_former(groups: dict[str, GroupOffsets], former: GroupTable, failed: Iterable[GroupFailure]) -> GroupTable:
    kept = {each.group: former[each.group] for each in failed if each.group in former}
    return dict(sorted((groups | kept).items()))
