"""The topics' own retention, applied to a backup that mirrors them: by time and by size, as a broker would. A cluster
tells the defaults that commits do not know.

A broker deletes whole segments from the beginning of a partition: a segment with its newest record older than
`retention.ms`, or with at least `retention.bytes` behind the segment; never the active segment. The same rules apply to
the segments of the backup, and only below the log start last reported by the leader. So the source has already deleted
the data, whatever a clock or a setting says. A deleted topic has no active segment and reports no log start; its
records stay for `retention.ms` after its deletion was found.

A shortened setting, by mistake or malice, must not empty the backup too. So data needed by a restore point expires only
if too old by the current settings *and* by the topic's settings at the point's time. An unknown setting of the point's
time counts as Kafka's default; an unknown current setting expires nothing.

The restore points that need expired data are found by reading few of possibly millions of points. In one history of a
partition, `[held from, expired below)` is to expire. A point needs some of the range if the partition was alive at the
time, if its end lies after the first offset, and if its log start lies before the second. Ends and log starts only rise
from point to point, as long as the log is not truncated. A point without any need, such as a commit of empty topics,
has no value of its own: the point expires with the next later expiring point.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsite.kafka.admin import ClusterAdmin
from offsite.log.range import PartitionId, Span
from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, NO_LIMITS, POLICY, UNLIMITED, KeepLimits, Retention
from offsite.model.errors import OtherCluster
from offsite.repository.backup import Backup
from offsite.repository.commit import Position, TopicShape
from offsite.repository.commit_history import CommitHistory
from offsite.repository.partition_history import join_spans
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.upkeep.retention.needs import Branches, LivePartitions, PartitionHistory, history_segments

STATES_MAX = 1_000
"""States folded by one search at most. Points unexamined by then are kept."""


def limits_now(shape: TopicShape, cluster_retention: Mapping[str, Retention]) -> KeepLimits:
    """The current limits: from `cluster_retention` by topic, else from the newest commit, which omits defaults. No
    limit if nothing is known."""
    if shape.configs_unread and shape.topic not in cluster_retention:
        return NO_LIMITS
    return KeepLimits.of(cluster_retention.get(shape.topic) or Retention.of(dict(shape.configs)))


def limits_then(shape: TopicShape) -> KeepLimits:
    """The limits promised by a restore point whose commit describes the topic as `shape`."""
    return KeepLimits.of(Retention.of(dict(shape.configs)), default_ms=KAFKA_RETENTION_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPartition:
    """The stored data of a history of a partition: its `segments`, and whether the source continues the history
    (`position` of the newest commit, else None). `deleted_ms`: when the deletion was found."""

    segments: Sequence[Segment]
    position: Position | None
    deleted_ms: int = 0

    @property
    def start(self) -> int:
        return self.segments[0].start if self.segments else 0

    def expired_below(self, limits: KeepLimits, *, now_ms: int) -> int:
        """The offset below which all stored data expires by `limits`; 0 if none does."""
        left_bytes = sum(segment.raw_bytes for segment in self.segments) if limits.keep_bytes != UNLIMITED else 0
        below = 0
        for number, segment in enumerate(self.segments):
            left_bytes -= segment.raw_bytes
            is_too_much = limits.keep_bytes != UNLIMITED and left_bytes >= limits.keep_bytes
            if not self._may_go(number) or not (is_too_much or self._is_too_old(segment, limits, now_ms)):
                break
            below = segment.end
        return below

    def _may_go(self, number: int) -> bool:
        """Whether the segment is not active, and lies below the log start last reported by the leader."""
        if self.position is None:
            return True
        segment = self.segments[number]
        is_active = number == len(self.segments) - 1
        return not is_active and max(segment.end, segment.last_offset + 1) <= self.position.log_start

    def _is_too_old(self, segment: Segment, limits: KeepLimits, now_ms: int) -> bool:
        """The age of records without a time is unknown: they are never too old."""
        newest_ms = max(segment.timestamp_max_ms, self.deleted_ms)
        return limits.keep_ms != UNLIMITED and segment.timestamp_max_ms >= 0 and newest_ms + limits.keep_ms < now_ms


def is_retention_known(shape: TopicShape, cluster_retention: Mapping[str, Retention]) -> bool:
    """Whether the topic's retention is known: from the cluster, or from the topic's own settings."""
    names = dict(shape.configs)
    return (
        shape.topic in cluster_retention
        or "retention.ms" in names
        or (POLICY in names and "delete" not in names[POLICY])
    )


def read_cluster_retention(cluster: ClusterAdmin, backup: Backup, state: BackupState) -> Mapping[str, Retention]:
    """The retention of the topics of `state` still present in the cluster, by name. Topics without the right to
    describe are left out. Raises `OtherCluster` if the cluster is not the source of `backup`, and `KafkaUnavailable`.
    """
    expected, actual = backup.descriptor.cluster_id, cluster.cluster().cluster_id
    if actual != expected:
        raise OtherCluster(
            f"backup {state.backup} was made on cluster {expected}, but this cluster is {actual}",
            hint="check --bootstrap",
        )
    topics = cluster.topics()
    same = [
        shape.topic
        for shape in state.latest_shapes().values()
        if shape.topic in topics and str(topics[shape.topic].topic_id or "") == shape.topic_id
    ]
    if not same:
        return {}
    configs = cluster.readable_topic_configs(same, with_defaults=True).configs
    return {topic: Retention.of(settings) for topic, settings in configs.items()}


ReadState = Callable[[int], BackupState]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionNeed:
    """A point's need of one partition with expiring data: the offsets, the history known to the point, and the topic's
    limits at the time, valid since commit `since` at the latest."""

    history: PartitionHistory
    start: int
    end: int
    promised: KeepLimits
    since: int
    is_alive: bool


_Point = dict[PartitionId, _PartitionNeed]


@dataclass(slots=True)
class ExpiringRanges:
    """The ranges of each partition's histories due to expire now, as held by the newest state."""

    head: BackupState
    now_ms: int
    cluster_retention: Mapping[str, Retention] = field(default_factory=dict)
    _stored: dict[PartitionHistory, StoredPartition] = field(default_factory=dict)
    _below: dict[tuple[PartitionHistory, KeepLimits], int] = field(default_factory=dict)
    _limits: dict[PartitionId, KeepLimits] = field(default_factory=dict)
    branches: Branches = field(init=False)
    alive: LivePartitions = field(init=False)
    partitions: frozenset[PartitionId] = field(init=False)
    """The partitions with anything to expire, in any of their histories, by the current limits."""

    def __post_init__(self) -> None:
        self.branches, self.alive = Branches.of(self.head), LivePartitions(self.head)
        self.partitions = frozenset(
            partition
            for partition in self.head.positions
            if any(self.below(history) for history in self.histories(partition))
        )

    def histories(self, partition_id: PartitionId) -> Iterable[PartitionHistory]:
        """All histories of the partition, oldest first."""
        cuts = len(self.branches.by_partition.get(partition_id, ()))
        return (PartitionHistory(partition_id=partition_id, cuts=number) for number in range(cuts + 1))

    def limits(self, partition_id: PartitionId) -> KeepLimits:
        """The current limits. None for a topic without a description, or replaced at an unknown time. The cluster's
        answer is about the topic that has the name now."""
        if partition_id not in self._limits:
            self._limits[partition_id] = self._limits_now(partition_id)
        return self._limits[partition_id]

    def _limits_now(self, partition_id: PartitionId) -> KeepLimits:
        shape = self.head.topics.get(partition_id.incarnation)
        if shape is None or (partition_id not in self.alive and not shape.is_deleted):
            return NO_LIMITS
        return limits_now(shape, self.cluster_retention if partition_id in self.alive else {})

    def below(self, history: PartitionHistory, promised: KeepLimits | None = None) -> int:
        """The offset below which the history is to expire: by the current limits, and by the `promised` ones."""
        limits = self.limits(history.partition_id)
        limits = limits if promised is None else limits.longer_of_both(promised)
        if limits.is_unlimited or self._is_all_at_source(history):
            return 0
        if (history, limits) not in self._below:
            self._below[history, limits] = self.stored(history).expired_below(limits, now_ms=self.now_ms)
        return self._below[history, limits]

    def _is_all_at_source(self, history: PartitionHistory) -> bool:
        """Whether the source still has all stored data of the history, so that none of it expires. Reads no
        segment."""
        partition_id = history.partition_id
        if partition_id not in self.alive or self.branches.by_partition.get(partition_id, ())[history.cuts :]:
            return False
        segments = self.head.segments.get(partition_id)
        return not segments or self.head.positions[partition_id].log_start <= segments.start

    def next_ms(self) -> int:
        """The earliest time of a further expiry by age; 0 if none exists."""
        times_ms: list[int] = []
        for partition in self.head.positions:
            limits, segments = self.limits(partition), self.head.segments.get(partition)
            if limits.keep_ms != UNLIMITED and segments:
                below = self.below(
                    PartitionHistory(partition_id=partition, cuts=len(self.branches.by_partition.get(partition, ())))
                )
                newest_ms = (
                    next((s.timestamp_max_ms for s in segments.read() if s.end > below), -1)
                    if below
                    else segments.first_timestamp_ms
                )
                times_ms += [newest_ms + limits.keep_ms] if newest_ms >= 0 else []
        return min(times_ms, default=0)

    def stored(self, history: PartitionHistory) -> StoredPartition:
        if history not in self._stored:
            self._stored[history] = self._read(history)
        return self._stored[history]

    def _read(self, history: PartitionHistory) -> StoredPartition:
        partition_id = history.partition_id
        closed = self.branches.by_partition.get(partition_id, ())[history.cuts :]
        shape = self.head.topics.get(partition_id.incarnation)
        goes_on = not closed and partition_id in self.alive
        return StoredPartition(
            segments=history_segments(self.head, history, self.branches).read(),
            position=self.head.positions[partition_id] if goes_on else None,
            deleted_ms=shape.deleted_ms if shape is not None and shape.is_deleted else 0,
        )


