"""Puts consumer groups back where they were: plan and apply. With a restore's offset maps, which the restore itself
uses as its last step, or with unchanged offsets.

The order makes every crash harmless: the present offsets of the groups are recorded before any commit (see `undo`), and
the same command commits missing offsets again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.groups.groups_as_of import EarlierCommit, GoneSince, GroupsAsOf, groups_as_of
from offsite.groups.missing_records import RefusedOffset, read_commit_cut
from offsite.groups.plan import GroupPlan, ReadAgain, SharePositions, plan_groups
from offsite.groups.restored_offsets import RestoredOffsets, load_restored_offsets, topic_origins
from offsite.groups.streams_groups import streams_warnings
from offsite.groups.translation import OffsetMapping, SameOffsets, translate
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.groups import NO_GROUP, FetchedGroups, GroupClient, GroupFailure
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.group_offsets import SHARE, GroupOffsets, GroupOnTopic, GroupTable, offset_count
from offsite.log.range import TopicIncarnation, TopicPartition
from offsite.model.errors import BadOption, DamagedObject, FormatTooNew, NoSuchRestorePoint, OtherCluster
from offsite.model.ids import dated_id
from offsite.model.names import amount
from offsite.model.options import CutChoice
from offsite.model.selection import ALL_GROUPS, GroupPatterns
from offsite.model.topic_choices import Renames
from offsite.points.point_cut import default_point
from offsite.points.restore_point import FixedPoint, PointRequest
from offsite.repository.backup import Backup
from offsite.repository.heads import check_to_read
from offsite.repository.layout import own_objects
from offsite.repository.local_memory import is_written_here, note_written
from offsite.repository.records_place import prepare_records, writing_records
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.snapshots.group_change import (
    GroupChange,
    GroupChangeLayout,
    get_before,
    open_change,
    put_group_change,
)
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsRequest:
    """The requested groups, and the moment: a restore's own point, or a commit (None: the newest), or a time. Without
    any point, the default point of a restore. `renames` only without a restore, which has its own. `clamp`: offsets
    with missing next records continue at the next existing record, instead of a refusal. `accept_rollback`: as for a
    restore; a named restore has asked already."""

    groups: GroupPatterns = ALL_GROUPS
    restore: str | None = None
    commit: int | None = None
    at: str | None = None
    renames: Renames = field(default_factory=Renames)
    clamp: bool = False
    accept_rollback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroups:
    """A decided change: nothing was touched yet. `as_of`: the groups of the backup. `unreadable` are groups of the
    target with unknown offsets, of another kind, or whose positions the target does not set: they are left alone."""

    backup: Backup
    change: GroupChange
    as_of: GroupsAsOf
    plan: GroupPlan
    unreadable: tuple[GroupFailure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedGroups:
    """Result of applying a plan. `change` is the id for an undo, empty without any change. `failed` groups are
    unchanged, except those with `partitions`, which are changed elsewhere; no number counts them. `clamped` offsets lay
    outside of the restored log, `missing` offsets have no partition on the target.
    `refused` offsets were not set: their groups would have skipped or repeated work. Groups on `unread_topics`, which
    were deleted, are left out, because their objects are damaged. `behind`: number of offsets that continue at the next
    existing record, because the source had deleted earlier records unread. `earlier`: offsets of an earlier commit than
    the rest; `gone`: groups that are gone, and were not named in full. `kinds`: the kind of every group of the plan.
    `share_positions`: where the share groups that are set deliver again, and where they have no position;
    `reads_again`: what groups that are set had read beyond the ends of the logs; `untold`: share groups and topics with
    a partition without a position before, as far as brokers told, where an undo leaves the new positions."""

    change: str
    backup: str
    commit: int
    origin: str
    restore: str
    groups: int
    offsets_set: int
    unchanged: int
    clamped: int
    missing: int
    absent_topics: tuple[str, ...]
    notes: tuple[str, ...]
    failed: tuple[GroupFailure, ...]
    refused: tuple[RefusedOffset, ...] = ()
    behind: int = 0
    earlier: tuple[EarlierCommit, ...] = ()
    gone: tuple[GoneSince, ...] = ()
    unread_topics: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    share_positions: tuple[SharePositions, ...] = ()
    reads_again: tuple[ReadAgain, ...] = ()
    untold: tuple[GroupOnTopic, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every group is where it was."""
        return not self.failed and not self.refused and not self.unread_topics


