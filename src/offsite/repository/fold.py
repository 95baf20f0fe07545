"""Folds commits into the state of a backup, one commit after the other. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from offsite.log.range import PartitionId, TopicPartition
from offsite.model.errors import DamagedCommit
from offsite.repository.commit import (
    LIVE,
    UNACCOUNTED,
    Checkpoint,
    Commit,
    CommitChanges,
    CompactedRange,
    CutBack,
    ExpiredRange,
    Position,
    RecordedHole,
    SnapshotRef,
    StoredCommit,
    TopicShape,
    damaged_commit,
)
from offsite.repository.commit_history import HistoryBuilder
from offsite.repository.coverage import find_unaccounted
from offsite.repository.layout import parse_segment_key
from offsite.repository.partition_history import (
    Branch,
    Spans,
    borders,
    cut_holes,
    cut_segments,
    drop_expired_holes,
    expire,
    impossible_expiry,
    join_spans,
    split_spans,
)
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import CUTS_MAX, BackupState, CutSpan, LayeredMapBuilder, accounted_end, segment_partition

HeldT = TypeVar("HeldT", SegmentList, Spans)


def fold(state: BackupState, commits: Iterable[StoredCommit]) -> BackupState:
    """The state after `commits`, which follow `state` in order.

    Raises `DamagedCommit` at a commit that does not follow: wrong number, wrong previous hash, time going back, a
    removed segment that does not exist, or a segment that is listed twice, overlaps another segment, or has no position
    of its partition.
    """
    builder = StateBuilder(state)
    for stored in commits:
        builder.apply(stored)
    return builder.state()


def with_cuts(state: BackupState, cuts: Iterable[CutBack]) -> BackupState:
    """`state` with the continuing histories after `cuts`, without the closed ones. Raises `DamagedCommit`."""
    builder = StateBuilder(state)
    for cut in cuts:
        builder.cut_back(cut)
    return replace(builder.state(), branches=state.branches)


class StateBuilder:
    """The working copy of a fold. Costs only the changes of the commits. Unusable after an error."""

    def __init__(self, state: BackupState) -> None:
        self._state = state
        self._history = HistoryBuilder(state.history)
        self._topics = LayeredMapBuilder(state.topics)
        self._configs_since = LayeredMapBuilder(state.configs_since)
        self._positions = LayeredMapBuilder(state.positions)
        self._segments = LayeredMapBuilder(state.segments)
        self._expired = LayeredMapBuilder(state.expired)
        self._compacted = LayeredMapBuilder(state.compacted)
        self._compacted_until = LayeredMapBuilder(state.compacted_until)
        self._holes: list[RecordedHole] = []
        self._checkpoints: dict[int, Checkpoint] = {}
        self._topic_ids: dict[str, set[str]] | None = None
        self._branches: list[Branch] | None = None

    @property
    def head_hash(self) -> str:
        """The hash that the next commit must name as its previous commit."""
        return self._state.head_hash

    def apply(self, stored: StoredCommit) -> None:
        """Apply one commit. Raises `DamagedCommit` if the commit does not follow."""
        commit, changes = stored.commit, stored.commit.changes
        self._check_follows(commit)
        # 1. What is passed over is seen only before positions move.
        passed_over = self._passed_over(changes)
        # 2. Truncations first: all other changes belong to the new histories.
        for cut in changes.cut_back:
            self.cut_back(cut)
        # 3. Topics and positions.
        for shape in changes.topics:
            self._describe(shape, commit.seq)
        for position in changes.positions:
            self._move(position)
        # 4. Removed and expired segments make room for the new ones.
        self._remove_all(commit)
        for expired in changes.expired:
            self._expire(expired)
        self._forget_holes(
            {expired_range.partition_id for expired_range in changes.expired if expired_range.branch == LIVE}
        )
        # 5. New segments.
        for segment in changes.segments:
            self._add(segment, commit)
        for compacted in changes.compacted:
            self._compact(compacted)
        # 6. Holes, pins, checkpoint.
        self._holes.extend((*changes.holes, *passed_over))
        self._explain(changes.explained)
        self._pin(commit)
        if changes.checkpoint is not None:
            self._checkpoints[changes.checkpoint.id] = self._known_by_commit(changes.checkpoint)
        # 7. The facts that each commit replaces.
        is_catalogued = bool(commit.catalog)
        consistent = changes.cut or (None if changes.outdates_cut else self._state.cut)
        completed_at_ms = self._completed_at_ms(commit)
        self._state = replace(
            self._state,
            seq=commit.seq,
            head_hash=stored.hash,
            committed_at_ms=commit.committed_at_ms,
            groups=changes.groups or self._state.groups,
            metadata=changes.metadata or self._state.metadata,
            registry=changes.registry or self._state.registry,
            cut=consistent,
            cuts=_with_cut(self._state, commit, consistent, completed_at_ms),
            left_behind=changes.left_behind,
            incomplete=changes.incomplete,
            progress=changes.progress,
            completed_at_ms=completed_at_ms,
            read_ms=self._read_ms(commit),
            loose_commits=1 if is_catalogued else self._state.loose_commits + 1,
            loose_entries=changes.entry_count + (0 if is_catalogued else self._state.loose_entries),
            is_own=False,
            accounted=self._state.accounted or changes.accounted,
        )
        self._history.append(commit)

    def _passed_over(self, changes: CommitChanges) -> tuple[RecordedHole, ...]:
        """Holes for the offsets that positions move past without an account. Call before anything moves. Commits of
        earlier versions give no holes, because those versions kept no evidence."""
        if not (self._state.accounted or changes.accounted):
            return ()
        moved = (position.partition_id for position in changes.positions)
        before = {
            partition: previous for partition in moved if (previous := self._positions.get(partition)) is not None
        }
        ends = {partition: previous.end for partition, previous in before.items()}
        if not any(find_unaccounted(changes, ends)):
            return ()
        ends = {
            partition: accounted_end(previous, self._segments.get(partition)) for partition, previous in before.items()
        }
        return tuple(
            RecordedHole(partition_id=passed.partition_id, start=passed.start, end=passed.end, reason=UNACCOUNTED)
            for passed in find_unaccounted(changes, ends)
        )

    def _known_by_commit(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint without `ends` equal to the positions after its commit: otherwise states would carry every end
        of every checkpoint. A checkpoint with fewer partitions keeps its ends, because it leaves the rest out."""
        ends = {partition: position.end for partition, position in self._positions.build().items()}
        return replace(checkpoint, ends=()) if dict(checkpoint.ends) == ends else checkpoint

    def _completed_at_ms(self, commit: Commit) -> int:
        """When the last complete pass was committed.

        A retention commit does not count: a dead backup would look alive. A seal does not count: a stopped backup would
        look complete up to the seal. A roll-up counts, as in earlier versions: only a continuous run makes roll-ups.
        """
        changes = commit.changes
        is_retention = changes.is_upkeep and (changes.touches_retention or bool(changes.forgotten))
        is_no_pass = changes.incomplete or changes.seal or is_retention
        return self._state.completed_at_ms if is_no_pass else commit.committed_at_ms

    def _read_ms(self, commit: Commit) -> int:
        """When the ends of the logs were read that the positions reach, or were to reach. A pass of an earlier version,
        or without a compacted topic, does not say so."""
        changes = commit.changes
        if changes.read_ago_ms:
            return max(1, commit.committed_at_ms - changes.read_ago_ms)  # 0: unknown
        is_pass = changes.accounted and not changes.incomplete
        return 0 if is_pass else self._state.read_ms

    def cut_back(self, cut: CutBack) -> None:
        """Close the history of a partition that the next commit found to be truncated. Raises `DamagedCommit`."""
        partition = cut.partition_id
        position = self._positions.get(partition)
        if position is None or position.end != cut.end:
            raise damaged_commit(f"{partition} did not reach to {cut.end} before it was cut back to {cut.at}")
        split = cut_segments(self._segments.get(partition) or SegmentList(), cut)
        _lay(self._segments, partition, split.live)
        holes = cut_holes((*self._state.holes, *self._holes), cut)
        expired, closed = split_spans(self._expired.get(partition) or (), cut.at)
        compacted, _ = split_spans(self._compacted.get(partition) or (), cut.at)
        _lay(self._expired, partition, expired)
        _lay(self._compacted, partition, compacted)
        if not compacted and partition in self._compacted_until:
            self._compacted_until.remove(partition)
        self._state, self._holes = replace(self._state, holes=()), holes
        self._positions[partition] = replace(position, end=cut.at, leader_epoch=cut.epoch, last_batch=None)
        branches = self._known_branches()
        self._branches = [
            *branches,
            Branch(
                partition_id=partition,
                number=1 + sum(branch.partition_id == partition for branch in branches),
                at=cut.at,
                end=cut.end,
                commit=self._state.seq + 1,
                segments=split.closed,
                expired=closed,
            ),
        ]

    def _expire(self, expired: ExpiredRange) -> None:
        """Remove the segments inside the range. Raises `DamagedCommit`."""
        if expired.branch != LIVE:
            self._branches = [_expired_branch(branch, expired) for branch in self._known_branches()]
            if not any(_is_of(branch, expired) for branch in self._branches):
                raise impossible_expiry(expired, f"there is no branch {expired.branch}")
            return
        partition = expired.partition_id
        position = self._positions.get(partition)
        if position is None or position.end < expired.end:
            raise impossible_expiry(expired, "the backup ends before that offset")
        if segments := self._segments.get(partition):
            _lay(self._segments, partition, expire(segments, expired))
        self._expired[partition] = join_spans((*(self._expired.get(partition) or ()), (expired.start, expired.end)))

    def _explain(self, explained: Collection[RecordedHole]) -> None:
        """Give holes the reason found later."""
        if explained:
            reasons = {(hole.partition_id, hole.start, hole.end): hole for hole in explained}
            holes = (*self._state.holes, *self._holes)
            self._holes = [reasons.get((hole.partition_id, hole.start, hole.end), hole) for hole in holes]
            self._state = replace(self._state, holes=())

    def _forget_holes(self, partitions: Collection[PartitionId]) -> None:
        """Drop the holes inside the expired spans of `partitions`."""
        if partitions:
            spans = {partition: self._expired.get(partition) or () for partition in partitions}
            self._holes = drop_expired_holes((*self._state.holes, *self._holes), spans)
            self._state = replace(self._state, holes=())

    def _compact(self, compacted: CompactedRange) -> None:
        partition = compacted.partition_id
        before_ms = self._compacted_until.get(partition)
        self._compacted[partition] = join_spans(
            (*(self._compacted.get(partition) or ()), (compacted.start, compacted.end))
        )
        self._compacted_until[partition] = (
            compacted.until_ms if before_ms is None else max(compacted.until_ms, before_ms)
        )

    def _pin(self, commit: Commit) -> None:
        """Remove and set the pins of the commit. Raises `DamagedCommit` if the commit drops a pinned point, or pins a
        point that does not exist."""
        changes = commit.changes
        pins = {pin.seq: pin for pin in self._state.pins if pin.seq not in changes.unpinned}
        pins |= {pin.seq: pin for pin in changes.pinned}
        if dropped := [seq for seq in pins if any(start <= seq < end for start, end in changes.forgotten)]:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} drops commit {dropped[0]}, which is pinned")
        points = self._history.build() if changes.pinned else None
        for pin in changes.pinned:
            if points is None or points.find(pin.seq) is None:
                raise damaged_commit(
                    f"commit {commit.seq} of {commit.backup} pins {pin.seq}, which is not a restore point"
                )
        if changes.pinned or changes.unpinned:
            self._state = replace(self._state, pins=tuple(pins[seq] for seq in sorted(pins)))

    def _known_branches(self) -> Sequence[Branch]:
        return self._state.branches if self._branches is None else self._branches

    def state(self) -> BackupState:
        """The state so far. Commits applied later do not change the returned state."""
        checkpoints = (
            {checkpoint.id: checkpoint for checkpoint in self._state.checkpoints} | self._checkpoints
            if self._checkpoints
            else None
        )
        self._state = replace(
            self._state,
            topics=self._topics.build(),
            configs_since=self._configs_since.build(),
            positions=self._positions.build(),
            segments=self._segments.build(),
            expired=self._expired.build(),
            compacted=self._compacted.build(),
            compacted_until=self._compacted_until.build(),
            holes=(*self._state.holes, *self._holes) if self._holes else self._state.holes,
            checkpoints=self._state.checkpoints if checkpoints is None else tuple(checkpoints.values()),
            branches=self._state.branches if self._branches is None else tuple(self._branches),
            history=self._history.build(),
        )
        self._holes, self._checkpoints = [], {}
        return self._state

    def _check_follows(self, commit: Commit) -> None:
        state = self._state
        if (commit.backup, commit.seq) != (state.backup, state.seq + 1):
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} cannot follow {state.seq} of {state.backup}")
        if commit.previous != state.head_hash:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} does not name the hash of commit {state.seq}")
        if commit.committed_at_ms < state.committed_at_ms:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} is dated before commit {state.seq}")

    def _describe(self, shape: TopicShape, seq: int) -> None:
        recorded = self._topics.get(shape.incarnation)
        if recorded is None or recorded.configs != shape.configs:
            self._configs_since[shape.incarnation] = seq
        if recorded is not None and shape.late is None:  # a version that knows no late reads wrote the commit
            shape = replace(shape, late=recorded.late)
        self._topics[shape.incarnation] = shape

    def _move(self, position: Position) -> None:
        partition = position.partition_id
        self._positions[partition] = position
        if self._topic_ids is not None:
            self._topic_ids.setdefault(partition.topic, set()).add(partition.topic_id)

    def _add(self, segment: Segment, commit: Commit) -> None:
        partition_id = segment_partition(segment)
        if partition_id not in self._positions:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: no position for {segment.key}")
        for at in borders(branch for branch in self._known_branches() if branch.partition_id == partition_id):
            if segment.start < at < segment.end:
                raise damaged_commit(
                    f"commit {commit.seq} of {commit.backup}: {segment.key} reaches over the cut at {at}"
                )
        for low, high in self._expired.get(partition_id) or ():
            if segment.start < high and low < segment.end:
                raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} is in a deleted range")
        segments = self._segments.get(partition_id) or SegmentList()
        if segment.start >= segments.end:
            self._segments[partition_id] = segments.appended(segment)
            return
        if any(segment.start < other.end and other.start < segment.end for other in segments):
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} overlaps another segment")
        self._segments[partition_id] = segments.inserted(segment)

    def _remove_all(self, commit: Commit) -> None:
        """Walks each partition's list once, however many of its segments are removed."""
        keys_by_partition: dict[TopicPartition, set[str]] = {}
        for key in commit.changes.removed:
            if (name := parse_segment_key(key)) is None:
                raise _not_there(key, commit)
            partition_keys = keys_by_partition.setdefault(
                TopicPartition(topic=name.topic, partition=name.partition), set()
            )
            if key in partition_keys:
                raise _not_there(key, commit)
            partition_keys.add(key)
        for where, keys in keys_by_partition.items():
            removed = [self._remove(partition, keys) for partition in self._incarnations_of(where)]
            if missing := keys.difference(*removed):
                raise _not_there(min(missing), commit)

    def _remove(self, partition_id: PartitionId, keys: set[str]) -> set[str]:
        """The keys found in the partition's list."""
        if not (segments := self._segments.get(partition_id)):
            return set()
        if gone := keys.intersection(segment.key for segment in segments):
            _lay(self._segments, partition_id, segments.without(gone))
        return gone

    def _incarnations_of(self, where: TopicPartition) -> Iterator[PartitionId]:
        """All partitions of the topic and number: a commit that only removes does not state the topic id."""
        if self._topic_ids is None:
            self._topic_ids = {}
            for partition in self._positions.build():
                self._topic_ids.setdefault(partition.topic, set()).add(partition.topic_id)
        for topic_id in sorted(self._topic_ids.get(where.topic, ())):
            yield PartitionId(topic=where.topic, topic_id=topic_id, partition=where.partition)


