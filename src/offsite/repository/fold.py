"""Folds commits into the state of a backup, one commit after the other. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from offsite.log.range import TopicPartition
from offsite.model.errors import DamagedCommit
from offsite.repository.branches import Branch, borders, cut_holes, cut_segments
from offsite.repository.commit import (
    LIVE,
    UNACCOUNTED,
    Changes,
    Checkpoint,
    Commit,
    CompactedRange,
    CutBack,
    ExpiredRange,
    PartitionId,
    Position,
    RecordedHole,
    SnapshotRef,
    StoredCommit,
    TopicShape,
)
from offsite.repository.commit_json import damaged_commit
from offsite.repository.coverage import unaccounted
from offsite.repository.expiry import Spans, expire, joined, parted, refuse, without_expired
from offsite.repository.history import HistoryBuilder
from offsite.repository.layered_map import LayeredMapBuilder
from offsite.repository.layout import parse_segment_key
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import CUTS_MAX, BackupState, KnownCut, reached, segment_partition

HeldT = TypeVar("HeldT", SegmentList, Spans)


def fold(state: BackupState, commits: Iterable[StoredCommit]) -> BackupState:
    """The state after `commits`, which follow `state` in order.

    Raises `DamagedCommit` at a commit that does not follow: wrong number, wrong previous hash, time going back, a
    removed segment that does not exist, or a segment that is listed twice, overlaps another segment, or has no position
    of its partition.
    """
    folding = Folding(state)
    for stored in commits:
        folding.apply(stored)
    return folding.state()


def with_cuts(state: BackupState, cuts: Iterable[CutBack]) -> BackupState:
    """`state` with the continuing histories after `cuts`, without the closed ones. Raises `DamagedCommit`."""
    folding = Folding(state)
    for cut in cuts:
        folding.cut_back(cut)
    return replace(folding.state(), branches=state.branches)


class Folding:
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
        self._forget_holes({each.partition_id for each in changes.expired if each.branch == LIVE})
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
            cut=consistent,
            cuts=_with_cut(self._state, commit, consistent, completed_at_ms),
            left_behind=changes.left_behind,
            incomplete=changes.incomplete,
            progress=changes.progress,
            completed_at_ms=completed_at_ms,
            loose_commits=1 if is_catalogued else self._state.loose_commits + 1,
            loose_entries=changes.entries + (0 if is_catalogued else self._state.loose_entries),
            is_own=False,
            accounted=self._state.accounted or changes.accounted,
        )
        self._history.append(commit)

    def _passed_over(self, changes: Changes) -> tuple[RecordedHole, ...]:
        """Holes for the offsets that positions move past without an account. Call before anything moves. Commits of
        earlier versions give no holes, because those versions kept no evidence."""
        if not (self._state.accounted or changes.accounted):
            return ()
        moved = (position.partition_id for position in changes.positions)
        before = {partition: former for partition in moved if (former := self._positions.get(partition)) is not None}
        ends = {partition: former.end for partition, former in before.items()}
        if not any(unaccounted(changes, ends)):
            return ()
        ends = {partition: reached(former, self._segments.get(partition)) for partition, former in before.items()}
        return tuple(
            RecordedHole(partition_id=passed.partition_id, start=passed.start, end=passed.end, reason=UNACCOUNTED)
            for passed in unaccounted(changes, ends)
        )

    def _known_by_commit(self, taken: Checkpoint) -> Checkpoint:
        """The checkpoint without `ends` equal to the positions after its commit: otherwise states would carry every end
        of every checkpoint. A checkpoint with fewer partitions keeps its ends, because it leaves the rest out."""
        left = {known: position.end for known, position in self._positions.built().items()}
        return replace(taken, ends=()) if dict(taken.ends) == left else taken

    def _completed_at_ms(self, commit: Commit) -> int:
        """When the last complete pass was committed.

        A retention commit does not count: a dead backup would look alive. A seal does not count: a stopped backup would
        look complete up to the seal. A roll-up counts, as in earlier versions: only a continuous run makes roll-ups.
        """
        changes = commit.changes
        is_retention = changes.is_upkeep and (changes.takes_away or bool(changes.forgotten))
        is_no_pass = changes.incomplete or changes.seal or is_retention
        return self._state.completed_at_ms if is_no_pass else commit.committed_at_ms

    def cut_back(self, cut: CutBack) -> None:
        """Close the history of a partition that the next commit found to be truncated. Raises `DamagedCommit`."""
        known = cut.partition_id
        position = self._positions.get(known)
        if position is None or position.end != cut.end:
            raise damaged_commit(f"{known} did not reach to {cut.end} before it was cut back to {cut.at}")
        found = cut_segments(self._segments.get(known) or SegmentList(), cut)
        _lay(self._segments, known, found.kept)
        holes = cut_holes((*self._state.holes, *self._holes), cut)
        expired, closed = parted(self._expired.get(known) or (), cut.at)
        compacted, _ = parted(self._compacted.get(known) or (), cut.at)
        _lay(self._expired, known, expired)
        _lay(self._compacted, known, compacted)
        if not compacted and known in self._compacted_until:
            self._compacted_until.remove(known)
        self._state, self._holes = replace(self._state, holes=()), holes
        self._positions[known] = replace(position, end=cut.at, leader_epoch=cut.epoch, last_batch=None)
        branches = self._known_branches()
        self._branches = [
            *branches,
            Branch(
                partition_id=known,
                number=1 + sum(branch.partition_id == known for branch in branches),
                at=cut.at,
                end=cut.end,
                commit=self._state.seq + 1,
                segments=found.closed,
                expired=closed,
            ),
        ]

    def _expire(self, each: ExpiredRange) -> None:
        """Remove the segments inside the range. Raises `DamagedCommit`."""
        if each.branch != LIVE:
            self._branches = [_expired_branch(branch, each) for branch in self._known_branches()]
            if not any(_is_of(branch, each) for branch in self._branches):
                raise refuse(each, f"there is no branch {each.branch}")
            return
        known = each.partition_id
        position = self._positions.get(known)
        if position is None or position.end < each.end:
            raise refuse(each, "nothing was backed up up to there")
        if found := self._segments.get(known):
            _lay(self._segments, known, expire(found, each))
        self._expired[known] = joined((*(self._expired.get(known) or ()), (each.start, each.end)))

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
            spans = {known: self._expired.get(known) or () for known in partitions}
            self._holes = without_expired((*self._state.holes, *self._holes), spans)
            self._state = replace(self._state, holes=())

    def _compact(self, each: CompactedRange) -> None:
        known = each.partition_id
        before_ms = self._compacted_until.get(known)
        self._compacted[known] = joined((*(self._compacted.get(known) or ()), (each.start, each.end)))
        self._compacted_until[known] = each.until_ms if before_ms is None else max(each.until_ms, before_ms)

    def _pin(self, commit: Commit) -> None:
        """Remove and set the pins of the commit. Raises `DamagedCommit` if the commit drops a pinned point, or pins a
        point that does not exist."""
        changes = commit.changes
        pins = {pin.seq: pin for pin in self._state.pins if pin.seq not in changes.unpinned}
        pins |= {pin.seq: pin for pin in changes.pinned}
        if dropped := [seq for seq in pins if any(start <= seq < end for start, end in changes.forgotten)]:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup} drops commit {dropped[0]}, which is pinned")
        points = self._history.built() if changes.pinned else None
        for pin in changes.pinned:
            if points is None or points.find(pin.seq) is None:
                raise damaged_commit(
                    f"commit {commit.seq} of {commit.backup} pins {pin.seq}, which is no restore point"
                )
        if changes.pinned or changes.unpinned:
            self._state = replace(self._state, pins=tuple(pins[seq] for seq in sorted(pins)))

    def _known_branches(self) -> Sequence[Branch]:
        return self._state.branches if self._branches is None else self._branches

    def state(self) -> BackupState:
        """The state so far. Commits applied later do not change the returned state."""
        taken = {each.id: each for each in self._state.checkpoints} | self._checkpoints if self._checkpoints else None
        self._state = replace(
            self._state,
            topics=self._topics.built(),
            configs_since=self._configs_since.built(),
            positions=self._positions.built(),
            segments=self._segments.built(),
            expired=self._expired.built(),
            compacted=self._compacted.built(),
            compacted_until=self._compacted_until.built(),
            holes=(*self._state.holes, *self._holes) if self._holes else self._state.holes,
            checkpoints=self._state.checkpoints if taken is None else tuple(taken.values()),
            branches=self._state.branches if self._branches is None else tuple(self._branches),
            history=self._history.built(),
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
        known = self._topics.get(shape.incarnation)
        if known is None or known.configs != shape.configs:
            self._configs_since[shape.incarnation] = seq
        self._topics[shape.incarnation] = shape

    def _move(self, position: Position) -> None:
        known = position.partition_id
        self._positions[known] = position
        if self._topic_ids is not None:
            self._topic_ids.setdefault(known.topic, set()).add(known.topic_id)

    def _add(self, segment: Segment, commit: Commit) -> None:
        partition_id = segment_partition(segment)
        if partition_id not in self._positions:
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: no position for {segment.key}")
        for at in borders(each for each in self._known_branches() if each.partition_id == partition_id):
            if segment.start < at < segment.end:
                raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} lies over the cut at {at}")
        for low, high in self._expired.get(partition_id) or ():
            if segment.start < high and low < segment.end:
                raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} lies in what was let go")
        found = self._segments.get(partition_id) or SegmentList()
        if segment.start >= found.end:
            self._segments[partition_id] = found.appended(segment)
            return
        if any(segment.start < other.end and other.start < segment.end for other in found):
            raise damaged_commit(f"commit {commit.seq} of {commit.backup}: {segment.key} lies over another segment")
        self._segments[partition_id] = found.inserted(segment)

    def _remove_all(self, commit: Commit) -> None:
        """Walks each partition's list once, however many of its segments are removed."""
        wanted: dict[TopicPartition, set[str]] = {}
        for key in commit.changes.removed:
            if (name := parse_segment_key(key)) is None:
                raise _not_there(key, commit)
            known = wanted.setdefault(TopicPartition(topic=name.topic, partition=name.partition), set())
            if key in known:
                raise _not_there(key, commit)
            known.add(key)
        for where, keys in wanted.items():
            removed = [self._remove(each, keys) for each in self._incarnations_of(where)]
            if left := keys.difference(*removed):
                raise _not_there(min(left), commit)

    def _remove(self, partition_id: PartitionId, keys: set[str]) -> set[str]:
        """The keys found in the partition's list."""
        if not (found := self._segments.get(partition_id)):
            return set()
        if gone := keys.intersection(segment.key for segment in found):
            _lay(self._segments, partition_id, found.without(gone))
        return gone

    def _incarnations_of(self, where: TopicPartition) -> Iterator[PartitionId]:
        """All partitions of the topic and number: a commit that only removes does not state the topic id."""
        if self._topic_ids is None:
            self._topic_ids = {}
            for known in self._positions.built():
                self._topic_ids.setdefault(known.topic, set()).add(known.topic_id)
        for topic_id in sorted(self._topic_ids.get(where.topic, ())):
            yield PartitionId(topic=where.topic, topic_id=topic_id, partition=where.partition)


