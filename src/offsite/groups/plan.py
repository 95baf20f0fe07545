"""The plan of commits that let groups continue where they were, made before any commit. Pure.

The target's own commits are part of the plan: equal commits are left alone, and replaced commits are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from offsite.groups.missing_records import RefusedOffset
from offsite.groups.translation import (
    BEHIND,
    CLAMPED,
    MATCHES,
    MISSING,
    NO_OFFSET,
    REFUSED,
    TranslatedOffsets,
    Translation,
)
from offsite.log.group_offsets import (
    NO_EPOCH,
    CommittedOffset,
    GroupOffsets,
    GroupTable,
    TopicOffsets,
    TopicOffsetsBuilder,
)

IDLE_STATES = frozenset({"", "Empty", "Dead"})
"""States of groups without members; empty for a group unknown to the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """One offset of a plan. `current` -1: the group has none now. `new` -1: the offset will not be set. `how`: one of
    `translation.MATCHES`."""

    topic: str
    target: str
    partition: int
    source: int
    current: int
    new: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMove:
    """One group on one topic. `current`: the group's commits on the target; `changes`: the offsets to commit; `before`:
    the present commits in the changed partitions, with offset -1 for none."""

    translated: TranslatedOffsets
    current: TopicOffsets
    changes: TopicOffsets
    before: TopicOffsets

    def rows(self) -> Iterator[PlannedOffset]:
        current, moved = self.current.by_partition(), self.translated
        for row, new, match in zip(moved.source, moved.offsets, moved.matches, strict=True):
            now = current.get(row.partition, NO_OFFSET)
            yield PlannedOffset(
                topic=moved.source.topic,
                target=moved.target,
                partition=row.partition,
                source=row.offset,
                current=now,
                new=new,
                how=MATCHES[match],
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group. `kind` is the source's, `state` the target's."""

    group: str
    kind: str
    state: str
    topics: tuple[TopicMove, ...]

    @property
    def is_active(self) -> bool:
        """Whether the group has members on the target: its coordinator will refuse a change."""
        return self.state not in IDLE_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Numbers of committed offsets in a plan: all, already set, to set, clamped to the restored log, without a
    partition on the target, refused, and those that continue behind records that the source had deleted unread."""

    offsets: int
    unchanged: int
    to_set: int
    clamped: int
    missing: int
    refused: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """A decided change of groups. `absent_topics` are topics of the groups that the target lacks. `refused`: the
    offsets that will not be set, with reasons."""

    groups: tuple[GroupMove, ...]
    absent_topics: tuple[str, ...]
    refused: tuple[RefusedOffset, ...] = ()

    def changes(self) -> GroupTable:
        """The offsets to commit, by group."""
        return _table((group, [topic.changes for topic in group.topics]) for group in self.groups)

    def before(self) -> GroupTable:
        """The present commits that are going to change."""
        return _table((group, [topic.before for topic in group.topics]) for group in self.groups)

    def counts(self) -> GroupCounts:
        topics = [topic for group in self.groups for topic in group.topics]
        offsets = sum(len(topic.translated.source) for topic in topics)
        to_set = sum(len(topic.changes) for topic in topics)
        missing, refused, behind = (
            sum(topic.translated.matches.count(code) for topic in topics) for code in (MISSING, REFUSED, BEHIND)
        )
        return GroupCounts(
            offsets=offsets,
            unchanged=offsets - missing - refused - to_set,
            to_set=to_set,
            clamped=sum(topic.translated.matches.count(code) for topic in topics for code in CLAMPED),
            missing=missing,
            refused=refused,
            behind=behind,
        )


def plan_groups(groups: GroupTable, translation: Translation, current: GroupTable) -> GroupPlan:
    """The plan for `groups` with new offsets by `translation`; `current`: the target's groups now."""
    moved = translation.moved
    moves = tuple(_group(groups[name], moved[name], current.get(name)) for name in sorted(moved))
    return GroupPlan(groups=moves, absent_topics=translation.absent, refused=translation.refused)


def _group(group: GroupOffsets, moved: Sequence[TranslatedOffsets], current: GroupOffsets | None) -> GroupMove:
    by_topic = {topic.topic: topic for topic in current.topics} if current is not None else {}
    topics = (
        _topic(translated, by_topic.get(translated.target) or TopicOffsets.of(translated.target, ()))
        for translated in moved
    )
    return GroupMove(
        group=group.group, kind=group.kind, state=current.state if current is not None else "", topics=tuple(topics)
    )


def _topic(translated: TranslatedOffsets, current: TopicOffsets) -> TopicMove:
    """The rows with another offset or metadata now. Leader epochs are kept when read, and never sent."""
    changes, before = TopicOffsetsBuilder(translated.target), TopicOffsetsBuilder(translated.target)
    by_partition = {row.partition: row for row in current}
    for row, new in zip(translated.source, translated.offsets, strict=True):
        now = by_partition.get(row.partition)
        if new == NO_OFFSET or (now is not None and (now.offset, now.metadata) == (new, row.metadata)):
            continue
        changes.add(row.partition, new, NO_EPOCH, row.metadata)
        before.add(*(now or CommittedOffset(row.partition, NO_OFFSET)))
    return TopicMove(translated=translated, current=current, changes=changes.build(), before=before.build())


def _table(topics: Iterable[tuple[GroupMove, list[TopicOffsets]]]) -> GroupTable:
    groups = {
        move.group: GroupOffsets(group=move.group, kind=move.kind, state=move.state, topics=tuple(filter(len, offsets)))
        for move, offsets in topics
    }
    return {name: group for name, group in groups.items() if group.topics}
