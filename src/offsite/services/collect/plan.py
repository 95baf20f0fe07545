"""What may be collected of a backup, decided step by step: objects that were replaced or let go, and what to read.

An object may go when a commit says that it was replaced or let go, and that commit is old: older than the grace time by
the store's clock, older than every restore that is under way, and part of a catalog that a later commit names, so that
one damaged commit cannot bring back a state that needs the object. Neither the newest state nor the one at the end of
that time needs it, live or in a branch; and segments of the newest state cover all that ever lay in it, but what was
let go. That something was let go counts once the commit is believed (see `agreement`); until then it is looked at again
in each pass.

A plan is made by a generator that pauses every moment: a run that follows makes it between its rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from offsite.log.range import Span, uncovered
from offsite.model.clock import Clock
from offsite.model.errors import Damaged, DamagedObject
from offsite.repository.backup import Backup
from offsite.repository.catalogs.parts_reader import SharedParts
from offsite.repository.commit import PartitionId, StoredCommit
from offsite.repository.coverage import is_covered, segment_span
from offsite.repository.layout import parse_pack_key
from offsite.repository.leftovers import LEFT_AFTER_MS, living_since_ms
from offsite.repository.replaced import (
    CollectedHint,
    Gone,
    Held,
    Replaced,
    ReplacedWalk,
    collected_hint,
    own_object,
    packs_begun_at,
)
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.services.collect.agreement import NOTHING_IN_FORCE, InForce, KeptCommit, commit_to_judge, judged
from offsite.services.steps import Pauses

OBJECTS_MAX = 20_000
"""Objects of one plan: it is kept in memory, and what is behind comes in the next."""
LOOKED_UP_AT_ONCE = 16
"""Parallel requests to the store: hides its latency without troubling it."""
_SEGMENTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectableObject:
    """An object that may go: a pack, a segment's body, or its index. `body`: the key of what the index belongs to."""

    key: str
    body: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """What may be deleted, once `replacements`, segments of `head` that hold the same data, are seen to be sound. It is
    all that commits up to `upto` replaced or let go, but for the commits `pending`, which are to be looked at again;
    `is_last`: nothing behind is old enough. `kept`: commits that let something go, and are not believed."""

    head: BackupState
    upto: int
    pending: tuple[int, ...] = ()
    kept: tuple[KeptCommit, ...] = ()
    objects: tuple[CollectableObject, ...] = ()
    replacements: tuple[Segment, ...] = ()
    is_last: bool = True

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.objects)

    @property
    def bytes_to_read(self) -> int:
        return sum(each.stored_bytes for each in self.replacements)


def planned(
    backup: Backup, *, clock: Clock, grace_ms: int = LEFT_AFTER_MS, in_force: InForce = NOTHING_IN_FORCE
) -> Generator[None, None, CollectionPlan]:
    """The plan for what was replaced or let go behind the commit where the last collection ended, and by those that
    were not believed then. Raises `DamagedCommit`, `DamagedObject` where restores cannot be told, `ClocksDiffer`, and
    what the store raises: all before anything was changed."""
    paused = Pauses(clock)
    head = backup.state()
    hint = collected_hint(backup)
    hint = hint if hint.upto <= head.seq else CollectedHint()  # said of commits that are gone, or by nobody
    until = max(hint.upto, _newest_old_enough(backup, head, grace_ms))
    if until <= hint.upto and not hint.pending:
        return CollectionPlan(head=head, upto=hint.upto)
    begin = backup.catalog.state(upto=hint.upto) if hint.upto else BackupState(backup=head.backup)
    walk = ReplacedWalk(begin)
    candidates = _Candidates(backup)
    lets_go = yield from _walked(backup, walk, until, grace_ms, candidates, paused)
    disbelieved = _Disbelieved()
    for seq in (*hint.pending, *lets_go):
        if candidates.is_full:
            disbelieved.pending.add(seq)
            continue
        yield from _look_again(backup, seq, candidates, disbelieved, in_force=in_force, clock=clock, grace_ms=grace_ms)
        yield
    there = yield from _there(backup, candidates.by_key, paused)
    for state in (walk.state, head):  # what is needed at the end of that time may still be read
        yield from _spare_needed(there, state, paused)
    wanted = _Wanted(head=head, at_end=walk.state, disbelieved=disbelieved.spans)
    chosen: list[CollectableObject] = []
    for each in there.values():
        if wanted.take(each.replaced.held):
            chosen += each.objects
        elif wanted.was_let_go(each.replaced.held):
            disbelieved.pending.update(candidates.named_by[each.replaced.key])
        yield from paused.if_due()
    return CollectionPlan(
        head=head,
        upto=walk.state.seq,
        pending=tuple(sorted(disbelieved.pending)),
        kept=tuple(disbelieved.kept),
        objects=tuple(chosen),
        replacements=tuple(wanted.segments()),
        is_last=not candidates.is_full or (not chosen and walk.state.seq == hint.upto),
    )


