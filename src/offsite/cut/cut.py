"""A cut: the ends that belong together, the transactions that the cut leaves out, matching group offsets, and the
reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from offsite.cut.effect import EffectLine, Source
from offsite.cut.window import Ends, ParticipantRecord, StampedRecord, SupersededRecord, TransactionSpan
from offsite.log.range import PartitionId


class TopicClass(Enum):
    """How far a cut can be trusted for a topic. The first three classes are exact. Nobody wrote to an `UNCHANGED` topic
    while the ends were read."""

    UNCHANGED = "unchanged"
    TRANSACTIONAL = "transactional"
    PARTICIPANT = "participant"
    TIME_FENCED = "time-fenced"
    UNCOORDINATED = "uncoordinated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutSpan:
    """A transaction, or several of a producer in a span, that a restore of the cut treats as aborted.

    The reason: line `short` would have had to reach at least the level `needed`. `needed` is `effect.UNSEEN` for an
    unseen marker; `short` is None where nobody knows how the transaction ended. `cause`: what lowered the line; None:
    the line is an end that was read too early.
    """

    span: TransactionSpan
    short: EffectLine | None
    needed: int
    cause: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A step back of `partition` from end `before` to end `after`, because `record` at that offset could not be kept
    (C3, C7). `short`, `needed` and `cause` give the reason, as in `LeftOutSpan`; a stamped record needs no other
    reason."""

    partition: PartitionId
    before: int
    after: int
    record: ParticipantRecord | StampedRecord | SupersededRecord
    short: EffectLine | None
    needed: int
    cause: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """The offset that `group` must have for `partition` after a restore of the cut. `committed`: what the group
    committed itself; higher than `offset` where a plain group was clamped. `metadata`: the text of that commit; empty
    where the group was clamped, because the text may describe skipped records."""

    group: str
    partition: PartitionId
    offset: int
    committed: int
    metadata: str = ""

    @property
    def is_clamped(self) -> bool:
        return self.offset < self.committed


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRefusal:
    """Why a cut must not be used. Rule C5: the position that `participant` declares is not the cut's end. Rule C6: the
    backup does not hold or know everything from `offset` to the cut's `end`; or the transaction of `participant` would
    have to be left out, and its beginning before `offset` is unknown. Rule C2: the exactly-once group `participant` has
    read records outside of the cut, in a transaction older than the window.

    `end` of C2 and C5: how far the cut can be read without missing a left-out record. None: the partition was not read.
    """

    rule: Literal["C2", "C5", "C6"]
    partition: PartitionId
    offset: int
    end: int | None
    participant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The greatest consistent cut at or below `copied`, the ends as read.

    The cut keeps everything below `ends` except the transactions in `left_out`, undecided transactions included.
    `holds`: every step back of an end. Both are in the order of the search. `outside`: unread partitions named by
    transactions or participants; a cut says nothing about them. A cut with `refusals` must not be restored.
    """

    copied: Ends
    ends: Ends
    groups: tuple[GroupOffset, ...]
    classes: Mapping[str, TopicClass]
    left_out: tuple[LeftOutSpan, ...] = ()
    holds: tuple[Hold, ...] = ()
    refusals: tuple[CutRefusal, ...] = ()
    outside: frozenset[PartitionId] = frozenset()

    def floors(self) -> dict[PartitionId, int]:
        """The first left-out record of every partition with a left-out record below its end. A reader beyond the floor
        has read or skipped records outside of the cut."""
        lowest: dict[PartitionId, int] = {}
        for left_out in self.left_out:
            for partition, written in left_out.span.written.items():
                if written.first < lowest.get(partition, self.ends.get(partition, 0)):
                    lowest[partition] = written.first
        return lowest

    def markers_left_out(self) -> dict[PartitionId, tuple[int, ...]]:
        """The commit markers below the end of every partition, rising, that a restore treats as abort markers. A
        left-out transaction without a marker below the end is undecided there, and needs none."""
        by_partition: defaultdict[PartitionId, list[int]] = defaultdict(list)
        for left_out in self.left_out:
            for partition, written in left_out.span.written.items():
                end = self.ends.get(partition, 0)
                by_partition[partition] += [marker for marker in written.commit_markers if marker < end]
        return {partition: tuple(sorted(markers)) for partition, markers in by_partition.items() if markers}
