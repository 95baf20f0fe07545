"""Groups as of any moment, from the backed up `__consumer_offsets` (`backup run --group-history`).

Includes groups that were deleted since. Reads the whole topic, one partition after another: memory holds the live
commits of one partition and the columns of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from offsite.log.group_fold import GroupFold
from offsite.log.group_offsets import GroupOffsets, GroupTable, restrict_to_topics
from offsite.log.range import PartitionId
from offsite.model.errors import BackupExists, IncarnationUnclear
from offsite.points.incarnations import (
    IncarnationCriteria,
    emptied_incarnations,
    find_incarnations,
    topics_with_several_incarnations,
)
from offsite.repository.backup import Backup
from offsite.repository.descriptor import BackupDescriptor
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.state import BackupState

GROUP_TOPIC = "__consumer_offsets"
_OPTION, _ON = "group_history", "on"


def decide_history(*, requested: bool, descriptor: BackupDescriptor | None) -> bool:
    """Whether the backup holds the history of groups: the first run decides. Raises `BackupExists`."""
    if descriptor is None:
        return requested
    first = dict(descriptor.options).get(_OPTION) == _ON
    if requested and not first:
        raise BackupExists(
            f"backup {descriptor.name} exists without the history of groups",
            hint="omit --group-history to continue this backup, or choose another name with --backup",
        )
    return first


def history_options(*, enabled: bool) -> tuple[tuple[str, str], ...]:
    """The options recorded in the backup's descriptor."""
    return ((_OPTION, _ON),) if enabled else ()


def with_history(names: Iterable[str], *, enabled: bool, existing: Iterable[str]) -> tuple[str, ...]:
    """`names` and the topic of consumer groups, sorted. A cluster without groups does not have the topic yet."""
    return tuple(sorted({*names, *({GROUP_TOPIC} & set(existing) if enabled else ())}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """Groups on the topics of the backup. `unclear` are topics created again about the requested time, left out: nobody
    can tell the incarnation of their offsets."""

    groups: GroupTable
    unclear: tuple[str, ...] = ()


def has_history(point: BackupState) -> bool:
    return any(
        position.end > 0 for partition_id, position in point.positions.items() if partition_id.topic == GROUP_TOPIC
    )


def read_history(
    backup: Backup, point: BackupState, *, until_ms: int | None = None, head: BackupState | None = None
) -> GroupHistory:
    """The offsets that groups had committed at restore point `point`, or at `until_ms` before (by the brokers' clocks).
    `head`: the newest state, `point` by default.

    Raises `DamagedObject`, and the errors of the store.
    """
    groups: dict[str, GroupOffsets] = {}
    for fold in _folds(backup, point, until_ms):
        groups |= fold.table()
    topic_ids = {
        incarnation.topic: incarnation.topic_id for incarnation in point.topics
    }  # the latest incarnation comes last
    unclear = []
    for topic in topics_with_several_incarnations(point, topic_ids) if until_ms is not None else ():
        try:
            criteria = IncarnationCriteria(until_ms=until_ms, emptied=emptied_incarnations(point, head or point))
            incarnations = find_incarnations(backup, point, [topic], criteria)
            topic_ids[topic] = next(incarnation.topic_id for incarnation in incarnations if incarnation.taken)
        except IncarnationUnclear:
            unclear.append(topic)
            del topic_ids[topic]
    return GroupHistory(groups=restrict_to_topics(groups, topic_ids), unclear=tuple(sorted(unclear)))


def _folds(backup: Backup, point: BackupState, until_ms: int | None) -> Iterator[GroupFold]:
    for shape in (shape for shape in point.topics.values() if shape.topic == GROUP_TOPIC):
        for partition in shape.partition_ids:
            yield _fold(backup, point, partition, until_ms)


def _fold(backup: Backup, point: BackupState, partition: PartitionId, until_ms: int | None) -> GroupFold:
    fold = GroupFold(until_ms=until_ms)
    position = point.positions.get(partition)
    for segment in point.segments.get(partition, ()) if position else ():
        for chunk in SegmentReader(store=backup.store, segment=segment).chunks(end=position.end if position else None):
            fold.feed(chunk.data, chunk.batches)
    return fold
