"""The plan of commits that let groups continue where they were, made before any commit. Pure.

The target's own commits are part of the plan: equal commits are left alone, and replaced commits are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from offsite.groups.missing_records import RefusedOffset
from offsite.groups.translation import (
    ABOVE,
    BEHIND,
    CLAMPED,
    MATCHES,
    MISSING,
    NO_POSITION,
    REFUSED,
    TranslatedOffsets,
    Translation,
)
from offsite.log.group_offsets import (
    NO_EPOCH,
    NO_OFFSET,
    SHARE,
    CommittedOffset,
    GroupOffsets,
    GroupOnTopic,
    GroupTable,
    TopicOffsets,
    TopicOffsetsBuilder,
)
from offsite.model.names import named

_NAMED_MAX = 12
"""Partitions named in one sentence."""
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
    the present commits in the changed partitions, with offset -1 for none; all positions of a share group if one of
    them has to be removed, because its positions on a topic are only removed together."""

    translated: TranslatedOffsets
    current: TopicOffsets
    changes: TopicOffsets
    before: TopicOffsets

    @property
    def is_untold(self) -> bool:
        """Whether an undo would remove a position that brokers could not read: they told a partition without one."""
        return NO_OFFSET in self.before.offsets and NO_OFFSET in self.current.offsets

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
class SharePositions:
    """Share group `group` delivers again what was in flight or done from its `positions` on in
    partitions of `topic` (target name). It has no position in the partitions of `without`: where it begins there is for
    the setting `share.auto.offset.reset` of the target, by default at the end. `reset`: the source's setting."""

    group: str
    topic: str
    positions: Mapping[int, int]
    without: tuple[int, ...] = ()
    reset: str = ""

    def again(self) -> str:
        """What the group delivers again, in words; empty where it has no position at all."""
        starts = [f"{self.topic}/{partition} from {position:,} on" for partition, position in self.positions.items()]
        what = "what was in flight, done out of order, or done last"
        return f"{self.group}: {what}: {named(starts, most=_NAMED_MAX, of='partitions')}" if starts else ""

    def beginning(self) -> str:
        """Where the group begins without a position, in words; empty where it has all."""
        lacking = [f"{self.topic}/{partition}" for partition in self.without]
        source = f" (at the source: {self.reset})" if self.reset else ""
        if not lacking:
            return ""
        return (
            f"{self.group} in {named(lacking, most=_NAMED_MAX, of='partitions')}: it begins there where "
            f"share.auto.offset.reset of the group says{source}, by default at the end, and then earlier records are "
            "never delivered to it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """Group `group` had read to `offset` of a partition of the source, and the log of `partition` of `topic` (target
    name) ends at `end`: the group reads what comes after `end` again."""

    group: str
    topic: str
    partition: int
    offset: int
    end: int

    def __str__(self) -> str:
        where = f"{self.topic}/{self.partition}"
        return f"{self.group}: {where} from {self.end:,} on: it had read to {self.offset:,}, but the log ends earlier"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group. `kind` and `reset` are the source's, `state` the target's."""

    group: str
    kind: str
    state: str
    topics: tuple[TopicMove, ...]
    reset: str = ""

    @property
    def is_active(self) -> bool:
        """Whether the group has members on the target: its coordinator will refuse a change."""
        return self.state not in IDLE_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Numbers of committed offsets in a plan: all, already set, to set, clamped to the restored log, without a
    partition on the target, refused, those that continue behind records that the source had deleted unread, and
    partitions of share groups without a position."""

    offsets: int
    unchanged: int
    to_set: int
    clamped: int
    missing: int
    refused: int = 0
    behind: int = 0
    without_position: int = 0


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

    def counts(self, *, left_out: Collection[str] = ()) -> GroupCounts:
        """The numbers of all groups, except groups `left_out`."""
        topics = [topic for move in self.groups if move.group not in left_out for topic in move.topics]
        offsets = sum(len(topic.translated.source) for topic in topics)
        to_set = sum(len(topic.changes) for topic in topics)
        missing, refused, behind, without = (
            sum(topic.translated.matches.count(code) for topic in topics)
            for code in (MISSING, REFUSED, BEHIND, NO_POSITION)
        )
        return GroupCounts(
            offsets=offsets,
            unchanged=offsets - missing - refused - without - to_set,
            to_set=to_set,
            clamped=sum(topic.translated.matches.count(code) for topic in topics for code in CLAMPED),
            missing=missing,
            refused=refused,
            behind=behind,
            without_position=without,
        )

    def kinds(self) -> Mapping[str, str]:
        """The kind of every group."""
        return {move.group: move.kind for move in self.groups}

    def share_positions(self, *, left_out: Collection[str] = ()) -> tuple[SharePositions, ...]:
        """The positions of the share groups that will be set, or are set already, except groups `left_out`."""
        moves = (move for move in self._set(left_out) if move.kind == SHARE)
        return tuple(_share_positions(move, topic.translated) for move in moves for topic in move.topics)

    def untold(self, *, left_out: Collection[str] = ()) -> tuple[GroupOnTopic, ...]:
        """The share groups and topics (target names) that change, and had a partition without a position, as far as
        brokers told, except groups `left_out`."""
        moves = ((move.group, topic) for move in self._set(left_out) for topic in move.topics)
        return tuple(
            GroupOnTopic(group=group, topic=topic.translated.target) for group, topic in moves if topic.is_untold
        )

    def reads_again(self, *, left_out: Collection[str] = ()) -> tuple[ReadAgain, ...]:
        """What groups had read beyond the ends of the target's logs, except groups `left_out`."""
        return tuple(
            again for move in self._set(left_out) for topic in move.topics for again in _reads_again(move, topic)
        )

    def _set(self, left_out: Collection[str]) -> Iterator[GroupMove]:
        refused = {*left_out, *(refused_offset.group for refused_offset in self.refused)}
        return (move for move in self.groups if move.group not in refused)


def plan_groups(groups: GroupTable, translation: Translation, current: GroupTable) -> GroupPlan:
    """The plan for `groups` with new offsets by `translation`; `current`: the target's groups now."""
    moved = translation.moved
    moves = tuple(_group(groups[name], moved[name], current.get(name)) for name in sorted(moved))
    return GroupPlan(groups=moves, absent_topics=translation.absent, refused=translation.refused)


def _group(group: GroupOffsets, moved: Sequence[TranslatedOffsets], current: GroupOffsets | None) -> GroupMove:
    by_topic = {topic.topic: topic for topic in current.topics} if current is not None else {}
    topics = (
        _topic(
            translated,
            by_topic.get(translated.target) or TopicOffsets.of(translated.target, ()),
            together=group.kind == SHARE,
        )
        for translated in moved
    )
    return GroupMove(
        group=group.group,
        kind=group.kind,
        state=current.state if current is not None else "",
        topics=tuple(topics),
        reset=group.reset,
    )


def _topic(translated: TranslatedOffsets, current: TopicOffsets, *, together: bool) -> TopicMove:
    """The rows with another offset or metadata now. Leader epochs are kept when read, and never sent. `together`: the
    offsets on a topic are only removed together, so an undo needs all of them."""
    changes, before = TopicOffsetsBuilder(translated.target), TopicOffsetsBuilder(translated.target)
    by_partition = {row.partition: row for row in current}
    for row, new in zip(translated.source, translated.offsets, strict=True):
        now = by_partition.get(row.partition)
        if new == NO_OFFSET or (now is not None and (now.offset, now.metadata) == (new, row.metadata)):
            continue
        changes.add(row.partition, new, NO_EPOCH, row.metadata)
        before.add(*(now or CommittedOffset(row.partition, NO_OFFSET)))
    changed = changes.build()
    going, earlier = set(changed.partitions), before.build()
    if together and NO_OFFSET in earlier.offsets:
        others = [row for row in current if row.partition not in going]
        earlier = TopicOffsets.of(translated.target, [*earlier, *others])
    return TopicMove(translated=translated, current=current, changes=changed, before=earlier)


def _share_positions(move: GroupMove, translated: TranslatedOffsets) -> SharePositions:
    rows = list(zip(translated.source.partitions, translated.offsets, translated.matches, strict=True))
    return SharePositions(
        group=move.group,
        topic=translated.target,
        positions={partition: new for partition, new, _ in rows if new != NO_OFFSET},
        without=tuple(partition for partition, _, match in rows if match in {NO_POSITION, MISSING}),
        reset=move.reset,
    )


def _reads_again(move: GroupMove, topic: TopicMove) -> Iterator[ReadAgain]:
    moved = topic.translated
    for row, new, match in zip(moved.source, moved.offsets, moved.matches, strict=True):
        if match == ABOVE:
            yield ReadAgain(group=move.group, topic=moved.target, partition=row.partition, offset=row.offset, end=new)


def _table(topics: Iterable[tuple[GroupMove, list[TopicOffsets]]]) -> GroupTable:
    groups = {
        move.group: GroupOffsets(group=move.group, kind=move.kind, state=move.state, topics=tuple(filter(len, offsets)))
        for move, offsets in topics
    }
    return {name: group for name, group in groups.items() if group.topics}
