"""The plan of what has to be committed so that groups go on where they were, made before anything is committed. Pure.

The target's own commits are part of it: what is already set is left alone, and what will be replaced is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsite.log.groups.offsets import (
    NO_EPOCH,
    CommittedOffset,
    GroupOffsets,
    GroupTable,
    TopicOffsets,
    TopicOffsetsBuilder,
)
from offsite.services.groups.missing_records import RefusedOffset
from offsite.services.groups.translation import BEHIND, CLAMPED, MATCHES, MISSING, NO_OFFSET, REFUSED, Translated

IDLE_STATES = frozenset({"", "Empty", "Dead"})
"""States of groups without members; empty for a group that the target does not know."""


class OffsetMove(NamedTuple):
    """One row: the source's offset, the target's now (-1: none), and what it is going to be (-1: it cannot be)."""

    partition: int
    source: int
    current: int
    new: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMove:
    """One group on one topic. `current` is what it has committed there on the target; `changes` is what to commit,
    `before` what is committed in these partitions now, with offset -1 where nothing is."""

    translated: Translated
    current: TopicOffsets
    changes: TopicOffsets
    before: TopicOffsets

    def rows(self) -> Iterator[OffsetMove]:
        current, moved = self.current.by_partition(), self.translated
        for row, new, match in zip(moved.source, moved.offsets, moved.matches, strict=True):
            now = current.get(row.partition, NO_OFFSET)
            yield OffsetMove(row.partition, row.offset, now, new, MATCHES[match])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group. `kind` is the source's, `state` the target's."""

    group: str
    kind: str
    state: str
    topics: tuple[TopicMove, ...]

    @property
    def is_active(self) -> bool:
        """Whether the group has members on the target: its coordinator will refuse to change it."""
        return self.state not in IDLE_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Numbers of committed offsets in a plan: of all, of those that are already set, that will be set, that were
    clamped to the restored log, that have no partition on the target, that are refused, and that go on behind what
    their source had deleted unread."""

    offsets: int
    unchanged: int
    to_set: int
    clamped: int
    missing: int
    refused: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """A decided change of groups. `absent_topics` are topics of the groups that the target does not have. `notes` say
    what else is to be known. `refused`: the offsets that will not be set, and why."""

    groups: tuple[GroupMove, ...]
    absent_topics: tuple[str, ...]
    notes: tuple[str, ...] = ()
    refused: tuple[RefusedOffset, ...] = ()

    def changes(self) -> GroupTable:
        """The offsets to commit, group by group."""
        return _table((each, [topic.changes for topic in each.topics]) for each in self.groups)

    def before(self) -> GroupTable:
        """The offsets that are committed now where something is going to be committed."""
        return _table((each, [topic.before for topic in each.topics]) for each in self.groups)

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


def plan_groups(  # noqa: PLR0913  # all by keyword but the groups, then and now
    groups: GroupTable,
    moved: Mapping[str, Sequence[Translated]],
    current: GroupTable,
    *,
    absent_topics: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    refused: tuple[RefusedOffset, ...] = (),
) -> GroupPlan:
    """The plan for `groups`. `moved`: the offsets of `groups` as they are to be; `current`: the target's groups as they
    are."""
    moves = (_group(groups[name], moved[name], current.get(name)) for name in sorted(moved))
    return GroupPlan(groups=tuple(moves), absent_topics=absent_topics, notes=notes, refused=refused)


def _group(group: GroupOffsets, moved: Sequence[Translated], current: GroupOffsets | None) -> GroupMove:
    known = {topic.topic: topic for topic in current.topics} if current is not None else {}
    topics = (_topic(each, known.get(each.target) or TopicOffsets.of(each.target, ())) for each in moved)
    return GroupMove(
        group=group.group, kind=group.kind, state=current.state if current is not None else "", topics=tuple(topics)
    )


def _topic(translated: Translated, current: TopicOffsets) -> TopicMove:
    """What differs: rows whose offset or metadata is another one now. Leader epochs are kept where read, never sent."""
    changes, before = TopicOffsetsBuilder(translated.target), TopicOffsetsBuilder(translated.target)
    known = {row.partition: row for row in current}
    for row, new in zip(translated.source, translated.offsets, strict=True):
        now = known.get(row.partition)
        if new == NO_OFFSET or (now is not None and (now.offset, now.metadata) == (new, row.metadata)):
            continue
        changes.add(row.partition, new, NO_EPOCH, row.metadata)
        before.add(*(now or CommittedOffset(row.partition, NO_OFFSET)))
    return TopicMove(translated=translated, current=current, changes=changes.build(), before=before.build())


def _table(topics: Iterable[tuple[GroupMove, list[TopicOffsets]]]) -> GroupTable:
    found = {
        move.group: GroupOffsets(group=move.group, kind=move.kind, state=move.state, topics=tuple(filter(len, each)))
        for move, each in topics
    }
    return {name: group for name, group in found.items() if group.topics}
