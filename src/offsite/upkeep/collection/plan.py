"""Plans a collection, step by step: superfluous objects to delete, and replacements to read.

An object may be deleted if an old commit states its replacement or expiry. Old means: older than the grace time by the
store's clock, older than every running restore, and part of a catalog named by a later commit, because otherwise one
damaged commit could bring back a state with the object. Neither the newest state nor the state at the end of the grace
time may need the object, live or in a branch; and segments of the newest state must cover the object's former content,
except for expired data. An expiry counts once its commit is believed (see `agreement`); before, each pass examines the
commit again.

A generator makes the plan and pauses often: a continuous run plans between its rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain

from offsite.log.range import PartitionId, Span, uncovered
from offsite.model.clock import Clock
from offsite.repository.backup import Backup
from offsite.repository.commit import StoredCommit
from offsite.repository.coverage import is_covered, segment_span
from offsite.repository.layout import parse_pack_key, parse_segment_key
from offsite.repository.leftovers import LEFTOVER_AFTER_MS, living_since_ms
from offsite.repository.replaced import (
    CollectedHint,
    DroppedSegment,
    HeldRange,
    ReplacedObject,
    ReplacedWalk,
    collected_hint,
    dropped_segments,
    expired_before,
    object_of,
    objects_over,
    packs_begun_at,
)
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import (
    NOTHING_IN_FORCE,
    CatalogCheck,
    CommitJudge,
    DisbelievedCommit,
    RetentionInForce,
)
from offsite.upkeep.deletion import Pauses

OBJECTS_MAX = 20_000
"""Objects of one plan, which is held in memory; the next plan takes the rest."""
LOOKED_UP_AT_ONCE = 16
"""Parallel requests to the store: hides its latency without overloading it."""
_SEGMENTS_AT_ONCE = 20_000
_NO_WORD = "it removed segments from the lists, and does not say which segments replace them"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectableObject:
    """A deletable object: a pack, a segment's body, or a segment's index. `body`: the key of the index's body."""

    key: str
    body: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """`objects` may be deleted, once `replacements`, segments of `head` with the same data, were read and found sound.
    The objects were replaced or expired by commits up to `upto`, except for the commits `pending`, due for another
    examination. `is_last`: no later commit is old enough. `disbelieved`: disbelieved commits with removals."""

    head: BackupState
    upto: int
    pending: tuple[int, ...] = ()
    disbelieved: tuple[DisbelievedCommit, ...] = ()
    objects: tuple[CollectableObject, ...] = ()
    replacements: tuple[Segment, ...] = ()
    is_last: bool = True

    @property
    def bytes(self) -> int:
        return sum(collectable.bytes for collectable in self.objects)

    @property
    def bytes_to_read(self) -> int:
        return sum(segment.stored_bytes for segment in self.replacements)


def collection_plan_steps(
    backup: Backup, *, clock: Clock, grace_ms: int = LEFTOVER_AFTER_MS, in_force: RetentionInForce = NOTHING_IN_FORCE
) -> Generator[None, None, CollectionPlan]:
    """The plan for the commits after the last collection, and for the commits disbelieved before. Raises
    `DamagedCommit`, `DamagedObject` if restores cannot be read, `ClocksDiffer`, and errors of the store, always before
    any change."""
    paused = Pauses(clock)
    # 1. Begin where the last collection ended, and end before the first commit that is too young.
    head = backup.state()
    hint = collected_hint(backup)
    hint = hint if hint.upto <= head.seq else CollectedHint()  # about lost commits, or forged
    before_ms = _before_ms(backup, grace_ms)
    until = _newest_old_enough(backup, head, hint.upto, before_ms)
    if until < hint.upto or (until == hint.upto and not hint.pending):
        return CollectionPlan(head=head, upto=hint.upto, pending=hint.pending)
    judge = CommitJudge(backup=backup, in_force=in_force, clock=clock, grace_ms=grace_ms)
    planning = _Planning(judge, head, hint, before_ms=before_ms, paused=paused)
    return (yield from planning.plan(until))


def _before_ms(backup: Backup, grace_ms: int) -> int:
    """Before what time a commit has to be made: the grace time before now, or before the first living restore."""
    now_ms, living_ms = backup.store.now_ms(), living_since_ms(backup)
    return (now_ms if living_ms is None else min(now_ms, living_ms)) - grace_ms


