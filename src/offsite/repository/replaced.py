"""Finds superfluous objects: those replaced by a roll-up or a compaction, or expired by retention. Walks the commits in
order.

Only a positive statement counts: a commit removes segments and adds, in the same commit, a segment that covers them
with equal figures; or the commit declares their range compacted; or the commit declares a range expired. An object that
is merely in no list, or removed without a successor, is not superfluous. The object of a packed segment is known from
the state before; all former content of a pack is known from the commits of the run that wrote the pack. Whether an
object is still needed is decided elsewhere: see `upkeep.collection`. See decisions 0022 to 0024.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from offsite.log.range import PartitionId, Span
from offsite.model.errors import Damaged, DamagedObject, FormatTooNew
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import LIVE, ExpiredRange, StoredCommit
from offsite.repository.commit_log import CommitLog
from offsite.repository.coverage import segment_span
from offsite.repository.fold import fold
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.partition_history import Branch, Spans, impossible_expiry
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState, segment_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRange:
    """Offsets of a partition held by an object, now or formerly: the offsets of the batches of a segment live at commit
    `commit`.

    A segment's range may be wider at both ends. The margins hold no batch. After a cut no history owns the margins, and
    no commit would ever replace or expire the margins.
    """

    partition: PartitionId
    start: int
    end: int
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedObject:
    """A partly or wholly replaced object: a pack, or a segment's own object (`key`) with its index. `ranges`: the
    content of the object."""

    key: str
    index_key: str | None
    ranges: tuple[HeldRange, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,) if self.index_key is None else (self.key, self.index_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedSegment:
    """A segment removed from a list by a commit; `last_live_commit`: the newest commit with the segment live, and whole
    if a cut parted it later."""

    segment: Segment
    last_live_commit: int

    @classmethod
    def of(cls, state: BackupState, segment: Segment, known_at: int) -> DroppedSegment:
        """`segment`, listed in `state` in the history known to commit `known_at`."""
        if segment.whole is not None:
            known_at = _last_whole_commit(state, segment.whole, known_at)
        return cls(segment=segment, last_live_commit=known_at)


class ReplacedWalk:
    """Walks through the commits after `state`, in order; `state` is the state after the last commit taken."""

    def __init__(self, state: BackupState) -> None:
        self.state = state
        self._topic_ids: dict[str, set[str]] = {}
        for partition in state.positions:
            self._topic_ids.setdefault(partition.topic, set()).add(partition.topic_id)

    def take(self, stored: StoredCommit, *, believed: bool = True) -> Iterator[DroppedSegment]:
        """The segments replaced by the next commit with others of equal figures; with `believed` also the segments it
        compacted or expired. Raises `DamagedCommit`."""
        seq = stored.commit.seq
        dropped = [
            DroppedSegment.of(self.state, segment, seq - 1) for segment in self._replaced_by(stored, believed=believed)
        ]
        if believed:
            dropped += (
                gone for expired in stored.commit.changes.expired for gone in dropped_segments(self.state, expired)
            )
        self.state = fold(self.state, [stored])
        for position in stored.commit.changes.positions:
            partition = position.partition_id
            self._topic_ids.setdefault(partition.topic, set()).add(partition.topic_id)
        yield from dropped

    def _replaced_by(self, stored: StoredCommit, *, believed: bool) -> Iterator[Segment]:
        changes = stored.commit.changes
        if not changes.removed or changes.cut_back:  # a roll-up never truncates
            return
        removed = set(changes.removed)
        for merged in changes.segments:
            old = [segment for segment in self._live(segment_partition(merged)) if segment.key in removed]
            old = [segment for segment in old if merged.start <= segment.start and segment.end <= merged.end]
            if _holds_the_same(merged, old) and not self._is_ambiguous(merged, {segment.key for segment in old}):
                yield from old
        for compacted in changes.compacted if believed else ():
            inside = [
                s for s in self._live(compacted.partition_id) if compacted.start <= s.start and s.end <= compacted.end
            ]
            old = [segment for segment in inside if segment.key in removed]
            if old and not self._is_ambiguous(old[0], {segment.key for segment in old}):
                yield from old

    def _live(self, partition: PartitionId) -> tuple[Segment, ...]:
        return _live(self.state, partition)

    def _is_ambiguous(self, of: Segment, keys: set[str]) -> bool:
        """Whether two incarnations list the same key. Keys do not name the incarnation, so such a key is no statement
        about either."""
        other_topic_ids = self._topic_ids.get(of.topic, set()) - {of.topic_id}
        partitions = (
            PartitionId(topic=of.topic, topic_id=topic_id, partition=of.partition) for topic_id in other_topic_ids
        )
        return any(segment.key in keys for partition in partitions for segment in self._live(partition))


def dropped_segments(state: BackupState, expired: ExpiredRange) -> Iterator[DroppedSegment]:
    """The segments inside an expired range, from the state before. Raises `DamagedCommit`."""
    if expired.branch == LIVE:
        listed, known_at = _live(state, expired.partition_id), state.seq
    else:
        branch = _branch(state, expired)
        listed, known_at = tuple(branch.segments), branch.last_commit
    for segment in listed:
        if expired.start <= segment.start and segment.end <= expired.end:
            yield DroppedSegment.of(state, segment, known_at)


def _last_whole_commit(state: BackupState, whole: Segment, known_at: int) -> int:
    """The newest commit whose history lists `whole` undivided; at commit `known_at`, a part of it was listed."""
    partition = segment_partition(whole)
    for branch in sorted(state.branches, key=lambda branch: branch.number, reverse=True):
        if branch.partition_id == partition and branch.last_commit < known_at:  # cut back by then
            if branch.at <= whole.start:  # the segment is newer than this cut
                break
            if branch.at < whole.end:
                known_at = branch.last_commit
    return known_at


def expired_before(state: BackupState, expired: ExpiredRange) -> Spans:
    """The spans of the range's history that had expired already, from the state before. Raises `DamagedCommit`."""
    if expired.branch == LIVE:
        return state.expired.get(expired.partition_id, ())
    return _branch(state, expired).expired


