"""What a backup is after a number of commits: a pure fold over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from offsite.log.range import Span
from offsite.repository.branches import Branch, borders, cut_holes, cut_segments, segments_before
from offsite.repository.commit import (
    NO_PREVIOUS,
    Checkpoint,
    Commit,
    CutBack,
    LeftBehind,
    PartitionId,
    Position,
    RecordedHole,
    SnapshotRef,
    StoredCommit,
    TopicIncarnation,
    TopicShape,
)
from offsite.repository.commit_json import damaged_commit
from offsite.repository.history import History, HistoryBuilder
from offsite.repository.layout import parse_segment_key
from offsite.repository.segments.segment import Segment, SegmentList

FIRST_SEQ = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupState:
    """A backup as of commit `seq` (0: before the first). `head_hash` is the hash of that commit's bytes.

    `topics` holds the latest shape of each incarnation, in order of first appearance. `segments` are live ones.
    `branches` are the old histories of logs that were cut back, in the order in which that was found: their segments
    are needed by the restore points before it, and are in no list of live ones.
    `left_behind` is what the run of commit `seq` could not back up. `groups` is the key of the latest group snapshot,
    `metadata` names the cluster's latest settings. `history` lists the restore points up to `seq`. `unreadable`: what
    is wrong with the commit after `seq`, which is there; empty where there is nothing wrong.
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
    checkpoints: tuple[Checkpoint, ...] = ()
    groups: str | None = None
    metadata: SnapshotRef | None = None
    history: History = field(default_factory=History)
    unreadable: str = ""

    def incarnation(self, topic: str) -> TopicIncarnation | None:
        """The latest incarnation of `topic`."""
        return next((known for known in reversed(tuple(self.topics)) if known.topic == topic), None)

    def latest_shapes(self) -> dict[str, TopicShape]:
        """The shape of each topic's latest incarnation, by name: they are in order of first appearance."""
        return {incarnation.topic: shape for incarnation, shape in self.topics.items()}

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

    def reached(self) -> dict[PartitionId, int]:
        """How far each partition is accounted for. Positions of earlier versions may lie inside the last batch."""
        return {known: each.end if each.is_exact else self._reached(each) for known, each in self.positions.items()}

    def _reached(self, position: Position) -> int:
        found = self.segments.get(position.partition_id)
        last = found.last if found else None
        return position.end if last is None else max(position.end, last.last_offset + 1)

    def held_range(self, partition_id: PartitionId) -> Span:
        """What is backed up of a partition, holes aside: from its first live segment to its position; nothing, where it
        ends, when it has none."""
        position = self.positions.get(partition_id)
        end = position.end if position else 0
        start = next((segment.start for segment in self.segments.get(partition_id, ())), end)
        return min(start, end), end

    def checkpoint(self, checkpoint_id: int) -> Checkpoint | None:
        return next((taken for taken in self.checkpoints if taken.id == checkpoint_id), None)

    def served_by(self, head: BackupState) -> BackupState:
        """This restore point with the segments that hold its data *now*: those of `head` below our positions.

        Later commits may have merged or removed segments; what is missing then shows as uncovered ranges. A segment may
        reach past a position: readers stop at the position. Where a log was cut back since, it is the old history.
        """
        segments = {
            partition_id: SegmentList(s for s in head.segments_at(self.seq, partition_id) if s.start < position.end)
            for partition_id, position in self.positions.items()
        }
        return replace(self, segments={known: found for known, found in segments.items() if found})

    def segments_at(self, seq: int, partition_id: PartitionId) -> SegmentList:
        """The segments of a partition, in the history that commit `seq` knew."""
        cut_since = [each for each in self.branches if each.partition_id == partition_id and each.commit > seq]
        live = self.segments.get(partition_id, SegmentList())
        return segments_before(live, cut_since) if cut_since else live

    def borders(self, partition_id: PartitionId) -> frozenset[int]:
        """The offsets of a partition that no new segment may lie over, whatever it is merged of (see `Branch`)."""
        return borders(branch for branch in self.branches if branch.partition_id == partition_id)

    def cut_back(self, cuts: Iterable[CutBack]) -> BackupState:
        """This state as the histories that go on have it; the closed ones are left out. Raises `DamagedCommit`."""
        folding = Folding(self)
        for cut in cuts:
            folding.cut_back(cut)
        return replace(folding.state(), branches=self.branches)


def fold(state: BackupState, commits: Iterable[StoredCommit]) -> BackupState:
    """The state after `commits`, which follow `state` in order.

    Raises `DamagedCommit` when one does not follow: wrong number, wrong previous hash, time going back, a segment
    listed twice, over another one or without a position of its partition, a removed segment that is not there.
    """
    folding = Folding(state)
    for stored in commits:
        folding.apply(stored)
    return folding.state()