def _newest_old_enough(backup: Backup, head: BackupState, grace_ms: int) -> int:
    """The newest commit of which what it replaced may go, as far as the state tells; 0 when there is none."""
    now_ms, living_ms = backup.store.now_ms(), living_since_ms(backup)
    found = head.history.latest_at((now_ms if living_ms is None else min(now_ms, living_ms)) - grace_ms)
    return 0 if found is None else min(found.seq, head.seq - head.loose_commits)


class _Candidates:
    """The objects, by key, of which something was replaced or let go, and the numbers of the commits that said so."""

    def __init__(self, backup: Backup) -> None:
        self._layout, self._packs = backup.layout, _Packs(backup)
        self.by_key: dict[str, Replaced] = {}
        self.named_by: dict[str, set[int]] = {}

    @property
    def is_full(self) -> bool:
        return len(self.by_key) >= OBJECTS_MAX

    def add(self, gone: Gone, *, seq: int) -> None:
        packed = gone.segment.as_written.pack
        replaced = self._packs.of(gone.segment) if packed else own_object(gone)
        if replaced is not None and all(map(self._layout.is_stored_body, replaced.keys)):
            earlier = self.by_key.get(replaced.key, replaced)
            held = {*earlier.held, *replaced.held}  # parts of one that was parted by a cut, each in its history
            self.by_key[replaced.key] = replace(replaced, held=tuple(held))
            self.named_by.setdefault(replaced.key, set()).add(seq)


def _walked(  # noqa: PLR0913, PLR0917  # from where to where, and what comes of it
    backup: Backup, walk: ReplacedWalk, until: int, grace_ms: int, candidates: _Candidates, paused: Pauses
) -> Generator[None, None, list[int]]:
    """Take what commits up to `until` replaced. Gives the numbers of those that let something go, or set or take off
    pins: nothing of them was taken."""
    lets_go: list[int] = []
    before_ms = backup.store.now_ms() - grace_ms
    catalogs = CatalogCheck(backup)
    for stored in backup.log.read(after=walk.state.seq, upto=until + 1):
        changes = stored.commit.changes
        catalogs.check(walk.state, stored)
        if stored.commit.seq > until:
            break
        if (changes.removed or changes.is_to_judge) and not _is_older(backup, stored, before_ms):
            break
        if changes.is_to_judge:
            lets_go.append(stored.commit.seq)
        for gone in walk.take(stored, believed=False):
            if not changes.is_to_judge:
                candidates.add(gone, seq=stored.commit.seq)
        if candidates.is_full:
            break
        yield from paused.if_due()
    return lets_go


