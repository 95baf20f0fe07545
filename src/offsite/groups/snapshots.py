"""The groups of a backup: read from the source before its end offsets, stored with their commit.

A snapshot equal to the previous one is not stored again. A bad read never replaces a good one: a group without an
answer keeps its previous offsets, and so do groups on a topic that was not seen; an empty list where groups existed
changes nothing. Brokers tell a share group's position that they failed to read as none, without an error: the previous
position stays, and so does where the group begins without one. A group that is gone although its topic exists is
recorded by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsite.kafka.groups import NO_GROUP, FetchedGroups, GroupClient, GroupFailure
from offsite.kafka.net.backoff import PASSING
from offsite.kafka.protocol.groups import ListedGroup
from offsite.log.group_offsets import (
    NO_OFFSET,
    SHARE,
    GroupOffsets,
    GroupTable,
    TopicOffsets,
    offset_count,
    restrict_to_topics,
)
from offsite.log.range import TopicIncarnation, TopicPartition
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.names import named
from offsite.model.selection import NO_GROUPS, GroupPatterns
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.snapshots.group_snapshot import (
    GoneGroup,
    GroupSnapshot,
    incarnation_of,
    put_group_snapshot,
    read_group_snapshot,
)
from offsite.repository.state import BackupState

_NAMED_MAX = 12
"""Positions named in one sentence."""
EVERY_GROUP = "*"
"""Stands for the name of a group in the failure of a list."""
_NO_LIST = "brokers did not list the groups"
GONE_MAX = 1_000
"""Recorded groups that are gone, the newest first: some 80 KB in a snapshot at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroups:
    """Result of saving the groups. `changed` is false when the snapshot of an earlier commit still holds; `failed`
    groups, or their failed partitions, keep the offsets of the earlier snapshot; `note`: a sentence for a person, or
    empty. `positions`: number of positions of share groups, which are no committed offsets; a partition without one
    does not count."""

    groups: int
    offsets: int
    changed: bool
    failed: tuple[GroupFailure, ...]
    note: str = ""
    positions: int = 0


class PreviousGroups:
    """The group snapshot of the base commit, read once and cached for the rounds of a run that follows."""

    def __init__(self) -> None:
        self._key: str | None = None
        self._snapshot = GroupSnapshot(groups={})

    def get(self, backup: Backup, base: BackupState) -> tuple[GroupSnapshot, str]:
        """The groups as of `base`, and the problem of their snapshot, if any."""
        if base.groups is None:
            return GroupSnapshot(groups={}), ""
        if base.groups != self._key:
            try:
                self.keep(base.groups, read_group_snapshot(backup.store, base.groups))
            except DamagedObject as error:
                return GroupSnapshot(groups={}), f"the previous snapshot cannot be read ({error.message})"
        return self._snapshot, ""

    @property
    def newest(self) -> GroupTable:
        """The groups of the last snapshot read or kept."""
        return self._snapshot.groups

    def keep(self, key: str, snapshot: GroupSnapshot) -> None:
        self._key, self._snapshot = key, snapshot


def read_groups(client: GroupClient, patterns: GroupPatterns) -> FetchedGroups | None:
    """All selected groups with all their commits; None when no groups are selected. Call *before* asking for the end
    offsets: a group commits offsets below the end of the log, and no commit lies beyond the backup.

    Where a coordinator loads groups for longer than a run waits, `EVERY_GROUP` has failed: records are backed up all
    the same. Raises `KafkaUnavailable` and `Denied` otherwise.
    """
    if not patterns:
        return None
    try:
        listed = {group.group: group for group in client.list()}
    except PASSING as error:
        unlisted = GroupFailure(group=EVERY_GROUP, error=error.id, message=f"{_NO_LIST}: {error.message}")
        return FetchedGroups(groups={}, failed=(unlisted,))
    return client.offsets(listed[name] for name in patterns.select(listed))