def _is_of(branch: Branch, expired: ExpiredRange) -> bool:
    return (branch.partition_id, branch.number) == (expired.partition_id, expired.branch)


def _with_cut(base: BackupState, commit: Commit, cut: SnapshotRef | None, completed_at_ms: int) -> tuple[CutSpan, ...]:
    """The newest cuts as of `commit`, which has `cut` and follows `base`. A refused cut is not remembered, because it
    would push out a usable one."""
    is_old = commit.changes.cut is None and (not base.cuts or base.cuts[-1].ref != cut)
    if cut is None or commit.changes.cut_refused or is_old:
        return base.cuts
    older, newest, seq = base.cuts[:-1], base.cuts[-1:], commit.seq
    first = next((span.first for span in newest if (span.last, span.ref) == (base.seq, cut)), seq)
    current = CutSpan(first=first, last=seq, completed_at_ms=completed_at_ms, ref=cut)
    return (*older, *(newest if first == seq else ()), current)[-CUTS_MAX:]


def _expired_branch(branch: Branch, expired: ExpiredRange) -> Branch:
    """`branch` without the expired range, if the range belongs to this branch."""
    if not _is_of(branch, expired):
        return branch
    if expired.start < branch.at or branch.end < expired.end:
        raise impossible_expiry(expired, f"branch {branch.number} holds [{branch.at}, {branch.end})")
    spans = join_spans((*branch.expired, (expired.start, expired.end)))
    return replace(branch, segments=expire(branch.segments, expired), expired=spans)


def _lay(building: LayeredMapBuilder[PartitionId, HeldT], partition: PartitionId, value: HeldT) -> None:
    """Set the partition's entry to `value`; an empty value removes the entry."""
    if value:
        building[partition] = value
    elif partition in building:
        building.remove(partition)


def _not_there(key: str, commit: Commit) -> DamagedCommit:
    return damaged_commit(f"commit {commit.seq} of {commit.backup} removes {key}, which does not exist")