def prepare_groups(backup: Backup, admin: ClusterAdmin, request: GroupsRequest) -> PlannedGroups:
    """The plan of commits. Changes nothing.

    Raises `NoSuchRestore`, `NoSuchRestorePoint`, `OtherCluster` for a restore into another cluster, `BadOption`.
    """
    backup = backup.for_reading(is_named=request.restore is not None or request.commit is not None)
    if request.restore is None:
        check_to_read(backup, accept_rollback=request.accept_rollback)
    cluster_id = admin.cluster().cluster_id
    as_of, mapping = _as_of_and_mapping(backup, admin, request, cluster_id)
    translation = translate(as_of.groups, mapping)
    moved = [as_of.groups[name] for name in translation.moved]
    present, current = _on_target(admin.groups, moved)
    as_of = replace(as_of, own_notes=(*as_of.own_notes, *streams_warnings(moved, admin.groups)))
    unsettable = admin.groups.unsettable([group.group for group in moved if group.kind == SHARE])
    others = of_another_kind(as_of.groups, present)
    failures = (*current.failed, *unsettable, *others)
    failed = {failure.group: replace(failure, partitions=()) for failure in failures}  # none is set in part
    readable = {name: topics for name, topics in translation.moved.items() if name not in failed}
    return PlannedGroups(
        backup=backup,
        change=_new_change(backup, request, cluster_id, as_of.point.seq),
        as_of=as_of,
        plan=plan_groups(as_of.groups, replace(translation, moved=readable), current.groups),
        unreadable=tuple(failed.values()),
    )


def _on_target(client: GroupClient, groups: Iterable[GroupOffsets]) -> tuple[Sequence[ListedGroup], FetchedGroups]:
    """The groups of the target with the names of `groups`, as listed and as read. Lists leave out a group that moves to
    another coordinator meanwhile, so that every group is read by its name: an undo would remove what nobody read."""
    listed = {group.group: group for group in client.list()}
    chosen = [listed.get(group.group) or ListedGroup(group=group.group, kind=group.kind, state="") for group in groups]
    current = client.offsets(chosen)
    failed = tuple(failure for failure in current.failed if failure.group in listed or failure.error != NO_GROUP)
    return [group for group in chosen if group.group in listed], replace(current, failed=failed)


def of_another_kind(groups: GroupTable, present: Iterable[ListedGroup]) -> Iterator[GroupFailure]:
    """The groups of the target with names in `groups` whose offsets would not be offsets of the backup's group: a share
    group has positions, and every other group has committed offsets."""
    for listed in present:
        if listed.group not in groups:
            continue
        kind = groups[listed.group].kind or "consumer"
        if (listed.kind == SHARE) != (kind == SHARE):
            yield GroupFailure(
                group=listed.group,
                error="OTHER_KIND",
                message=f"it is a {listed.kind or 'consumer'} group on the cluster, and a {kind} group in the backup: "
                "delete it on the cluster if nobody needs it there",
                kind=listed.kind,
            )


def apply_groups(planned: PlannedGroups, admin: ClusterAdmin) -> AppliedGroups:
    """Record the present commits, and commit the planned offsets. After a crash, prepare and apply again."""
    changes = planned.plan.changes()
    change, failed = "", tuple[GroupFailure, ...]()
    if changes:
        change = _remembered(planned)
        failed = admin.groups.commit(changes)
    refused = {failure.group for failure in failed}
    counts = planned.plan.counts(left_out=refused)
    applied = {name: group for name, group in changes.items() if name not in refused}
    not_set = {refused_offset.group for refused_offset in planned.plan.refused} | refused
    return AppliedGroups(
        change=change,
        backup=planned.backup.descriptor.name,
        commit=planned.change.commit,
        origin=planned.as_of.origin,
        restore=planned.change.restore,
        groups=len(planned.plan.groups) - len(not_set),
        offsets_set=offset_count(applied),
        unchanged=counts.unchanged,
        clamped=counts.clamped,
        missing=counts.missing,
        absent_topics=planned.plan.absent_topics,
        notes=planned.as_of.notes,
        failed=(*planned.unreadable, *failed),
        refused=planned.plan.refused,
        behind=counts.behind,
        earlier=planned.as_of.earlier_commits,
        gone=planned.as_of.gone,
        unread_topics=tuple(planned.as_of.unread),
        kinds=planned.plan.kinds(),
        share_positions=planned.plan.share_positions(left_out=refused),
        reads_again=planned.plan.reads_again(left_out=refused),
        untold=planned.plan.untold(left_out=refused),
    )


