"""Undoes a change of groups: the offsets from before the change are committed again, from the record of the change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.groups.run import check_cluster
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.groups import GroupFailure
from offsite.log.group_offsets import NO_OFFSET, GroupOffsets, GroupOnTopic, GroupTable, TopicOffsets, offset_count
from offsite.model.errors import NoSuchRestore
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.local_memory import is_written_here
from offsite.repository.records_place import GIVEN_AGAIN, prepare_records, record_places, writing_records
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    UnreadableChange,
    get_before,
    put_undoing,
    put_undone,
    try_open_changes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneGroups:
    """Result of undoing a change. `offsets_removed`: offsets that did not exist before the change. `untold`: share
    groups and topics whose new positions stay, because nobody knows whether there were positions before."""

    change: str
    groups: int
    offsets_put_back: int
    offsets_removed: int
    failed: tuple[GroupFailure, ...]
    untold: tuple[GroupOnTopic, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every group is where it was."""
        return not self.failed and not self.untold


def find_change(backup: Backup, admin: ClusterAdmin, change: str | None) -> GroupChange:
    """A change that was not undone; None: the newest change on this cluster by this installation. A change recorded by
    another installation is used only when named, and an unreadable change is an error only when named. Raises
    `NoSuchRestore`, `OtherCluster`, `DamagedObject`, `FormatTooNew`."""
    cluster_id = admin.cluster().cluster_id
    changes: dict[str, GroupChange] = {}
    ours: list[GroupChange] = []
    for place in record_places(backup):
        for listed in _readable_changes(backup, place, named=change):
            changes.setdefault(listed.change, listed)
            if listed.cluster_id == cluster_id and is_written_here(place.record_store, _record_key(backup, listed)):
                ours.append(listed)
    if change is not None and change in changes:
        check_cluster(changes[change].cluster_id, cluster_id, f"change {change}")
        return changes[change]
    if change is not None or not ours:
        here = [candidate.change for candidate in changes.values() if candidate.cluster_id == cluster_id]
        by_others = ", but this machine did not record them: choose one with --change" if here and not change else ""
        raise NoSuchRestore(
            f"backup {backup.descriptor.name} has no change of groups {change or 'on this cluster'} to undo",
            hint=f"there are: {', '.join(here) or 'none'}{by_others}; {GIVEN_AGAIN}",
        )
    return max(ours, key=lambda change: change.created_at_ms)


def _readable_changes(backup: Backup, place: Backup, *, named: str | None) -> Iterator[GroupChange]:
    """The changes in `place` that were not undone. Raises the error of the unreadable change that is `named`."""
    for listed in try_open_changes(place.record_store, backup.layout, undone_in=[backup.record_store]):
        if not isinstance(listed, UnreadableChange):
            yield listed
        elif listed.change == named:
            raise listed.error
        else:
            warned("change_unreadable", change=listed.change, why=f"it is ignored: {listed.error.message}")


def _record_key(backup: Backup, change: GroupChange) -> str:
    return GroupChangeLayout(backup=backup.layout, change=change.change).record_key


def undo_groups(backup: Backup, admin: ClusterAdmin, change: GroupChange) -> UndoneGroups:
    """Commit again the offsets of the groups before the change, and remove offsets that did not exist. May be repeated;
    a change with groups that could not be undone stays open. Positions of share groups stay where the earlier ones are
    not known: a group without a position may skip all records up to the end. If the undo cannot be recorded, nothing is
    touched: raises `StoreDenied`, and further errors of the store."""
    before = _before(backup, change)
    with writing_records(backup):
        prepare_records(backup)
        put_undoing(backup.record_store, backup.layout, change)
    earlier, none = _rows(before, committed=True), _rows(before, committed=False, but=change.untold)
    # The positions of a share group on a topic go together: remove first, and set the earlier ones again.
    failures = {failure.group: failure for failure in (*admin.groups.delete(none), *admin.groups.commit(earlier))}
    if not failures:
        put_undone(backup.record_store, backup.layout, change)
    untold = tuple(kept for kept in change.untold if kept.group not in failures)
    return UndoneGroups(
        change=change.change,
        groups=len(before.keys() - failures.keys() - {kept.group for kept in untold}),
        offsets_put_back=offset_count({name: group for name, group in earlier.items() if name not in failures}),
        offsets_removed=offset_count({name: group for name, group in none.items() if name not in failures}),
        failed=tuple(failures[name] for name in sorted(failures)),
        untold=untold,
    )


def _before(backup: Backup, change: GroupChange) -> Mapping[str, GroupOffsets]:
    """The recorded offsets, from the place of the change: the repository, or the place for records."""
    key = _record_key(backup, change)
    places = [place.record_store for place in record_places(backup) if place.record_store.head(key) is not None]
    return get_before((places or [backup.record_store])[0], backup.layout, change)


def _rows(groups: GroupTable, *, committed: bool, but: Collection[GroupOnTopic] = ()) -> GroupTable:
    """The rows of groups with a commit before, or without one, except those of the groups and topics in `but`."""
    filtered = {
        name: replace(group, topics=tuple(_topics(group, committed=committed, but=but)))
        for name, group in groups.items()
    }
    return {name: group for name, group in filtered.items() if group.topics}


def _topics(group: GroupOffsets, *, committed: bool, but: Collection[GroupOnTopic]) -> list[TopicOffsets]:
    filtered = [
        TopicOffsets.of(offsets.topic, (row for row in offsets if (row.offset != NO_OFFSET) is committed))
        for offsets in group.topics
        if GroupOnTopic(group=group.group, topic=offsets.topic) not in but
    ]
    return [offsets for offsets in filtered if len(offsets)]