def _newest_old_enough(backup: Backup, head: BackupState, collected_upto: int, before_ms: int) -> int:
    """The newest commit with deletable objects, by the times in the commits. Less than `collected_upto` if that commit
    counts as young now: an earlier collection had a shorter grace time, or the clock was set back, or a restore that
    began before it goes on. Then no earlier word about age counts."""
    behind_catalog = head.seq - head.loose_commits
    return backup.log.newest_at(before_ms, after=max(0, collected_upto - 1), upto=behind_catalog)


class _Planning:
    """One plan in the making."""

    def __init__(
        self, judge: CommitJudge, head: BackupState, hint: CollectedHint, *, before_ms: int, paused: Pauses
    ) -> None:
        backup = judge.backup
        self._judge, self._backup, self._head, self._hint = judge, backup, head, hint
        self._before_ms, self._paused = before_ms, paused
        begin = backup.catalog.state(upto=hint.upto) if hint.upto else BackupState(backup=head.backup)
        self._walk = ReplacedWalk(begin)
        self._candidates = _Candidates(backup)
        self._disbelieved = _Disbelieved(remade=_remade_partitions(head))

    def plan(self, until: int) -> Generator[None, None, CollectionPlan]:
        """The plan for the commits up to `until`, and for the pending ones."""
        candidates, disbelieved = self._candidates, self._disbelieved
        # 2. Walk through the commits: replaced objects become candidates.
        lets_go = yield from self._walked(until)
        # 3. Judge the commits with removals: only those believed add candidates.
        is_full, is_at_end, at_end = candidates.is_full, False, self._walk.state
        holders = _DataHolders(head=self._head, at_end=at_end, disbelieved=disbelieved)
        for seq in (*self._hint.pending, *lets_go):
            is_full = is_full or candidates.is_full
            is_at_end = is_at_end or is_full or not self._is_older(seq)
            if is_at_end:  # nobody has judged the commit, so nobody believes it in this pass
                base, stored = self._judge.read(seq)
                disbelieved.add(seq, base, _newly_let_go(base, stored))
            else:
                yield from self._look_again(seq)
            if candidates.is_full and not is_full:  # what has to stay must not keep out later commits, in each pass
                yield from self._sifted(holders)
            yield
        # 4. Keep the candidates that may go.
        deletable = yield from self._sifted(holders)
        for present_object in deletable:
            holders.take(present_object.replaced)
        return CollectionPlan(
            head=self._head,
            upto=at_end.seq,
            pending=tuple(sorted(disbelieved.pending)),
            disbelieved=tuple(disbelieved.commits),
            objects=tuple(chain.from_iterable(present_object.objects for present_object in deletable)),
            replacements=tuple(holders.segments()),
            is_last=not is_full or (not deletable and at_end.seq == self._hint.upto),
        )

    def _walked(self, until: int) -> Generator[None, None, list[int]]:
        """Take the objects replaced by commits up to `until`. Returns the numbers of commits with pins, or with
        removals that no replacement explains; nothing is taken from such commits."""
        lets_go: list[int] = []
        catalogs = CatalogCheck(self._backup)
        for stored in self._backup.log.read(after=self._walk.state.seq, upto=until + 1):
            changes = stored.commit.changes
            catalogs.check(self._walk.state, stored)
            if stored.commit.seq > until:
                break
            if (changes.removed or changes.needs_judgement) and not self._is_older(stored.commit.seq):
                break
            replaced = tuple(self._walk.take(stored, believed=False))
            if changes.needs_judgement or _unexplained_keys(stored, replaced):
                lets_go.append(stored.commit.seq)
            else:
                for gone in replaced:
                    self._candidates.add(gone, seq=stored.commit.seq)
            if self._candidates.is_full:
                break
            yield from self._paused.if_due()
        return lets_go

    def _look_again(self, seq: int) -> Generator[None, None, None]:
        """Take the objects replaced or expired by commit `seq`, if the commit is believed."""
        base, stored = self._judge.read(seq)
        judgement = yield from self._judge.judge(stored, base)
        if judgement.disbelieved is not None:
            self._disbelieved.commits.append(judgement.disbelieved)
            self._disbelieved.add(seq, base, (*_newly_let_go(base, stored), *judgement.needed))
            return
        replaced = tuple(ReplacedWalk(base).take(stored))
        for gone in replaced:
            self._candidates.add(gone, seq=seq)
        if seq > self._judge.in_force.accepted and (unexplained := tuple(_unexplained(base, stored, replaced))):
            self._disbelieved.commits.append(DisbelievedCommit(commit=seq, who="", why=_NO_WORD))
            self._disbelieved.add(seq, base, unexplained)

    def _sifted(self, holders: _DataHolders) -> Generator[None, None, list[_PresentObject]]:
        """The deletable candidates; forget the others. The commits of those that stay because of disbelieved commits
        are pending."""
        # 1. Drop candidates that are gone already, or needed by the state at the walk's end or by the newest.
        present = yield from self._find_present()
        for state in (holders.at_end, holders.head):  # a reader may still use the older state
            yield from self._spare_needed(present, state)
        # 2. Keep those with all data held by live segments, or expired.
        deletable = []
        for key, present_object in present.items():
            if holders.holding(present_object.replaced) is not None:
                deletable.append(present_object)
            elif holders.was_let_go(present_object.replaced):
                self._disbelieved.pending.update(self._candidates.named_by[key])
            yield from self._paused.if_due()
        self._candidates.keep(present_object.replaced.key for present_object in deletable)
        return deletable

    def _find_present(self) -> Generator[None, None, dict[str, _PresentObject]]:
        """The candidates still in the store: an earlier collection may have deleted some."""
        present: dict[str, _PresentObject] = {}
        everything, window = tuple(self._candidates.by_key.values()), 10 * LOOKED_UP_AT_ONCE
        for first in range(0, len(everything), window):
            batch = everything[first : first + window]
            keys = [key for candidate in batch for key in candidate.keys]
            with ThreadPoolExecutor(max_workers=LOOKED_UP_AT_ONCE, thread_name_prefix="collect") as pool:
                infos = dict(zip(keys, pool.map(self._backup.store.head, keys), strict=True))
            for candidate in batch:
                objects = tuple(
                    CollectableObject(key=key, body=candidate.key, bytes=info.size_bytes)
                    for key in candidate.keys
                    if (info := infos[key])
                )
                if objects:
                    present[candidate.key] = _PresentObject(replaced=candidate, objects=objects)
            yield from self._paused.if_due()
        return present

    def _spare_needed(self, present: dict[str, _PresentObject], state: BackupState) -> Generator[None, None, None]:
        bodies = {key: body for body, candidate in present.items() for key in candidate.replaced.keys}
        for needed in find_needed(bodies, state):
            for key in needed:
                present.pop(bodies[key], None)
            yield from self._paused.if_due()

    def _is_older(self, seq: int) -> bool:
        """Whether the object of commit `seq` itself was stored before `before_ms`: the commit's own time may be
        earlier."""
        info = self._backup.store.head(self._backup.layout.commit_key(seq))
        return info is not None and info.modified_ms <= self._before_ms


