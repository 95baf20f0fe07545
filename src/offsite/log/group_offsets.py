"""Committed offsets of consumer groups, in columns: a million offsets are flat arrays, not a million objects. Pure.

A committed offset is the next offset to read. -1 stands for an unknown leader epoch. The offset of a share group is its
position: from there on the group delivers again what was in flight, done out of order, or done last (KIP-932).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import lt
from typing import NamedTuple

from offsite.model.errors import check

NO_EPOCH = -1
NO_OFFSET = -1
"""No committed offset. A share group has the partition, and stored no position in it, or nobody could tell which."""
SHARE = "share"
"""The kind of a share group."""


class CommittedOffset(NamedTuple):
    """One row: the committed offset of a group for one partition. `metadata` is the client's own text."""

    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """The committed offsets of one group on one topic, by rising partition. `topic_id` is empty when unknown.

    Built by `TopicOffsetsBuilder` or `of`; all columns have the same length.
    """

    topic: str
    topic_id: str = ""
    partitions: array[int]
    offsets: array[int]
    leader_epochs: array[int]
    metadata: tuple[str, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.partitions), len(self.offsets), len(self.leader_epochs), len(self.metadata)}
        check(len(lengths) == 1, f"columns of the offsets on {self.topic}")

    @classmethod
    def of(cls, topic: str, rows: Iterable[CommittedOffset], *, topic_id: str = "") -> TopicOffsets:
        builder = TopicOffsetsBuilder(topic)
        for row in sorted(rows):
            builder.add(*row)
        return replace(builder.build(), topic_id=topic_id)

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[CommittedOffset]:
        columns = zip(self.partitions, self.offsets, self.leader_epochs, self.metadata, strict=True)
        return map(CommittedOffset._make, columns)

    def by_partition(self) -> dict[int, int]:
        """Partition → committed offset."""
        return dict(zip(self.partitions, self.offsets, strict=True))


class TopicOffsetsBuilder:
    """Collects the rows of one topic, in any order of partitions."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._partitions, self._offsets, self._epochs = array("i"), array("q"), array("i")
        self._metadata: list[str] = []

    def add(self, partition: int, offset: int, leader_epoch: int, metadata: str) -> None:
        self._partitions.append(partition)
        self._offsets.append(offset)
        self._epochs.append(leader_epoch)
        self._metadata.append(metadata)

    def build(self) -> TopicOffsets:
        """The columns. The builder must not be used again."""
        if not all(map(lt, self._partitions, self._partitions[1:])):
            self._sort()
        return TopicOffsets(
            topic=self.topic,
            partitions=self._partitions,
            offsets=self._offsets,
            leader_epochs=self._epochs,
            metadata=tuple(self._metadata),
        )

    def _sort(self) -> None:
        order = sorted(range(len(self._partitions)), key=self._partitions.__getitem__)
        self._partitions = array("i", map(self._partitions.__getitem__, order))
        self._offsets = array("q", map(self._offsets.__getitem__, order))
        self._epochs = array("i", map(self._epochs.__getitem__, order))
        self._metadata = [self._metadata[row] for row in order]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """One group. `kind`: classic, consumer, share, streams, or empty when unknown; `state` as named by the coordinator
    (Stable, Empty, …). `topics` are sorted by name, and every topic has offsets. `reset`: where a share group begins
    in a partition without a position, in the words of `share.auto.offset.reset`; empty when unknown."""

    group: str
    kind: str = ""
    state: str = ""
    topics: tuple[TopicOffsets, ...] = ()
    reset: str = ""

    def __len__(self) -> int:
        """The number of committed offsets."""
        return sum(map(len, self.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOnTopic:
    """A group, and one of its topics."""

    group: str
    topic: str


GroupTable = Mapping[str, GroupOffsets]
"""Groups by name."""


def offset_count(groups: GroupTable) -> int:
    return sum(map(len, groups.values()))


def restrict_to_topics(groups: GroupTable, topic_ids: Mapping[str, str]) -> dict[str, GroupOffsets]:
    """The offsets of `groups` on the topics of `topic_ids` (name → id), sorted by group name; the offsets get the id.
    Left out are groups without such an offset, and offsets on another topic of the same name."""
    restricted = {
        name: replace(groups[name], topics=_restrict(groups[name].topics, topic_ids)) for name in sorted(groups)
    }
    return {name: group for name, group in restricted.items() if group.topics}


def _restrict(topics: Iterable[TopicOffsets], topic_ids: Mapping[str, str]) -> tuple[TopicOffsets, ...]:
    with_ids = ((offsets, topic_ids[offsets.topic]) for offsets in topics if offsets.topic in topic_ids)
    return tuple(
        replace(offsets, topic_id=topic_id)
        for offsets, topic_id in with_ids
        if not offsets.topic_id or not topic_id or offsets.topic_id == topic_id
    )