def find_needing_expired(
    history: CommitHistory, expiring: ExpiringRanges, read: ReadState, *, most: int = STATES_MAX
) -> Generator[None, None, list[Span]]:
    """The commit numbers `[start, end)` of restore points in need of expiring data, rising. Pauses after each state
    read, and reads `most` states. Raises errors of `read`.

    The search examines pairs of points. If both points need data of the same partition, and its topic had the same
    settings all the way between, all points between need data. If neither point can need data, by the end of the later
    or the log start of the earlier, no point between needs data. Otherwise the search examines the point in the middle.
    Where the assumption fails (a truncation in between, a log start that went back unnoticed, changed settings), the
    search continues down to single points, or keeps unexamined points. So the search may keep too many points. The
    search drops a point only after an examination of the point, or of two surrounding points with the same need.
    """
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
    return search.commit_spans()


class _Search:
    """The findings about the lines of a history, by index."""

    def __init__(self, history: CommitHistory, expiring: ExpiringRanges, read: ReadState, most: int) -> None:
        self._history, self._expiring, self._read = history, expiring, read
        self.left = most
        self._points: dict[int, _Point] = {}
        self._empty: set[int] = set()
        self._needing: list[Span] = []

    def ask(self, at: int) -> Generator[None, None, None]:
        """Examine one point."""
        state = self._read(self._history[at].seq)
        self.left -= 1
        self._points[at] = dict(self._needs_at(state))
        if not state.segments and not state.branches:
            self._empty.add(at)
        if any(self._needs(need) for need in self._points[at].values()):
            self._needing.append((at, at + 1))
        yield

    def is_settled(self, low: int, high: int) -> bool:
        """Whether the points between two examined points need no further examination."""
        if high - low <= 1:
            return True
        earlier, later, seq = self._points[low], self._points[high], self._history[low].seq
        if any(
            self._all_need(earlier[partition], later[partition], seq=seq) for partition in earlier.keys() & later.keys()
        ):
            self._needing.append((low + 1, high))
            return True
        return all(self._none_needs(earlier.get(partition), need) for partition, need in later.items())

    def commit_spans(self) -> list[Span]:
        """The commit numbers of all points with a need. Empty points directly before the first of them are included."""
        spans = list(join_spans(self._needing))
        if spans and spans[0][0] - 1 in self._empty:
            spans[0] = 0, spans[0][1]
        return [(self._history[low].seq, self._history[high - 1].seq + 1) for low, high in spans]

    def _needs_at(self, state: BackupState) -> Iterator[tuple[PartitionId, _PartitionNeed]]:
        alive, branches = LivePartitions(state), self._expiring.branches
        for partition in self._expiring.partitions:
            position, shape = state.positions.get(partition), state.topics.get(partition.incarnation)
            if position is not None:
                yield (
                    partition,
                    _PartitionNeed(
                        history=branches.history_at(partition, state.seq),
                        start=position.log_start,
                        end=position.end,
                        promised=NO_LIMITS if shape is None else limits_then(shape),
                        since=state.configs_since.get(partition.incarnation, state.seq),
                        is_alive=partition in alive,
                    ),
                )

    def _needs(self, need: _PartitionNeed) -> bool:
        return need.is_alive and self._reach_over(need.history, need.start, need.end, need.promised)

    def _all_need(self, earlier: _PartitionNeed, later: _PartitionNeed, *, seq: int) -> bool:
        """Whether all points between the two need the data; commit `seq` is the first point. If settings changed in
        between, the points between may promise more than either."""
        if earlier.history != later.history or not (earlier.is_alive and later.is_alive) or later.since > seq:
            return False
        return self._reach_over(earlier.history, later.start, earlier.end, later.promised)

    def _none_needs(self, earlier: _PartitionNeed | None, later: _PartitionNeed) -> bool:
        """Whether no point between the two needs the data. A partition created between them may be needed from its
        beginning."""
        if earlier is not None and earlier.history != later.history:
            return False
        if earlier is not None and earlier.end == later.end and not (earlier.is_alive or later.is_alive):
            return True
        start = 0 if earlier is None else min(earlier.start, later.start)
        return not self._reach_over(later.history, start, later.end, None)

    def _reach_over(self, history: PartitionHistory, start: int, end: int, promised: KeepLimits | None) -> bool:
        """Whether offsets `[start, end)` overlap the expiring range."""
        below = self._expiring.below(history, promised)
        return start < min(end, below) and self._expiring.stored(history).start < end