def _remembered(planned: PlannedGroups) -> str:
    """The id of the change for an undo of everything. An earlier attempt counts if this installation recorded it, and
    if its record covers all offsets that are going to change."""
    backup, before = planned.backup, planned.plan.before()
    change = replace(planned.change, untold=planned.plan.untold())
    with writing_records(backup):
        prepare_records(backup)
        store = backup.record_store
        if any(own_objects(store.list(backup.layout.group_change_prefix(change.change)))):
            if _covers(backup, change, before):
                return change.change
            change = replace(change, change=dated_id(store.now_ms()))
        put_group_change(store, backup.layout, change, before, on_record=partial(note_written, store))
    return change.change


def _covers(backup: Backup, change: GroupChange, before: GroupTable) -> bool:
    store = backup.record_store
    if not is_written_here(store, GroupChangeLayout(backup=backup.layout, change=change.change).record_key):
        return False
    try:
        earlier = open_change(store, backup.layout, change.change)
    except (DamagedObject, FormatTooNew):
        return False
    try:
        remembered = {} if earlier is None else get_before(store, backup.layout, earlier)
    except DamagedObject:
        return False
    return set(_partitions(before)) <= set(_partitions(remembered))


def _partitions(groups: GroupTable) -> Iterator[tuple[str, str, int]]:
    for name, group in groups.items():
        yield from ((name, topic.topic, partition) for topic in group.topics for partition in topic.partitions)


def _as_of_and_mapping(
    backup: Backup, admin: ClusterAdmin, request: GroupsRequest, cluster_id: str
) -> tuple[GroupsAsOf, OffsetMapping]:
    topics = {name: len(topic.partitions) for name, topic in admin.topics().items()}
    if request.restore is not None:
        return _of_restore(backup, request, cluster_id, topics)
    point = PointRequest(commit=request.commit, at=request.at)
    as_of = groups_as_of(backup, point, _default(backup, request), patterns=request.groups)
    ids = _unnamed_ids(admin, request.renames)
    as_of = as_of.of_incarnations(_known_ids(backup, ids))
    is_own = cluster_id == backup.descriptor.cluster_id
    as_of = as_of.without_topics(dict(_strangers(backup, ids, as_of, is_own=is_own)))
    read = {topic.topic for group in as_of.groups.values() for topic in group.topics}
    if unused := request.renames.unused({*read, *(incarnation.topic for incarnation in as_of.point.topics)}):
        raise BadOption(f"--rename names {', '.join(unused)}, which is not in the backup", hint="correct the name")
    mapping = _same_offsets(admin, as_of.groups, request.renames, topics)
    if not request.clamp:
        mapping = mapping.judged_by(as_of.point, read_commit_cut(backup.store, as_of.point), as_of.earlier)
    return as_of, mapping


def _default(backup: Backup, request: GroupsRequest) -> FixedPoint | None:
    """The default commit of a restore, when the request names no point."""
    if request.commit is not None or request.at is not None:
        return None
    default = default_point(backup.store, backup.sound_state())
    return FixedPoint(commit=default.commit, cut=CutChoice.AUTO)


def _of_restore(
    backup: Backup, request: GroupsRequest, cluster_id: str, topics: Mapping[str, int]
) -> tuple[GroupsAsOf, OffsetMapping]:
    if request.commit is not None or request.at is not None or request.renames.rules:
        raise BadOption(
            "--restore already sets the restore point and the topic names", hint="omit --commit, --at and --rename"
        )
    maps = load_restored_offsets(backup, request.restore or "")
    check_cluster(maps.record.cluster_id, cluster_id, f"restore {request.restore}")
    ids = {name: mapped.topic_id for name, mapped in maps.topics.items()}
    fixed = FixedPoint.of_restore(maps.record)
    as_of = groups_as_of(backup, PointRequest(), fixed, patterns=request.groups, topic_ids=ids).on_topics(ids)
    on_target = {name: mapped for name, mapped in maps.topics.items() if mapped.target in topics}
    maps = maps if request.clamp else maps.judged_by(as_of.point, as_of.earlier)
    notes = tuple(_repartitioned(as_of.groups, maps, topics))
    return replace(as_of, own_notes=(*as_of.own_notes, *notes)), replace(maps, topics=on_target)


