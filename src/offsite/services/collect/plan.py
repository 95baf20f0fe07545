"""What may be collected of a backup, decided step by step: objects that were replaced or let go, and what to read.

An object may go when a commit says that it was replaced or let go, and that commit is old: older than the grace time by
the store's clock, older than every restore that is under way, and part of a catalog that a later commit names, so that
one damaged commit cannot bring back a state that needs the object. Neither the newest state nor the one at the end of
that time needs it, live or in a branch; and segments of the newest state cover all that ever lay in it, but what was
let go.

A plan is made by a generator that pauses every moment: a run that follows makes it between its rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from offsite.model.clock import Clock
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId, StoredCommit
from offsite.repository.coverage import is_covered, segment_span
from offsite.repository.layout import parse_pack_key
from offsite.repository.leftovers import LEFT_AFTER_MS, living_since_ms
from offsite.repository.replaced import Held, Replaced, ReplacedWalk, collected_upto, own_object, packs_begun_at
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
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
    all that commits up to `upto` replaced; `is_last`: nothing behind is old enough."""

    head: BackupState
    upto: int
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
    backup: Backup, *, clock: Clock, grace_ms: int = LEFT_AFTER_MS, after: int | None = None
) -> Generator[None, None, CollectionPlan]:
    """The plan for what was replaced behind commit `after`, by default where the last collection ended. Raises
    `DamagedCommit`, `DamagedObject` where restores cannot be told, and what the store raises: all before anything was
    changed."""
    paused = Pauses(clock)
    head = backup.state()
    after = collected_upto(backup) if after is None else after
    after = after if after <= head.seq else 0  # said of commits that are gone, or by nobody
    until = _newest_old_enough(backup, head, grace_ms)
    if until <= after:
        return CollectionPlan(head=head, upto=after)
    begin = backup.catalog.state(upto=after) if after else BackupState(backup=head.backup)
    walk = ReplacedWalk(begin)
    found = yield from _walked(backup, walk, until, grace_ms, paused)
    there = yield from _there(backup, found, paused)
    for state in (walk.state, head):  # what is needed at the end of that time may still be read
        yield from _spare_needed(there, state, paused)
    wanted = _Wanted(head)
    chosen: list[CollectableObject] = []
    for each in there.values():
        if wanted.take(each.replaced.held):
            chosen += each.objects
        yield from paused.if_due()
    return CollectionPlan(
        head=head,
        upto=walk.state.seq,
        objects=tuple(chosen),
        replacements=tuple(wanted.segments()),
        is_last=len(found) < OBJECTS_MAX,
    )


def _newest_old_enough(backup: Backup, head: BackupState, grace_ms: int) -> int:
    """The newest commit of which what it replaced may go, as far as the state tells; 0 when there is none."""
    now_ms, living_ms = backup.store.now_ms(), living_since_ms(backup)
    found = head.history.latest_at((now_ms if living_ms is None else min(now_ms, living_ms)) - grace_ms)
    return 0 if found is None else min(found.seq, head.seq - head.loose_commits)


def _walked(
    backup: Backup, walk: ReplacedWalk, until: int, grace_ms: int, paused: Pauses
) -> Generator[None, None, dict[str, Replaced]]:
    """The objects, by key, of what commits up to `until` replaced."""
    found: dict[str, Replaced] = {}
    packs = _Packs(backup)
    before_ms = backup.store.now_ms() - grace_ms
    for stored in backup.log.read(after=walk.state.seq, upto=until):
        if (stored.commit.changes.removed or stored.commit.changes.expired) and not _is_older(
            backup, stored, before_ms
        ):
            break
        for gone in walk.take(stored):
            each = packs.of(gone.segment) if gone.segment.as_written.pack else own_object(gone)
            if each is not None and all(map(backup.layout.is_stored_body, each.keys)):
                earlier = found.get(each.key, each)
                held = {*earlier.held, *each.held}  # parts of one that was parted by a cut, each in its history
                found[each.key] = replace(each, held=tuple(held))
        if len(found) >= OBJECTS_MAX:
            break
        yield from paused.if_due()
    return found


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


@dataclass(slots=True)
class _Wanted:
    """Which segments of `head` hold what lay in the objects that are to go."""

    head: BackupState
    _lists: dict[tuple[PartitionId, int], tuple[Segment, ...]] = field(default_factory=dict)
    _chosen: dict[str, Segment] = field(default_factory=dict)

    def take(self, held: Iterable[Held]) -> bool:
        """Whether all of it is held now, or was let go; then the segments that do are wanted."""
        chosen: list[Segment] = []
        for each in held:
            over = [s for s in self._list(each) if s.start < each.end and each.start < max(s.end, s.last_offset + 1)]
            spans = [(s.start, max(s.end, s.last_offset + 1)) for s in over]
            let_go = self.head.let_go_at(each.commit, each.partition)
            if not is_covered(each.start, each.end, [*spans, *let_go, *self.head.compacted.get(each.partition, ())]):
                return False
            chosen += over
        self._chosen |= {each.as_written.key: each.as_written for each in chosen}
        return True

    def segments(self) -> Iterator[Segment]:
        yield from self._chosen.values()

    def _list(self, held: Held) -> tuple[Segment, ...]:
        """The partition's segments, in the history that the commit knew."""
        since = sum(each.partition_id == held.partition and each.commit > held.commit for each in self.head.branches)
        key = (held.partition, since)
        if key not in self._lists:
            self._lists[key] = self.head.segments_at(held.commit, held.partition).read()
        return self._lists[key]
