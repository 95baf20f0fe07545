"""Compares deletions at the source with the committed offsets of groups (rule C6). Pure.

Kafka Streams deletes records of a repartition topic after reading and committing them (DeleteRecords). A backup reads
group offsets first and copies records later: the next records behind a backed-up offset may be gone, and a group
continuing at the offset has lost them. A cut is therefore only usable where the backup holds everything from every
group's offset on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from offsite.cut.group_offsets import GroupKey
from offsite.cut.readings import CutEvidence
from offsite.cut.window import REMOVED
from offsite.log.group_offsets import GroupTable
from offsite.log.range import PartitionId
from offsite.model.cleanup_policy import UNLIMITED, Retention
from offsite.model.names import named
from offsite.model.selection import TopicSelection
from offsite.repository.commit import CONSUMED, DECLARED, RecordedHole, TopicShape
from offsite.repository.snapshots.commit_cut import CommitCut, CutGroup

_NAMED_MAX = 3
BEHIND_MAX = 10_000
"""At most so many groups are named as behind in a stored cut: a cut is small. A restore refuses the rest by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedBelow:
    """The backup lacks records of a partition below offset `end`. `log_start`: the start of the log, as its leader told
    before the ends were read for the first time.

    A group may also lie below records deleted for good at the source, such as a group that nobody has run for weeks.
    The backup loses nothing, because the source had nothing more for the group. The case is proven only for a group
    without any commit until the last reading, in a log that began behind the group's offset before the first reading.
    """

    end: int
    log_start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadDeletion:
    """Group `group` has committed `offset` of `partition`, and the backup lacks records from `offset` to `end`.
    `at_source`: the source had lost them before the group could read them."""

    group: str
    partition: PartitionId
    offset: int
    end: int
    at_source: bool

    def __str__(self) -> str:
        return (
            f"group {self.group} had read {self.partition} up to offset {self.offset}, but records up to {self.end} "
            "were deleted"
        )


def offsets_of_cut(
    groups: GroupTable, entries: Iterable[CutGroup], partitions: Collection[PartitionId]
) -> dict[GroupKey, int]:
    """The offset of every group in `partitions` as of a cut: the offsets in `groups`, overridden by the entries of the
    cut."""
    topics = {(partition.topic, partition.topic_id) for partition in partitions}
    offsets = {
        (group.group, PartitionId(topic.topic, topic.topic_id, partition)): offset
        for group in groups.values()
        for topic in group.topics
        if (topic.topic, topic.topic_id) in topics
        for partition, offset in topic.by_partition().items()
    }
    offsets |= {(entry.group, entry.partition_id): entry.offset for entry in entries}
    return {key: offset for key, offset in offsets.items() if offset != REMOVED and key[1] in partitions}


def unread_deletions(
    offsets: Mapping[GroupKey, int],
    evidence: CutEvidence,
    deleted: Mapping[PartitionId, DeletedBelow],
    *,
    selected: Collection[str],
) -> Iterator[UnreadDeletion]:
    """Find the groups that a cut with these `offsets` sets below records missing in the backup. A group of `selected`
    that had committed by the last reading but has no offset as of the cut has read nothing as of the cut."""
    newest = _newest_commits(evidence)
    unread_groups = {key: 0 for key, offset in newest.items() if offset != REMOVED and key[0] in selected}
    for (group, partition), offset in sorted((unread_groups | dict(offsets)).items()):
        if (below := deleted.get(partition)) is not None and offset < below.end:
            has_rested = newest.get((group, partition), offset) == offset
            yield UnreadDeletion(
                group=group,
                partition=partition,
                offset=offset,
                end=below.end,
                at_source=has_rested and below.end <= below.log_start,
            )


def judge_by_deletions(cut: CommitCut, unread: Sequence[UnreadDeletion]) -> CommitCut:
    """Add to `cut` the groups that the source itself had left behind. The cut is refused where the backup would leave a
    group behind."""
    lost = [deletion for deletion in unread if not deletion.at_source]
    rested = (deletion for deletion in unread if deletion.at_source)
    behind = tuple(
        CutGroup(group=deletion.group, partition_id=deletion.partition, offset=deletion.offset)
        for deletion in islice(rested, BEHIND_MAX)
    )
    why = f"C6: {named([str(deletion) for deletion in lost], most=_NAMED_MAX)} before the copy" if lost else ""
    return replace(cut, behind=behind, refused="; ".join(filter(None, (cut.refused, why))))


def deletes_on_request_alone(shape: TopicShape) -> bool:
    """Whether only requests delete records of the topic, as in repartition topics of Kafka Streams. In any other topic,
    records deleted by retention are a loss to the backup, whoever had read them."""
    rules = Retention.of(dict(shape.configs))
    by_size = rules.retention_bytes in {None, UNLIMITED}
    return rules.cleanup_policy == "delete" and rules.retention_ms == UNLIMITED and by_size and not shape.was_compacted


def explain_consumed(
    holes: Iterable[RecordedHole], offsets: Mapping[GroupKey, int], topics: Iterable[TopicShape]
) -> dict[RecordedHole, RecordedHole]:
    """Of `holes`, find holes that are no loss because readers had consumed the records: only requests delete in their
    topic, every group on the partition has committed beyond the hole, and at least one group exists. Maps a hole to its
    recorded form."""
    emptied = {shape.incarnation for shape in topics if deletes_on_request_alone(shape)}
    lowest: dict[PartitionId, int] = {}
    for (_, partition), offset in offsets.items():
        lowest[partition] = min(offset, lowest.get(partition, offset))
    return {
        hole: replace(hole, reason=CONSUMED)
        for hole in holes
        if hole.is_loss and hole.partition_id.incarnation in emptied and lowest.get(hole.partition_id, 0) >= hole.end
    }


def explain_declared(holes: Iterable[RecordedHole], topics: TopicSelection) -> dict[RecordedHole, RecordedHole]:
    """Of `holes`, find holes in topics that are emptied on purpose. Maps a hole to its recorded form."""
    chosen = set(topics.select({hole.partition_id.topic for hole in holes}))
    return {
        hole: replace(hole, reason=DECLARED) for hole in holes if hole.is_loss and hole.partition_id.topic in chosen
    }


def _newest_commits(evidence: CutEvidence) -> dict[GroupKey, int]:
    """The last committed offset of every group until the last reading, committed or aborted."""
    newest: dict[GroupKey, int] = {}
    for logged in sorted(evidence.commits, key=lambda logged: logged.commit.position):
        newest[logged.commit.group, logged.commit.partition] = logged.commit.offset
    return newest