@dataclass(slots=True)
class CatalogCheck:
    """Compares each catalog that the walk passes with what the commits say. Whoever may create objects may create one
    that leaves points out: the retention would let their data go in good faith, and no commit would tell."""

    backup: Backup
    _shared: SharedParts = field(default_factory=SharedParts)

    def check(self, state: BackupState, following: StoredCommit) -> None:
        """Return if the catalog of `state`, as the commit `following` names it, says the same; so too where there is
        none, or none that can be read: nobody goes on from that. Raises `DamagedObject`."""
        catalog, key = self.backup.catalog, self.backup.layout.seal_key(state.seq)
        try:
            kept = catalog.read_named(state.seq, following, shared=self._shared) if state.seq else None
            is_other = kept is not None and kept != state
        except Damaged:
            return
        if is_other:
            raise DamagedObject(
                f"{key} does not say what the commits say: nothing is deleted because of it",
                hint="restore points may be missing from lists because of it: switch retention off, delete that object "
                f"and see what is there then: offsite verify --backup {self.backup.layout.backup}",
            )


@dataclass(slots=True)
class _Disbelieved:
    """Commits that are not believed (`kept`), what may not be deleted because of what they let go (`spans`), and which
    commits are to be looked at again (`pending`)."""

    kept: list[KeptCommit] = field(default_factory=list)
    spans: dict[PartitionId, list[Span]] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)


def _look_again(  # noqa: PLR0913  # what is looked at, with what, and what comes of it
    backup: Backup,
    seq: int,
    candidates: _Candidates,
    disbelieved: _Disbelieved,
    *,
    in_force: InForce,
    clock: Clock,
    grace_ms: int,
) -> Generator[None, None, None]:
    """Take what commit `seq` replaced or let go, if it is believed."""
    base, stored = commit_to_judge(backup, seq)
    changes = stored.commit.changes
    judgement = yield from judged(backup, stored, base, in_force=in_force, clock=clock, grace_ms=grace_ms)
    if judgement.kept is not None:
        disbelieved.kept.append(judgement.kept)
        disbelieved.pending.add(seq)
        let_go = [(each.partition_id, (each.start, each.end)) for each in changes.expired]
        let_go += [(each.partition_id, (each.start, each.end)) for each in changes.compacted]
        for partition_id, span in (*let_go, *judgement.needed):
            disbelieved.spans.setdefault(partition_id, []).append(span)
        return
    for gone in ReplacedWalk(base).take(stored):
        candidates.add(gone, seq=seq)


def _is_older(backup: Backup, stored: StoredCommit, before_ms: int) -> bool:
    """Whether the commit was also stored that long ago: what it says of itself may be older than it is."""
    info = backup.store.head(backup.layout.commit_key(stored.commit.seq))
    return info is not None and info.modified_ms <= before_ms


class _Packs:
    """What lay in packs. They are asked for about in the order in which they were begun, so the last ones are kept."""

    def __init__(self, backup: Backup) -> None:
        self._log = backup.log
        self._begun: dict[int, dict[str, Replaced]] = {}

    def of(self, segment: Segment) -> Replaced | None:
        """The pack of `segment`; None where the commits of the run that began it do not list it there."""
        pack = segment.as_written.pack or ""
        begun = parse_pack_key(pack)
        if begun is None:
            return None
        if begun not in self._begun:
            while len(self._begun) >= 64:
                del self._begun[next(iter(self._begun))]
            self._begun[begun] = packs_begun_at(self._log, begun)
        found = self._begun[begun].get(pack)
        where = PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
        start, _ = segment_span(segment.as_written)
        listed = found is not None and any((each.partition, each.start) == (where, start) for each in found.held)
        return found if listed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _There:
    replaced: Replaced
    objects: tuple[CollectableObject, ...]