def _is_of(branch: Branch, expired: ExpiredRange) -> bool:
    return (branch.partition_id, branch.number) == (expired.partition_id, expired.branch)


def _with_cut(base: BackupState, commit: Commit, cut: SnapshotRef | None, completed_at_ms: int) -> tuple[KnownCut, ...]:
    """The newest cuts as of `commit`, which has `cut` and follows `base`. A refused cut is not remembered, because it
    would push out a usable one."""
    is_old = commit.changes.cut is None and (not base.cuts or base.cuts[-1].ref != cut)
    if cut is None or commit.changes.cut_refused or is_old:
        return base.cuts
    older, newest, seq = base.cuts[:-1], base.cuts[-1:], commit.seq
    first = next((each.first for each in newest if (each.last, each.ref) == (base.seq, cut)), seq)
    known = KnownCut(first=first, last=seq, completed_at_ms=completed_at_ms, ref=cut)
    return (*older, *(newest if first == seq else ()), known)[-CUTS_MAX:]


def _expired_branch(branch: Branch, expired: ExpiredRange) -> Branch:
    """`branch` without the expired range, if the range belongs to this branch."""
    if not _is_of(branch, expired):
        return branch
    if expired.start < branch.at or branch.end < expired.end:
        raise refuse(expired, f"branch {branch.number} holds [{branch.at}, {branch.end})")
    spans = joined((*branch.expired, (expired.start, expired.end)))
    return replace(branch, segments=expire(branch.segments, expired), expired=spans)


def _lay(building: LayeredMapBuilder[PartitionId, HeldT], known: PartitionId, held: HeldT) -> None:
    """Set the partition's entry to `value`; an empty value removes the entry."""
    if held:
        building[known] = held
    elif known in building:
        building.remove(known)


def _not_there(key: str, commit: Commit) -> DamagedCommit:
    return damaged_commit(f"commit {commit.seq} of {commit.backup} removes {key}, which is not there")