def save_groups(  # noqa: PLR0913  # all by keyword but what was read, for which commit, and of which topics
    backup: Backup,
    base: BackupState,
    fetched: FetchedGroups | None,
    topics: Iterable[TopicShape],
    *,
    unseen: Collection[TopicIncarnation] = (),
    patterns: GroupPatterns = NO_GROUPS,
    before: PreviousGroups | None = None,
) -> tuple[str | None, SavedGroups | None]:
    """Store the offsets of `fetched` on `topics` for the commit after `base`. Returns the key for the commit (None: the
    previous snapshot still holds), and the result. On topics in `unseen`, not known to be deleted, groups keep their
    offsets. `patterns`: the requested groups; a missing one is gone."""
    if fetched is None:
        return None, None
    before, topics = before or PreviousGroups(), tuple(topics)
    former, problem = before.get(backup, base)
    note = problem
    fetched_groups = restrict_to_topics(fetched.groups, {shape.topic: shape.topic_id for shape in topics})
    failed = (*fetched.failed, *_unlisted(fetched, former.groups, patterns))
    groups = _with_former(fetched_groups, former.groups, failed)
    groups, kept = _with_known_positions(groups, former.groups)
    groups = {name: _with_known_reset(group, former.groups.get(name)) for name, group in groups.items()}
    note = "; ".join(filter(None, (note, _kept_note(kept))))
    groups = _with_unseen(groups, former.groups, unseen) if unseen else groups
    if former.groups and not groups:
        note = (
            f"no groups were found, but the previous snapshot has {len(former.groups)}: the previous snapshot was kept"
        )
        groups = former.groups
    if base.groups is not None and not problem and groups == former.groups:
        key = None
    else:
        alive = {*(shape.incarnation for shape in topics), *unseen}
        gone = tuple(_gone(former, groups, alive, patterns, seq=base.seq + 1))[:GONE_MAX]
        key = put_group_snapshot(backup.store, backup.layout, base.seq + 1, groups, gone)
        before.keep(key, GroupSnapshot(groups=groups, gone=gone))
    share = {name: group for name, group in groups.items() if group.kind == SHARE}
    return key, SavedGroups(
        groups=len(groups),
        offsets=offset_count(groups) - offset_count(share),
        changed=key is not None,
        failed=failed,
        note=note,
        positions=sum(row.offset != NO_OFFSET for group in share.values() for topic in group.topics for row in topic),
    )


def _unlisted(fetched: FetchedGroups, former: GroupTable, patterns: GroupPatterns) -> Iterator[GroupFailure]:
    """The previous groups that no broker lists, and whose coordinators do not report an empty group: lists leave out
    groups that may not be described, and groups that move to another coordinator meanwhile."""
    yield from _untold(fetched, former)
    failed = {failure.group for failure in fetched.failed} | {group.group for group in fetched.not_carried}
    missing = patterns.select(former.keys() - fetched.groups.keys() - failed)
    if not missing or fetched.ask_again is None:
        return
    unlisted = [ListedGroup(group=name, kind=former[name].kind, state="") for name in missing]
    try:
        answer = fetched.ask_again(unlisted)
    except OffsiteError as error:
        yield from (
            GroupFailure(group=group.group, error=error.id, message=error.message, kind=group.kind)
            for group in unlisted
        )
        return
    yield from (failure for failure in answer.failed if failure.error != NO_GROUP)
    yield from _untold(answer, former)
    for name, group in answer.groups.items():
        if group.topics:
            yield GroupFailure(
                group=name,
                error="NOT_LISTED",
                message="brokers did not list the group, but the group has offsets",
                kind=group.kind,
            )


def _untold(fetched: FetchedGroups, former: GroupTable) -> Iterator[GroupFailure]:
    """The share groups of the previous snapshot whose positions the answering broker has no request for: brokers of two
    releases serve a cluster while it is upgraded."""
    for group in fetched.not_carried:
        if group.group in former and group.group not in fetched.groups:
            yield GroupFailure(
                group=group.group,
                error="NOT_TOLD",
                message="a broker without requests about share groups answered: the earlier positions were kept",
                kind=group.kind,
            )


def _with_former(groups: dict[str, GroupOffsets], former: GroupTable, failed: Iterable[GroupFailure]) -> GroupTable:
    """`groups` with the earlier offsets of failed groups, or of those of their partitions that alone failed."""
    retained = {
        failure.group: _with_former_positions(groups.get(failure.group), former[failure.group], failure.partitions)
        for failure in failed
        if failure.group in former
    }
    return dict(sorted((groups | retained).items()))