class _Candidates:
    """The partly or wholly replaced or expired objects, by key, and the numbers of the stating commits."""

    def __init__(self, backup: Backup) -> None:
        self._layout, self._packs = backup.layout, _Packs(backup)
        self.by_key: dict[str, ReplacedObject] = {}
        self.named_by: dict[str, set[int]] = {}

    @property
    def is_full(self) -> bool:
        return len(self.by_key) >= OBJECTS_MAX

    def keep(self, keys: Iterable[str]) -> None:
        """Forget the objects without a key in `keys`."""
        kept = set(keys)
        self.by_key = {key: replaced for key, replaced in self.by_key.items() if key in kept}
        self.named_by = {key: numbers for key, numbers in self.named_by.items() if key in kept}

    def add(self, gone: DroppedSegment, *, seq: int) -> None:
        packed = gone.segment.as_written.pack
        replaced = self._packs.of(gone.segment) if packed else object_of(gone)
        if replaced is not None and all(map(self._layout.is_stored_body, replaced.keys)):
            earlier = self.by_key.get(replaced.key, replaced)
            ranges = {*earlier.ranges, *replaced.ranges}  # commits may list one key in two incarnations
            self.by_key[replaced.key] = replace(replaced, ranges=tuple(ranges))
            self.named_by.setdefault(replaced.key, set()).add(seq)


