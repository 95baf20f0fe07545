"""What a backup is after a number of commits (see `fold`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from offsite.log.range import Span
from offsite.repository.branches import Branch, borders, segments_before
from offsite.repository.commit import (
    NO_PREVIOUS,
    Changes,
    Checkpoint,
    LeftBehind,
    PartitionId,
    PassProgress,
    Pin,
    Position,
    RecordedHole,
    SnapshotRef,
    TopicIncarnation,
    TopicShape,
)
from offsite.repository.expiry import Spans, beginning, spans_before
from offsite.repository.history import History
from offsite.repository.segments.segment import Segment, SegmentList

FIRST_SEQ = 1
CUTS_MAX = 16
"""Consistent cuts that a state remembers, the newest: whoever looks for one that may be used reads them one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCut:
    """A consistent cut, and the commits that have it: `first` to `last`, both inclusive. `completed_at_ms`: when the
    newest pass was completed that `last` knows of."""

    first: int
    last: int
    completed_at_ms: int
    ref: SnapshotRef


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupState:
    """A backup as of commit `seq` (0: before the first). `head_hash` is the hash of that commit's bytes.

    `topics` holds the latest shape of each incarnation, in order of first appearance. `segments` are live ones.
    `branches` are the old histories of logs that were cut back, in the order in which that was found: their segments
    are needed by the restore points before it, and are in no list of live ones.
    `left_behind` is what the run of commit `seq` could not back up; `incomplete`: that run was to go on, it had got as
    far as `progress` (None: not known). `completed_at_ms`: when the newest commit was made that completes a pass (as
    `committed_at_ms`; 0 where none is known). `groups` is the key of the latest group snapshot, `metadata` names the
    cluster's latest settings, `cut` the consistent cut of the positions (None: there is none). `expired` is what
    retention let go of the live histories, `compacted` what of them holds the latest records of keys only, both as
    rising spans with space between them, `compacted_until` the latest time of a record that these held before, per
    partition (epoch ms); `pins` are in order of their numbers. `history` lists the restore points up to `seq`.
    `configs_since`: the commit from which on, at the latest, each topic has the settings that it has in `topics`.
    `unreadable`: what is wrong with the commit after `seq`, which is there; empty where there is nothing wrong.
    `is_outdated`: that commit is of a newer format than this offsite reads.

    Not part of what a backup is: `cuts`, the newest cuts, ascending, also those that are none of the positions any more
    (states that an earlier version kept know `cut` alone); `loose_commits` and `loose_entries`, how much was committed
    since the newest catalog that a commit names; `is_own`: the run that holds the state made its newest commit;
    `accounted`: a commit said that it accounts for all that it moves positions past (see `Changes.accounted`), so every
    later one has to.
    """

    backup: str
    seq: int = FIRST_SEQ - 1
    head_hash: str = NO_PREVIOUS
    committed_at_ms: int = 0
    topics: Mapping[TopicIncarnation, TopicShape] = field(default_factory=dict)
    positions: Mapping[PartitionId, Position] = field(default_factory=dict)
    segments: Mapping[PartitionId, SegmentList] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    holes: tuple[RecordedHole, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    incomplete: bool = False
    progress: PassProgress | None = None
    completed_at_ms: int = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    expired: Mapping[PartitionId, Spans] = field(default_factory=dict)
    compacted: Mapping[PartitionId, Spans] = field(default_factory=dict)
    compacted_until: Mapping[PartitionId, int] = field(default_factory=dict)
    pins: tuple[Pin, ...] = ()
    groups: str | None = None
    metadata: SnapshotRef | None = None
    cut: SnapshotRef | None = None
    history: History = field(default_factory=History)
    unreadable: str = ""
    is_outdated: bool = False
    configs_since: Mapping[TopicIncarnation, int] = field(default_factory=dict, compare=False)
    cuts: tuple[KnownCut, ...] = field(default=(), compare=False)
    loose_commits: int = field(default=0, compare=False)
    loose_entries: int = field(default=0, compare=False)
    is_own: bool = field(default=False, compare=False)
    accounted: bool = field(default=False, compare=False)

    def incarnation(self, topic: str) -> TopicIncarnation | None:
        """The latest incarnation of `topic`."""
        return next((known for known in reversed(tuple(self.topics)) if known.topic == topic), None)

    def latest_shapes(self) -> dict[str, TopicShape]:
        """The shape of each topic's latest incarnation, by name: they are in order of first appearance."""
        return {incarnation.topic: shape for incarnation, shape in self.topics.items()}

    def alive(self) -> frozenset[TopicIncarnation]:
        """The incarnations that topics had then: the latest of each, unless it was known to be deleted."""
        return frozenset(shape.incarnation for shape in self.latest_shapes().values() if not shape.is_deleted)

    def all_segments(self) -> Iterator[Segment]:
        """Every live segment, partition by partition in sorted order, each in offset order."""
        for partition_id in sorted(self.segments):
            yield from self.segments[partition_id]

    def stored_segments(self) -> Iterator[Segment]:
        """Every segment whose object is needed, live or of a branch, once and whole: in the order of `all_segments`,
        then those that only branches have."""
        seen: set[str] = set()
        for segment in chain(self.all_segments(), *(branch.segments for branch in self.branches)):
            if segment.key not in seen:
                seen.add(segment.key)
                yield segment.as_written

    def reached(self, of: Iterable[PartitionId] | None = None) -> dict[PartitionId, int]:
        """How far each partition, or each of some that is known, is accounted for."""
        known = ((each, self.positions.get(each)) for each in (self.positions if of is None else of))
        return {each: reached(at, self.segments.get(each)) for each, at in known if at is not None}

    def held_range(self, partition_id: PartitionId) -> Span:
        """What is backed up of a partition, holes aside: from its first live segment to its position; nothing, where it
        ends, when it has none."""
        position = self.positions.get(partition_id)
        end = position.end if position else 0
        found = self.segments.get(partition_id)
        return min(found.start, end) if found else end, end

    def checkpoint(self, checkpoint_id: int) -> Checkpoint | None:
        return next((taken for taken in self.checkpoints if taken.id == checkpoint_id), None)

    def served_by(self, head: BackupState) -> BackupState:
        """This restore point with the segments that hold its data *now*: those of `head` below our positions.

        Later commits may have merged or removed segments; what is missing then shows as uncovered ranges. A segment may
        reach past a position: readers stop at the position. Where a log was cut back since, it is the old history. Of
        the restore points before it those are left that `head` still has.
        """
        begins = {partition_id: head.beginning_of(self, partition_id) for partition_id in self.positions}
        segments = {
            partition_id: SegmentList(
                segment
                for segment in head.segments_at(self.seq, partition_id)
                if begins[partition_id] <= segment.start < position.end
            )
            for partition_id, position in self.positions.items()
        }
        return replace(
            self,
            segments={known: found for known, found in segments.items() if found},
            holes=tuple(hole for hole in self.holes if hole.end > begins.get(hole.partition_id, 0)),
            compacted=head.compacted,
            compacted_until=head.compacted_until,
            history=head.history.upto(self.seq),
        )

    def as_point(self) -> BackupState:
        """The newest restore point without what is held for older ones alone, behind which retention let go of more."""
        lone = {
            known: SegmentList(segment for segment in found if segment.start >= spans[-1][1])
            for known, spans in self.expired.items()
            if (spans[0][0] or len(spans) > 1) and (found := self.segments.get(known))
        }
        if not lone:
            return self
        segments = {known: found for known, found in {**self.segments, **lone}.items() if found}
        return replace(
            self,
            segments=segments,
            holes=tuple(hole for hole in self.holes if hole.end > self.beginning_of(self, hole.partition_id)),
        )

    def beginning_of(self, point: BackupState, partition_id: PartitionId) -> int:
        """Where what this, the newest state, holds of a partition for `point` begins at the earliest: behind what
        retention let go of the history that the point knew. 0 where that is nothing."""
        position = point.positions.get(partition_id)
        return beginning(self.let_go_at(point.seq, partition_id), position.end) if position else 0

    def let_go_at(self, seq: int, partition_id: PartitionId) -> Spans:
        """What retention let go of a partition, in the history that commit `seq` knew."""
        spans, cut_since = self.expired.get(partition_id, ()), self._cut_since(seq, partition_id)
        return spans_before(spans, cut_since) if cut_since else spans

    def segments_at(self, seq: int, partition_id: PartitionId) -> SegmentList:
        """The segments of a partition, in the history that commit `seq` knew."""
        live, cut_since = self.segments.get(partition_id, SegmentList()), self._cut_since(seq, partition_id)
        return segments_before(live, cut_since) if cut_since else live

    def _cut_since(self, seq: int, partition_id: PartitionId) -> list[Branch]:
        return [each for each in self.branches if each.partition_id == partition_id and each.commit > seq]

    def carried_over(self, changes: Changes) -> Changes:
        """`changes` with what this, the state before them, says of the newest run: what a commit does not say of it, no
        reader knows any more."""
        return replace(changes, left_behind=self.left_behind, incomplete=self.incomplete, progress=self.progress)

    def borders(self, partition_id: PartitionId) -> frozenset[int]:
        """The offsets of a partition that no new segment may lie over, whatever it is merged of (see `Branch`)."""
        return borders(branch for branch in self.branches if branch.partition_id == partition_id)


def reached(position: Position, segments: SegmentList | None) -> int:
    """How far a partition is accounted for that has `segments`. Positions of earlier versions may lie inside the last
    batch."""
    last = segments.last if segments and not position.is_exact else None
    return position.end if last is None else max(position.end, last.last_offset + 1)


def segment_partition(segment: Segment) -> PartitionId:
    return PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