class Folding:
    """A fold's working copy: tables are copied once, not once a commit. After an error it is not to be used again."""

    def __init__(self, state: BackupState) -> None:
        self._state = state
        self._history = HistoryBuilder(state.history)
        self._topics = dict(state.topics)
        self._positions = dict(state.positions)
        self._segments = dict(state.segments)
        self._branches = list(state.branches)
        self._holes = list(state.holes)
        self._checkpoints = {taken.id: taken for taken in state.checkpoints}

    @property
    def head_hash(self) -> str:
        """What the next commit must name as the one before it."""
        return self._state.head_hash

    def apply(self, stored: StoredCommit) -> None:
        """Go on by one commit. Raises `DamagedCommit` when it does not follow."""
        commit, changes = stored.commit, stored.commit.changes
        self._check_follows(commit)
        for cut in changes.cut_back:
            self.cut_back(cut)
        self._topics.update({shape.incarnation: shape for shape in changes.topics})
        self._positions.update({position.partition_id: position for position in changes.positions})
        for key in changes.removed:
            self._remove(key, commit)
        for segment in changes.segments:
            self._add(segment, commit)
        self._holes.extend(changes.holes)
        if changes.checkpoint is not None:
            self._checkpoints[changes.checkpoint.id] = changes.checkpoint
        self._state = replace(
            self._state,
            seq=commit.seq,
            head_hash=stored.hash,
            committed_at_ms=commit.committed_at_ms,
            groups=changes.groups or self._state.groups,
            metadata=changes.metadata or self._state.metadata,
            left_behind=changes.left_behind,
        )
        self._history.append(commit)

    def cut_back(self, cut: CutBack) -> None:
        """Close the history of a partition that the next commit found to be cut back. Raises `DamagedCommit`."""
        known = cut.partition_id
        position = self._positions.get(known)
        if position is None or position.end != cut.end:
            raise damaged_commit(f"{known} did not reach to {cut.end} before it was cut back to {cut.at}")
        found = cut_segments(self._segments.get(known, SegmentList()), cut)
        self._segments[known] = found.kept
        self._holes = cut_holes(self._holes, cut)
        self._positions[known] = replace(position, end=cut.at, leader_epoch=cut.epoch, last_batch=None)
        self._branches.append(
            Branch(
                partition_id=known,
                number=1 + sum(branch.partition_id == known for branch in self._branches),
                at=cut.at,
                end=cut.end,
                commit=self._state.seq + 1,
                segments=found.closed,
            )
        )

    def state(self) -> BackupState:
        """The state now; what is applied later does not change it."""
        return replace(
            self._state,
            topics=dict(self._topics),
            positions=dict(self._positions),
            segments={partition_id: found for partition_id, found in self._segments.items() if found},
            branches=tuple(self._branches),
            holes=tuple(self._holes),
            checkpoints=tuple(self._checkpoints.values()),
            history=self._history.built(),
        )

    def _check_follows(self, commit: Commit) -> None:
        state = self._state
        if (commit.backup, commit.seq) != (state.backup, state.seq + 1):
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} cannot follow {state.seq} of {state.backup}")
        if commit.previous != state.head_hash:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} does not name the hash of commit {state.seq}")
        if commit.committed_at_ms < state.committed_at_ms:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} is dated before commit {state.seq}")

    def _add(self, segment: Segment, commit: Commit) -> None:
        partition_id = segment_partition(segment)
        if partition_id not in self._positions:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: no position for {segment.key}")
        for at in borders(each for each in self._branches if each.partition_id == partition_id):
            if segment.start < at < segment.end:
                raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} lies over the cut at {at}")
        found = self._segments.get(partition_id, SegmentList())
        if segment.start >= found.end:
            self._segments[partition_id] = found.appended(segment)
            return
        if any(segment.start < other.end and other.start < segment.end for other in found):
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} lies over another segment")
        self._segments[partition_id] = found.inserted(segment)

    def _remove(self, key: str, commit: Commit) -> None:
        name = parse_segment_key(key)
        for partition_id, found in self._segments.items():
            if name is None or (partition_id.topic, partition_id.partition) != (name.topic, name.partition):
                continue
            if len(left := found.without({key})) < len(found):
                self._segments[partition_id] = left
                return
        raise damaged_commit(f"commit {commit.seq} of {commit.backup} removes {key}, which is not there")


def segment_partition(segment: Segment) -> PartitionId:
    return PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