@dataclass(slots=True)
class _Disbelieved:
    """The disbelieved commits (`commits`), the spans of their removals (`spans`), and the commits to examine again
    (`pending`).

    `held`: what objects held at the removals in partitions that several incarnations have (`remade`). Keys do not name
    the incarnation: a commit may list the object of one incarnation in another, and drop it there."""

    remade: Collection[PartitionId]
    held: dict[str, set[HeldRange]] = field(default_factory=dict)
    commits: list[DisbelievedCommit] = field(default_factory=list)
    spans: dict[PartitionId, list[Span]] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)

    def add(self, seq: int, base: BackupState, spans: Iterable[tuple[PartitionId, Span]]) -> None:
        """Take commit `seq` after `base`, which nobody believes now: in `spans`, no commit counts as one that let
        something go."""
        self.pending.add(seq)
        for partition_id, span in spans:
            self.spans.setdefault(partition_id, []).append(span)
            for held_object in objects_over(base, partition_id, span) if partition_id in self.remade else ():
                for key in held_object.keys:
                    self.held.setdefault(key, set()).update(held_object.ranges)


def _remade_partitions(head: BackupState) -> frozenset[PartitionId]:
    """The partitions of topics that were deleted and made again: several incarnations have them."""
    incarnations = Counter(partition_id.topic_partition for partition_id in head.positions)
    return frozenset(p for p in head.positions if incarnations[p.topic_partition] > 1)


def _newly_let_go(base: BackupState, stored: StoredCommit) -> Iterator[tuple[PartitionId, Span]]:
    """The spans let go by the commit after `base`: of an expired or compacted range what had not expired or been
    compacted in `base`, and the segments that `base` held there. Ranges mostly lie over all that earlier commits let
    go, and those commits are judged for themselves."""
    yield from _unexplained(base, stored, ReplacedWalk(base).take(stored, believed=False))
    for expired in stored.commit.changes.expired:
        for span in uncovered(expired.start, expired.end, expired_before(base, expired)):
            yield expired.partition_id, span
        for dropped in dropped_segments(base, expired):
            yield expired.partition_id, _span(dropped.segment)
    for compacted in stored.commit.changes.compacted:
        before = base.compacted.get(compacted.partition_id, ())
        for span in uncovered(compacted.start, compacted.end, before):
            yield compacted.partition_id, span


def _unexplained_keys(stored: StoredCommit, replaced: Iterable[DroppedSegment]) -> set[str]:
    """The keys that the commit removed from the lists, without those of its statements, `replaced` (see
    `ReplacedWalk.take`)."""
    removed = set(stored.commit.changes.removed)
    return removed - {gone.segment.key for gone in replaced} if removed else removed


def _unexplained(
    base: BackupState, stored: StoredCommit, replaced: Iterable[DroppedSegment]
) -> Iterator[tuple[PartitionId, Span]]:
    """The spans of the `_unexplained_keys` of the commit after `base`. No later statement about their objects may
    count, until a person accepts the commit."""
    removed = _unexplained_keys(stored, replaced)
    names = {(name.topic, name.partition) for name in map(parse_segment_key, removed) if name is not None}
    for partition_id, segments in base.segments.items() if names else ():
        if (partition_id.topic, partition_id.partition) in names:
            yield from ((partition_id, _span(segment)) for segment in segments if segment.key in removed)


class _Packs:
    """The content of packs. Packs are requested roughly in the order of their beginning, so only the last ones are
    cached."""

    def __init__(self, backup: Backup) -> None:
        self._log = backup.log
        self._begun: dict[int, dict[str, ReplacedObject]] = {}

    def of(self, segment: Segment) -> ReplacedObject | None:
        """The pack of `segment`; None if the commits of the pack's run do not list the segment in it."""
        pack = segment.as_written.pack or ""
        begun_at = parse_pack_key(pack)
        if begun_at is None:
            return None
        if begun_at not in self._begun:
            while len(self._begun) >= 64:
                del self._begun[next(iter(self._begun))]
            self._begun[begun_at] = packs_begun_at(self._log, begun_at)
        pack_object = self._begun[begun_at].get(pack)
        where = PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
        start, _ = segment_span(segment.as_written)
        listed = pack_object is not None and any(
            (held_range.partition, held_range.start) == (where, start) for held_range in pack_object.ranges
        )
        return pack_object if listed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PresentObject:
    replaced: ReplacedObject
    objects: tuple[CollectableObject, ...]