def _branch(state: BackupState, expired: ExpiredRange) -> Branch:
    identity = (expired.partition_id, expired.branch)
    branch = next(
        (candidate for candidate in state.branches if (candidate.partition_id, candidate.number) == identity), None
    )
    if branch is None:
        raise impossible_expiry(expired, f"there is no branch {expired.branch}")
    return branch


def _live(state: BackupState, partition: PartitionId) -> tuple[Segment, ...]:
    listed = state.segments.get(partition)
    return listed.read() if listed else ()


def _holds_the_same(merged: Segment, old: list[Segment]) -> bool:
    """Whether `merged` can be a roll-up of `old`: adjacent segments, with equal numbers of batches and records."""
    if not old or (old[0].start, old[-1].end) != (merged.start, merged.end):
        return False
    if any(earlier.end != later.start for earlier, later in pairwise(old)):
        return False
    return _figures([merged]) == _figures(old)


def _figures(segments: Iterable[Segment]) -> tuple[int, ...]:
    figures = [(s.raw_bytes, s.records, s.control_batches, s.batches) for s in segments]
    return tuple(map(sum, zip(*figures, strict=True)))


def object_of(dropped: DroppedSegment) -> ReplacedObject:
    """The object of an unpacked segment, with the whole content also if a cut parted the segment: the other part has a
    list of its own, and whoever removes it from there may not be believed."""
    body = dropped.segment.as_written
    return ReplacedObject(key=body.key, index_key=body.index_key, ranges=(_held(body, dropped.last_live_commit),))


def objects_over(state: BackupState, partition: PartitionId, span: Span) -> Iterator[ReplacedObject]:
    """The objects of the unpacked segments over `span`, in any history of the partition. Raises `DamagedCommit`."""
    start, end = span
    branches = (branch for branch in state.branches if branch.partition_id == partition)
    lists = ((tuple(branch.segments), branch.last_commit) for branch in branches)
    for listed, known_at in ((_live(state, partition), state.seq), *lists):
        for segment in listed:
            if segment.pack is None and segment.start < end and start < segment.next_offset:
                yield object_of(DroppedSegment.of(state, segment, known_at))


def packs_begun_at(log: CommitLog, seq: int) -> dict[str, ReplacedObject]:
    """The packs begun when commit `seq` was the newest, by key, each with all content listed by commits. The commits of
    the pack's run follow `seq`, up to the first complete commit. Raises `DamagedCommit`."""
    ranges_by_pack: dict[str, list[HeldRange]] = {}
    while (stored := log.get(seq + 1)) is not None:
        seq = stored.commit.seq
        for segment in stored.commit.changes.segments:
            if segment.pack is not None:
                ranges_by_pack.setdefault(segment.pack, []).append(_held(segment, seq))
        if not stored.commit.changes.incomplete:
            break
    return {
        pack: ReplacedObject(key=pack, index_key=None, ranges=tuple(ranges)) for pack, ranges in ranges_by_pack.items()
    }


def _held(segment: Segment, commit: int) -> HeldRange:
    start, end = segment_span(segment)
    return HeldRange(partition=segment_partition(segment), start=start, end=min(end, segment.end), commit=commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedHint:
    """How far collections came, according to the last collection: everything that commits up to `upto` replaced or
    expired is deleted, except for the commits `pending`, rising.

    A number too low costs a search without result; a number too high leaves objects behind. Commits up to `upto` are no
    longer judged (see `collection.agreement`). Therefore the hint is written before the backup exists: a stranger
    with only the right to create objects comes too late.
    """

    upto: int = 0
    pending: tuple[int, ...] = ()

    @property
    def done_upto(self) -> int:
        """The commit up to which nothing is pending."""
        return min((self.upto, *(seq - 1 for seq in self.pending)))


NOTHING_COLLECTED = encode_object({"format": FORMAT, "upto": 0})
"""The hint at the beginning of a backup."""


def collected_hint(backup: Backup) -> CollectedHint:
    """The hint of the last collection; an empty hint if none existed."""
    key = backup.layout.collected_key
    try:
        data = backup.store.get(key)
        if data is None:
            return CollectedHint()
        document = parse_json_object(data, source=key, damaged=DamagedObject)
        upto = document.count("upto")
        pending = {seq for seq in document.integers("pending") if 0 < seq <= upto}
        return CollectedHint(upto=upto, pending=tuple(sorted(pending)))
    except (Damaged, FormatTooNew) as error:
        noted("hint_unusable", what=key, why=error.message)
        return CollectedHint()


def note_collected(backup: Backup, upto: int, pending: Collection[int] = ()) -> None:
    """Write the hint: everything that commits up to `upto` replaced or expired is deleted as far as possible, except
    for `pending`."""
    pending_fields: dict[str, JsonValue] = {"pending": sorted(pending)} if pending else {}
    data = encode_object({"format": FORMAT, "upto": upto, **pending_fields})
    backup.store.put_overwrite(backup.layout.collected_key, data)
