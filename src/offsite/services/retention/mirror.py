"""Finds the restore points that need data expired by the topics' own retention, reading few of possibly millions of
points.

In one history of a partition, `[held from, expired below)` is to expire. A point needs some of the range if the
partition was alive at the time, if its end lies after the first offset, and if its log start lies before the second.
Ends and log starts only rise from point to point, as long as the log is not truncated.

The search examines pairs of points. If both points need data of the same partition, and its topic had the same settings
all the way between, all points between need data. If neither point can need data, by the end of the later or the log
start of the earlier, no point between needs data. Otherwise the search examines the point in the middle. Where the
assumption fails (a truncation in between, a log start that went back unnoticed, changed settings), the search continues
down to single points, or keeps unexamined points. So the search may keep too many points. The search drops a point only
after an examination of the point, or of two surrounding points with the same need.

A point without any need, such as a commit of empty topics, has no value of its own: the point expires with the next
later expiring point.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from offsite.log.range import Span
from offsite.model.cleanup_policy import NO_LIMITS, UNLIMITED, Limits, Retention
from offsite.repository.commit import PartitionId
from offsite.repository.expiry import joined
from offsite.repository.history import History
from offsite.repository.state import BackupState
from offsite.services.retention.needs import Alive, Branches, KnownHistory, segments_of
from offsite.services.retention.topic_retention import StoredPartition, limits_now, limits_then

STATES_MAX = 1_000
"""States folded by one search at most. Points unexamined by then are kept."""

ReadState = Callable[[int], BackupState]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A point's need of one partition with expiring data: the offsets, the history known to the point, and the topic's
    limits at the time, valid since commit `since` at the latest."""

    history: KnownHistory
    start: int
    end: int
    promised: Limits
    since: int
    is_alive: bool


_Point = dict[PartitionId, _Asked]


@dataclass(slots=True)
class Expiring:
    """The ranges of each partition's histories due to expire now, as held by the newest state."""

    head: BackupState
    now_ms: int
    told: Mapping[str, Retention] = field(default_factory=dict)
    _stored: dict[KnownHistory, StoredPartition] = field(default_factory=dict)
    _below: dict[tuple[KnownHistory, Limits], int] = field(default_factory=dict)
    _limits: dict[PartitionId, Limits] = field(default_factory=dict)
    branches: Branches = field(init=False)
    alive: Alive = field(init=False)
    partitions: frozenset[PartitionId] = field(init=False)
    """The partitions with anything to expire, in any of their histories, by the current limits."""

    def __post_init__(self) -> None:
        self.branches, self.alive = Branches.of(self.head), Alive(self.head)
        self.partitions = frozenset(
            each for each in self.head.positions if any(self.below(known) for known in self.histories(each))
        )

    def histories(self, partition_id: PartitionId) -> Iterable[KnownHistory]:
        """All histories of the partition, oldest first."""
        cuts = len(self.branches.by_partition.get(partition_id, ()))
        return (KnownHistory(partition_id=partition_id, cuts=each) for each in range(cuts + 1))

    def limits(self, partition_id: PartitionId) -> Limits:
        """The current limits. None for a topic without a description, or replaced at an unknown time. The cluster's
        answer is about the topic that has the name now."""
        if partition_id not in self._limits:
            self._limits[partition_id] = self._limits_now(partition_id)
        return self._limits[partition_id]

    def _limits_now(self, partition_id: PartitionId) -> Limits:
        shape = self.head.topics.get(partition_id.incarnation)
        if shape is None or (partition_id not in self.alive and not shape.is_deleted):
            return NO_LIMITS
        return limits_now(shape, self.told if partition_id in self.alive else {})

    def below(self, known: KnownHistory, promised: Limits | None = None) -> int:
        """The offset below which the history is to expire: by the current limits, and by the `promised` ones."""
        limits = self.limits(known.partition_id)
        limits = limits if promised is None else limits.with_those(promised)
        if limits.are_none:
            return 0
        if (known, limits) not in self._below:
            self._below[known, limits] = self.stored(known).expired_below(limits, now_ms=self.now_ms)
        return self._below[known, limits]

    def next_ms(self) -> int:
        """The earliest time of a further expiry by age; 0 if none exists."""
        found: list[int] = []
        for each in self.head.positions:
            limits, segments = self.limits(each), self.head.segments.get(each)
            if limits.keep_ms != UNLIMITED and segments:
                below = self.below(KnownHistory(partition_id=each, cuts=len(self.branches.by_partition.get(each, ()))))
                left = next((s.timestamp_max_ms for s in segments.read() if s.end > below), -1)
                found += [left + limits.keep_ms] if left >= 0 else []
        return min(found, default=0)

    def stored(self, known: KnownHistory) -> StoredPartition:
        if known not in self._stored:
            self._stored[known] = self._read(known)
        return self._stored[known]

    def _read(self, known: KnownHistory) -> StoredPartition:
        partition_id = known.partition_id
        closed = self.branches.by_partition.get(partition_id, ())[known.cuts :]
        shape = self.head.topics.get(partition_id.incarnation)
        goes_on = not closed and partition_id in self.alive
        return StoredPartition(
            segments=segments_of(self.head, known, self.branches).read(),
            position=self.head.positions[partition_id] if goes_on else None,
            gone_ms=shape.deleted_ms if shape is not None and shape.is_deleted else 0,
        )