def _known_ids(backup: Backup, ids: Mapping[str, str]) -> Mapping[str, str]:
    """Topics of the target that the backup knows as its own: name → id. Other topics may be restored ones, at old
    offsets."""
    backup_topics = {(incarnation.topic, incarnation.topic_id) for incarnation in backup.sound_state().topics}
    return {name: topic_id for name, topic_id in ids.items() if (name, topic_id) in backup_topics}


def _unnamed_ids(admin: ClusterAdmin, renames: Renames) -> dict[str, str]:
    """The topics of the target without a rename rule: with a rule, a person has named the topic."""
    return {name: str(topic.topic_id or "") for name, topic in admin.topics().items() if not renames.is_about(name)}


def _strangers(
    backup: Backup, target_ids: Mapping[str, str], as_of: GroupsAsOf, *, is_own: bool
) -> Iterator[tuple[str, str]]:
    """Topics of the target that differ from the topics read by the groups, with the reason: on the backup's own cluster
    the meaning of their offsets is unknown, unless a restore recorded here made the topic with the same offsets. On
    another cluster each topic differs, and those that a restore made with other offsets are known."""
    read = {(topic.topic, topic.topic_id) for group in as_of.groups.values() for topic in group.topics}
    others = [
        (TopicIncarnation(topic=name, topic_id=topic_id), now)
        for name, topic_id in sorted(read)
        if (now := target_ids.get(name, "")) and now != topic_id and (topic_id or not is_own)
    ]
    origins = topic_origins(backup) if others else {}
    for incarnation, now in others:
        name = incarnation.topic
        origin = origins.get(TopicIncarnation(topic=name, topic_id=now))
        if origin is None and not is_own:
            continue
        if origin is None:
            why = "is another topic than its groups have read, and no restore of this backup created it"
            yield name, f"{name} on the cluster {why}: offsets on it are left out (or --rename {name}={name})"
        elif not origin.is_ours or origin.same_offsets_as != incarnation:
            who = (
                ""
                if origin.is_ours
                else ", according to a record that this machine did not write; if you know its writer"
            )
            yield (
                name,
                f"{name} was created by restore {origin.restore}{who}: set its groups with --restore {origin.restore}",
            )


def _repartitioned(groups: GroupTable, maps: RestoredOffsets, topics: Mapping[str, int]) -> Iterator[str]:
    read = {topic.topic for group in groups.values() for topic in group.topics}
    for name in sorted(read & maps.topics.keys()):
        mapped = maps.topics[name]
        before = maps.point.topics[TopicIncarnation(topic=name, topic_id=mapped.topic_id)].partitions
        if topics.get(mapped.target, before) != before:
            now = topics[mapped.target]
            yield (
                f"{name} has {amount(now, 'partition')} on the target instead of {before}: repartitioned, so offsets "
                "cannot be translated"
            )


def _same_offsets(admin: ClusterAdmin, groups: GroupTable, renames: Renames, topics: Mapping[str, int]) -> SameOffsets:
    names = renames.target_names({topic.topic for group in groups.values() for topic in group.topics})
    targets = sorted(set(names.values()) & topics.keys())
    partitions = [TopicPartition(topic=name, partition=number) for name in targets for number in range(topics[name])]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return SameOffsets(
        bounds={partition: (starts[partition], max(starts[partition], ends[partition])) for partition in partitions},
        names=names,
    )


def _new_change(backup: Backup, request: GroupsRequest, cluster_id: str, commit: int) -> GroupChange:
    with writing_records(backup):
        now_ms = backup.record_store.now_ms()
    return GroupChange(
        change=dated_id(now_ms),
        cluster_id=cluster_id,
        restore=request.restore or "",
        commit=commit,
        created_at_ms=now_ms,
    )


def check_cluster(expected_id: str, actual_id: str, subject: str) -> None:
    """Raise `OtherCluster` unless both ids are of one cluster."""
    if expected_id != actual_id:
        raise OtherCluster(
            f"{subject} was made on cluster {expected_id}, but this cluster is {actual_id}", hint="check --bootstrap"
        )


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