def _with_former_positions(
    group: GroupOffsets | None, former: GroupOffsets, partitions: Collection[TopicPartition]
) -> GroupOffsets:
    """`group` with the positions of `former` in `partitions`; `former` for a group that was not read at all."""
    if group is None or not partitions:
        return former
    earlier = {incarnation_of(topic): topic for topic in former.topics}
    return replace(
        group, topics=tuple(_patched(topic, earlier.get(incarnation_of(topic)), partitions) for topic in group.topics)
    )


def _patched(topic: TopicOffsets, former: TopicOffsets | None, partitions: Collection[TopicPartition]) -> TopicOffsets:
    earlier = {row.partition: row for row in former or ()}
    rows = (
        earlier.get(row.partition, row) if TopicPartition(topic.topic, row.partition) in partitions else row
        for row in topic
    )
    return TopicOffsets.of(topic.topic, rows, topic_id=topic.topic_id)


def _with_known_positions(groups: GroupTable, former: GroupTable) -> tuple[GroupTable, Sequence[str]]:
    """`groups` with the positions of `former` where share groups are told to have none now, and those positions in
    words. A group that was made anew under its name keeps the earlier position until it stores one."""
    lost = {
        name: _lost_positions(group, former[name])
        for name, group in groups.items()
        if group.kind == SHARE and name in former and former[name].kind == SHARE
    }
    patched = {
        name: _with_former_positions(groups[name], former[name], partitions)
        for name, partitions in lost.items()
        if partitions
    }
    return {**groups, **patched}, [f"{name} on {partition}" for name in patched for partition in lost[name]]


def _with_known_reset(group: GroupOffsets, former: GroupOffsets | None) -> GroupOffsets:
    """`group`, where nobody told where it begins without a position, with what was told before: brokers have a value
    for each share group, so none means that it was not read."""
    is_unknown = group.kind == SHARE and not group.reset
    return replace(group, reset=former.reset) if is_unknown and former is not None else group


def _lost_positions(group: GroupOffsets, former: GroupOffsets) -> Sequence[TopicPartition]:
    """The partitions in which `former` had a position, and `group` has none."""
    earlier = {incarnation_of(topic): topic.by_partition() for topic in former.topics}
    return [
        TopicPartition(topic=topic.topic, partition=row.partition)
        for topic in group.topics
        for row in topic
        if row.offset == NO_OFFSET and earlier.get(incarnation_of(topic), {}).get(row.partition, NO_OFFSET) != NO_OFFSET
    ]


def _kept_note(kept: Sequence[str]) -> str:
    if not kept:
        return ""
    return (
        f"brokers tell no position of share groups any more ({named(kept, most=_NAMED_MAX)}): the positions of the "
        "previous snapshot were kept"
    )


def _with_unseen(groups: GroupTable, former: GroupTable, unseen: Collection[TopicIncarnation]) -> GroupTable:
    """`groups` with the offsets of `former` groups on `unseen` topics: these topics could not be read."""
    retained = {
        name: tuple(topic for topic in group.topics if incarnation_of(topic) in unseen)
        for name, group in former.items()
    }
    joined = {
        name: _joined(groups.get(name, replace(former[name], topics=())), topics)
        for name, topics in retained.items()
        if topics
    }
    return dict(sorted({**groups, **joined}.items()))


def _joined(group: GroupOffsets, topics: Iterable[TopicOffsets]) -> GroupOffsets:
    by_name = {topic.topic: topic for topic in (*topics, *group.topics)}
    return replace(group, topics=tuple(by_name[name] for name in sorted(by_name)))


def _gone(
    former: GroupSnapshot,
    groups: GroupTable,
    alive: Collection[TopicIncarnation],
    patterns: GroupPatterns,
    *,
    seq: int,
) -> Iterator[GoneGroup]:
    """The groups that are gone from existing topics. Groups missing first since commit `seq` come before the rest."""
    present = {name: {incarnation_of(topic) for topic in group.topics} for name, group in groups.items()}
    for name in patterns.select(former.groups):
        for topic in former.groups[name].topics:
            incarnation = incarnation_of(topic)
            if incarnation in alive and incarnation not in present.get(name, ()):
                yield GoneGroup(group=name, topic=topic.topic, topic_id=topic.topic_id, since=seq)
    for gone_group in former.gone:
        if gone_group.incarnation in alive and gone_group.incarnation not in present.get(gone_group.group, ()):
            yield gone_group