def needing_expired(
    history: History, expiring: Expiring, read: ReadState, *, most: int = STATES_MAX
) -> Generator[None, None, list[Span]]:
    """The commit numbers `[start, end)` of restore points in need of expiring data, rising. Pauses after each state
    read, and reads `most` states. Raises errors of `read`."""
    if not expiring.partitions or not history:
        return []
    search = _Search(history, expiring, read, most)
    last = len(history) - 1
    # Examine both ends, then halve each interval until nothing is open in it.
    yield from search.ask(0)
    yield from search.ask(last)
    waiting = [(0, last)]
    while waiting and search.left:
        low, high = waiting.pop()
        if search.is_settled(low, high):
            continue
        middle = (low + high) // 2
        yield from search.ask(middle)
        waiting += [(low, middle), (middle, high)]
    return search.found()


class _Search:
    """The findings about the lines of a history, by index."""

    def __init__(self, history: History, expiring: Expiring, read: ReadState, most: int) -> None:
        self._history, self._expiring, self._read = history, expiring, read
        self.left = most
        self._points: dict[int, _Point] = {}
        self._empty: set[int] = set()
        self._needing: list[Span] = []

    def ask(self, at: int) -> Generator[None, None, None]:
        """Examine one point."""
        state = self._read(self._history[at].seq)
        self.left -= 1
        self._points[at] = dict(self._asked(state))
        if not state.segments and not state.branches:
            self._empty.add(at)
        if any(self._needs(each) for each in self._points[at].values()):
            self._needing.append((at, at + 1))
        yield

    def is_settled(self, low: int, high: int) -> bool:
        """Whether the points between two examined points need no further examination."""
        if high - low <= 1:
            return True
        one, other, seq = self._points[low], self._points[high], self._history[low].seq
        if any(self._all_need(one[each], other[each], seq=seq) for each in one.keys() & other.keys()):
            self._needing.append((low + 1, high))
            return True
        return all(self._none_needs(one.get(each), asked) for each, asked in other.items())

    def found(self) -> list[Span]:
        """The commit numbers of all points with a need. Empty points directly before the first of them are included."""
        spans = list(joined(self._needing))
        if spans and spans[0][0] - 1 in self._empty:
            spans[0] = 0, spans[0][1]
        return [(self._history[low].seq, self._history[high - 1].seq + 1) for low, high in spans]

    def _asked(self, state: BackupState) -> Iterator[tuple[PartitionId, _Asked]]:
        alive, branches = Alive(state), self._expiring.branches
        for each in self._expiring.partitions:
            position, shape = state.positions.get(each), state.topics.get(each.incarnation)
            if position is not None:
                yield (
                    each,
                    _Asked(
                        history=branches.known_at(each, state.seq),
                        start=position.log_start,
                        end=position.end,
                        promised=NO_LIMITS if shape is None else limits_then(shape),
                        since=state.configs_since.get(each.incarnation, state.seq),
                        is_alive=each in alive,
                    ),
                )

    def _needs(self, asked: _Asked) -> bool:
        return asked.is_alive and self._reach_over(asked.history, asked.start, asked.end, asked.promised)

    def _all_need(self, one: _Asked, other: _Asked, *, seq: int) -> bool:
        """Whether all points between the two need the data; commit `seq` is the first point. If settings changed in
        between, the points between may promise more than either."""
        if one.history != other.history or not (one.is_alive and other.is_alive) or other.since > seq:
            return False
        return self._reach_over(one.history, other.start, one.end, other.promised)

    def _none_needs(self, one: _Asked | None, other: _Asked) -> bool:
        """Whether no point between the two needs the data. A partition created between them may be needed from its
        beginning."""
        if one is not None and one.history != other.history:
            return False
        if one is not None and one.end == other.end and not (one.is_alive or other.is_alive):
            return True
        start = 0 if one is None else min(one.start, other.start)
        return not self._reach_over(other.history, start, other.end, None)

    def _reach_over(self, known: KnownHistory, start: int, end: int, promised: Limits | None) -> bool:
        """Whether offsets `[start, end)` overlap the expiring range."""
        below = self._expiring.below(known, promised)
        return start < min(end, below) and self._expiring.stored(known).start < end