def find_needed(keys: Iterable[str], state: BackupState) -> Iterator[frozenset[str]]:
    """The `keys` of objects needed by `state`, also as indexes, some at a time, for a caller with pauses."""
    candidates = frozenset(keys)
    lists = [*state.segments.values(), *(branch.segments for branch in state.branches)]
    needed: set[str] = set()
    count = 0
    for segment_list in lists if candidates else ():
        segments = segment_list.read()
        for segment in segments:
            needed.update(key for key in (segment.object_key, segment.index_key) if key)
        count += len(segments)
        if count >= _SEGMENTS_AT_ONCE:
            yield candidates & needed
            needed, count = set(), 0
    yield candidates & needed


@dataclass(slots=True, kw_only=True)
class _DataHolders:
    """Chooses the segments of `head` with the data of the objects to delete. Expired data needs no holder, if expired
    according to `at_end`, the state of the last old enough commit, and not `disbelieved`."""

    head: BackupState
    at_end: BackupState
    disbelieved: _Disbelieved
    _lists: dict[tuple[PartitionId, int], tuple[Segment, ...]] = field(default_factory=dict)
    _chosen: dict[str, Segment] = field(default_factory=dict)

    def holding(self, replaced: ReplacedObject) -> list[Segment] | None:
        """The segments with the object's data; None unless all data is held now or expired."""
        holding: list[Segment] = []
        for held_range in self._ranges(replaced):
            over = self._over(held_range)
            if not is_covered(held_range.start, held_range.end, [*map(_span, over), *self._let_go(held_range)]):
                return None
            holding += over
        return holding

    def take(self, replaced: ReplacedObject) -> None:
        """Add the segments with the object's data to the replacements."""
        self._chosen |= {segment.as_written.key: segment.as_written for segment in self.holding(replaced) or ()}

    def was_let_go(self, replaced: ReplacedObject) -> bool:
        """Whether all data is held now or expired by any commit, believed or not."""
        return all(
            is_covered(
                held_range.start,
                held_range.end,
                [*map(_span, self._over(held_range)), *_let_go_at(self.head, held_range)],
            )
            for held_range in self._ranges(replaced)
        )

    def _ranges(self, replaced: ReplacedObject) -> set[HeldRange]:
        """The content of the object, also at removals that nobody believes."""
        held = (self.disbelieved.held.get(key, ()) for key in replaced.keys)
        return {*replaced.ranges, *chain.from_iterable(held)}

    def segments(self) -> Iterator[Segment]:
        yield from self._chosen.values()

    def _let_go(self, held_range: HeldRange) -> Iterator[Span]:
        disbelieved = sorted(self.disbelieved.spans.get(held_range.partition, ()))
        for start, end in _let_go_at(self.at_end, held_range):
            yield from uncovered(start, end, disbelieved)

    def _over(self, held_range: HeldRange) -> list[Segment]:
        return [s for s in self._list(held_range) if s.start < held_range.end and held_range.start < s.next_offset]

    def _list(self, held_range: HeldRange) -> tuple[Segment, ...]:
        """The partition's segments, in the history known to the commit."""
        since = sum(
            branch.partition_id == held_range.partition and branch.commit > held_range.commit
            for branch in self.head.branches
        )
        key = (held_range.partition, since)
        if key not in self._lists:
            self._lists[key] = self.head.segments_at(held_range.commit, held_range.partition).read()
        return self._lists[key]


def _span(segment: Segment) -> Span:
    return segment.start, segment.next_offset


def _let_go_at(state: BackupState, held_range: HeldRange) -> Iterator[Span]:
    """The expired or compacted spans of the history that held the range."""
    yield from state.expired_at(held_range.commit, held_range.partition)
    yield from state.compacted.get(held_range.partition, ())
