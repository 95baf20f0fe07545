"""A cut: the ends that belong together, the group offsets that belong to them, and why they lie where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from offsite.cut.effect import Source
from offsite.cut.window import Ends, PartitionKey


class TopicClass(Enum):
    """How far a cut can be trusted for a topic. The first two are exact."""

    TRANSACTIONAL = "transactional"
    PARTICIPANT = "participant"
    TIME_FENCED = "time-fenced"
    UNCOORDINATED = "uncoordinated"


_STRENGTH = list(TopicClass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A step back of `partition` from end `before` to end `after`, because `source` could not be kept.

    It could not since `short` would have had to reach the end `needed` at least (`effect.UNSEEN` for a marker that
    was not seen); None: its outcome is not known.
    """

    partition: PartitionKey
    before: int
    after: int
    source: Source
    short: PartitionKey | None
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The offset that `group` has to have for `partition` after a restore of the cut. `committed` is what it committed
    itself: more than `offset` where a plain group was clamped."""

    group: str
    partition: PartitionKey
    offset: int
    committed: int

    @property
    def is_clamped(self) -> bool:
        return self.offset < self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a cut must not be used: rule C5, the position that `participant` declares is not the cut's end; rule C6,
    the backup does not hold everything, or does not know everything, from `offset` to the cut's `end`; or rule C2, the
    exactly-once group `participant` has read beyond `end`, and its commit is in a log that was not read."""

    rule: Literal["C2", "C5", "C6"]
    partition: PartitionKey
    offset: int
    end: int | None
    participant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The greatest consistent ends at or below `copied`, the ends that were read.

    `holds`: every step back, in the order taken. `outside`: partitions that transactions or participants name and that
    were not read; a cut says nothing about them. A cut with `refusals` must not be restored.
    """

    copied: Ends
    ends: Ends
    groups: tuple[GroupOffset, ...]
    classes: Mapping[str, TopicClass]
    holds: tuple[Hold, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    outside: frozenset[PartitionKey] = frozenset()

    def held_back(self) -> dict[PartitionKey, int]:
        """The number of offsets that each partition ends before what was read, of those where there are any."""
        gaps = {partition: copied - self.ends[partition] for partition, copied in self.copied.items()}
        return {partition: gap for partition, gap in gaps.items() if gap}

    def direct_causes(self) -> dict[PartitionKey, Hold]:
        """The hold that set the end of each partition that is held back."""
        return {hold.partition: hold for hold in self.holds}

    def chain(self, partition: PartitionKey) -> tuple[Hold, ...]:
        """The holds that led to a partition's end, its direct cause first: each one is short of a partition that the
        next one held back. The last one is short of what was read at all. Empty where nothing holds it back."""
        found: list[Hold] = []
        wanted, limit = partition, None
        for hold in reversed(self.holds):
            # Only holds before the last one found: the newest that began at the limit or above went below it.
            if hold.partition == wanted and (limit is None or hold.before >= limit):
                found.append(hold)
                if hold.short is None:
                    break
                wanted, limit = hold.short, hold.needed
        return tuple(found)

    def weakest(self, topics: Iterable[str]) -> TopicClass:
        """The class that an application over `topics` has: the weakest of theirs; a topic without a class counts as
        uncoordinated, and so does an application without topics."""
        classes = [self.classes.get(topic, TopicClass.UNCOORDINATED) for topic in topics]
        return max(classes, key=_STRENGTH.index, default=TopicClass.UNCOORDINATED)