def _there(backup: Backup, found: dict[str, Replaced], paused: Pauses) -> Generator[None, None, dict[str, _There]]:
    """Those that are still in the store: an earlier collection may have deleted some."""
    there: dict[str, _There] = {}
    everything, window = tuple(found.values()), 10 * LOOKED_UP_AT_ONCE
    for first in range(0, len(everything), window):
        some = everything[first : first + window]
        keys = [key for each in some for key in each.keys]
        with ThreadPoolExecutor(max_workers=LOOKED_UP_AT_ONCE, thread_name_prefix="collect") as pool:
            infos = dict(zip(keys, pool.map(backup.store.head, keys), strict=True))
        for each in some:
            objects = tuple(
                CollectableObject(key=key, body=each.key, bytes=info.size_bytes)
                for key in each.keys
                if (info := infos[key])
            )
            if objects:
                there[each.key] = _There(replaced=each, objects=objects)
        yield from paused.if_due()
    return there


def spared(keys: Iterable[str], state: BackupState) -> Iterator[frozenset[str]]:
    """Those out of `keys` whose object `state` needs, some at a time: whoever asks may pause in between."""
    wanted = frozenset(keys)
    lists = [*state.segments.values(), *(branch.segments for branch in state.branches)]
    needed: set[str] = set()
    seen = 0
    for each in lists if wanted else ():
        segments = each.read()
        for segment in segments:
            needed.update((segment.as_written.object_key, segment.object_key))
        seen += len(segments)
        if seen >= _SEGMENTS_AT_ONCE:
            yield wanted & needed
            needed, seen = set(), 0
    yield wanted & needed


def _spare_needed(there: dict[str, _There], state: BackupState, paused: Pauses) -> Generator[None, None, None]:
    for needed in spared(tuple(there), state):
        for key in needed:
            there.pop(key, None)
        yield from paused.if_due()


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """Which segments of `head` hold what lay in the objects that are to go. What was let go need not be held: as far as
    `at_end`, the state of the last commit that is old enough, says so, and without what is `disbelieved`."""

    head: BackupState
    at_end: BackupState
    disbelieved: dict[PartitionId, list[Span]]
    _lists: dict[tuple[PartitionId, int], tuple[Segment, ...]] = field(default_factory=dict)
    _chosen: dict[str, Segment] = field(default_factory=dict)

    def take(self, held: Iterable[Held]) -> bool:
        """Whether all of it is held now, or was let go; then the segments that do are wanted."""
        chosen: list[Segment] = []
        for each in held:
            over = self._over(each)
            if not is_covered(each.start, each.end, [*map(_span, over), *self._let_go(each)]):
                return False
            chosen += over
        self._chosen |= {each.as_written.key: each.as_written for each in chosen}
        return True

    def was_let_go(self, held: Iterable[Held]) -> bool:
        """Whether all of it is held now, or was let go by any commit, whether it is believed or not."""
        return all(
            is_covered(each.start, each.end, [*map(_span, self._over(each)), *_let_go_at(self.head, each)])
            for each in held
        )

    def segments(self) -> Iterator[Segment]:
        yield from self._chosen.values()

    def _let_go(self, held: Held) -> Iterator[Span]:
        disbelieved = sorted(self.disbelieved.get(held.partition, ()))
        for start, end in _let_go_at(self.at_end, held):
            yield from uncovered(start, end, disbelieved)

    def _over(self, held: Held) -> list[Segment]:
        return [s for s in self._list(held) if s.start < held.end and held.start < max(s.end, s.last_offset + 1)]

    def _list(self, held: Held) -> tuple[Segment, ...]:
        """The partition's segments, in the history that the commit knew."""
        since = sum(each.partition_id == held.partition and each.commit > held.commit for each in self.head.branches)
        key = (held.partition, since)
        if key not in self._lists:
            self._lists[key] = self.head.segments_at(held.commit, held.partition).read()
        return self._lists[key]


def _span(segment: Segment) -> Span:
    return segment.start, max(segment.end, segment.last_offset + 1)


def _let_go_at(state: BackupState, held: Held) -> Iterator[Span]:
    """What was let go or compacted of the history that held it."""
    yield from state.let_go_at(held.commit, held.partition)
    yield from state.compacted.get(held.partition, ())
