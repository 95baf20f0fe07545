"""A restore point between commits, a commit's state with earlier ends in some partitions, by offset or by date; and the
parts of the backup to read there: one chain of segments per partition of the selected topics. Pure.

By offset, a partition ends at the offset: transactions not decided before are undecided. By date no such end exists,
because dates need not rise: records are selected one by one, and transactions stay as known to the commit. A compaction
leaves the ends of commits exact, but no point inside of a compacted range: a record removed there may be the latest of
its key at that point. Such a point is refused, never restored approximately. The same holds for a region that was left
whole because it would hardly shrink: the state does not tell such regions from the others.

Restore, export, comparison, `cat`, `search` and the Spark table all read chains: all see the same records of a restore
point. Destinations of the records are decided elsewhere: see `restore.write.plan`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.log.range import PartitionId, Span
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.errors import NoSuchRestorePoint, NoSuchTopic
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.selection import TopicSelection
from offsite.model.topic_choices import PartitionSelection
from offsite.points.incarnations import IncarnationSummary, drop_other_incarnations
from offsite.points.point_cut import AS_COPIED, PointCut
from offsite.points.record_rewrite import RecordRewrite
from offsite.repository.commit import RecordedHole, TopicShape
from offsite.repository.segments.segment import Segment, SegmentList
from offsite.repository.state import BackupState

_HINT = "choose a commit that offsite show lists (all of them are exact), or leave the topic out"
_CUT_HINT = "restore what was copied (--cut as-copied), or leave the topic out"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutReport:
    """A partition that a point takes up to `end` instead of `commit_end`. Of its segments, `whole_segments` are taken
    unchanged, `edge_segments` in part (their records are examined), `left_out_segments` not at all."""

    topic: str
    partition: int
    end: int
    commit_end: int
    whole_segments: int
    edge_segments: int
    left_out_segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """A restore point: `state` is the selected part of `commit`, the state at the commit; `state` still contains
    records dated after `until_ms`. Both states know one incarnation of every selected topic; `incarnations` lists the
    topics with several. `partitions` are the requested partitions: `state` has only their segments. `cut` names the
    transactions left out in addition."""

    commit: BackupState
    state: BackupState
    until_ms: int | None = None
    incarnations: tuple[IncarnationSummary, ...] = ()
    partitions: PartitionSelection = field(default_factory=PartitionSelection)
    cut: PointCut = AS_COPIED

    def cuts(self) -> tuple[CutReport, ...]:
        """The partitions that are not taken whole, sorted."""
        cuts = (self._cut(partition) for partition in sorted(self.commit.segments))
        return tuple(cut for cut in cuts if cut.edge_segments or cut.left_out_segments)

    def incarnations_of(self, topics: Collection[str]) -> tuple[IncarnationSummary, ...]:
        """The incarnations of those `topics` that were deleted and recreated: the selected one, and the rest."""
        return tuple(incarnation for incarnation in self.incarnations if incarnation.topic in topics)

    def _cut(self, partition: PartitionId) -> CutReport:
        position = self.state.positions[partition]
        segments = self.state.segments.get(partition, ())
        commit_end = self.commit.positions[partition].end  # a roll-up may join later records with older ones
        edges = sum(
            position.end < min(segment.end, commit_end) or is_open(segment, self.until_ms) for segment in segments
        )
        return CutReport(
            topic=partition.topic,
            partition=partition.partition,
            end=position.end,
            commit_end=commit_end,
            whole_segments=len(segments) - edges,
            edge_segments=edges,
            left_out_segments=len(self.commit.segments[partition]) - len(segments),
        )


def point_in_time(
    commit: BackupState,
    *,
    ends: Mapping[PartitionId, int] | None = None,
    until_ms: int | None = None,
    partitions: PartitionSelection | None = None,
    incarnations: Sequence[IncarnationSummary] = (),
) -> PointInTime:
    """The point of `commit` with the ends `ends` where given, with the records dated `until_ms` or before, of
    `partitions`. Incarnations in `incarnations` that were not taken are left out."""
    commit = drop_other_incarnations(commit, incarnations)
    state = _ended(commit, ends or {})
    partitions = partitions or PartitionSelection()
    segments = dict(_chosen(state, partitions, until_ms))
    return PointInTime(
        commit=commit,
        state=replace(state, segments=segments),
        until_ms=until_ms,
        incarnations=tuple(incarnations),
        partitions=partitions,
    )


def is_open(segment: Segment, until_ms: int | None) -> bool:
    """Whether only the records of the segment can tell which of them are dated `until_ms` or before."""
    return until_ms is not None and segment.timestamp_max_ms > until_ms


def _ended(state: BackupState, ends: Mapping[PartitionId, int]) -> BackupState:
    positions = {
        partition_id: replace(position, end=min(position.end, ends.get(partition_id, position.end)))
        for partition_id, position in state.positions.items()
    }
    segments = {
        partition_id: SegmentList(s for s in segment_list if s.start < positions[partition_id].end)
        if partition_id in ends
        else segment_list
        for partition_id, segment_list in state.segments.items()
    }
    holes = (hole for hole in state.holes if hole.start < ends.get(hole.partition_id, hole.end))
    return replace(state, positions=positions, segments=segments, holes=tuple(holes))


def _chosen(
    state: BackupState, partitions: PartitionSelection, until_ms: int | None
) -> Iterator[tuple[PartitionId, SegmentList]]:
    for partition_id, segments in state.segments.items():
        if not partitions.includes(partition_id.topic, partition_id.partition):
            continue
        selected = segments if until_ms is None else SegmentList(s for s in segments if not _is_later(s, until_ms))
        if selected:
            yield partition_id, selected


def _is_later(segment: Segment, until_ms: int) -> bool:
    """Whether every record is dated after `until_ms`. Only dates of brokers tell without a read: with dates of
    producers, an early record may stand behind a late one. Segments with transactions stay: a later segment may decide
    an earlier transaction."""
    by_broker = segment.timestamp_types == (LOG_APPEND_TIME,) and not segment.has_transactions
    return by_broker and segment.base_timestamp_min_ms > until_ms


def check_exact(point: PointInTime, head: BackupState, topics: Collection[str]) -> None:
    """Raise `NoSuchRestorePoint` when `point` ends, by offset or by date, inside a compacted range of one of `topics`,
    as known to `head`, the newest state; or when the cut of `point` leaves out records inside such a range."""
    for partition in head.compacted:
        if partition.topic in topics and (span := next(_inside(point, partition, head), None)) is not None:
            raise NoSuchRestorePoint(
                f"{partition} was compacted over offsets {span[0]} to {span[1] - 1}: its exact contents at a moment "
                "inside this range are no longer known",
                hint=_CUT_HINT if point.cut.used else _HINT,
            )


def _inside(point: PointInTime, partition: PartitionId, head: BackupState) -> Iterator[Span]:
    if partition not in point.state.positions or not point.partitions.includes(partition.topic, partition.partition):
        return
    end, whole = point.state.positions[partition].end, point.commit.positions[partition].end
    unsettled = point.cut.unsettled(partition)
    # a removed tombstone may have been the latest record: no remaining record tells its time
    is_before = point.until_ms is not None and point.until_ms < head.compacted_until.get(partition, -1)
    # all segments of the commit: a later segment is not in the point, and may have replaced earlier records
    segments = [segment for segment in point.commit.segments.get(partition, ()) if segment.start < end]
    for low, high in head.compacted[partition]:
        by_offset = end < whole and low < end < high
        by_date = any(s.start < high and low < s.end and is_open(s, point.until_ms) for s in segments)
        by_cut = unsettled is not None and low < unsettled[1] and unsettled[0] < high
        if by_offset or by_date or by_cut or (is_before and low < end):
            yield low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChain:
    """One partition of a backup to read: the records of `segments`, in this order, at offsets below `end`.

    With `until_ms` (epoch ms), only records with an equal or earlier time. With `left_out` the chain is read as a
    consistent cut: undecided records are left out for consumers of every isolation, and transactions with commit
    markers at the offsets of `left_out` (rising) count as aborted. None: read as copied. `hole_starts` (rising): where
    the backup lacks offsets between its segments. `rewrite`: how a restore changes the records; None: not at all.
    """

    source: PartitionId
    segments: tuple[Segment, ...]
    end: int
    until_ms: int | None = None
    left_out: tuple[int, ...] | None = None
    hole_starts: tuple[int, ...] = ()
    rewrite: RecordRewrite | None = None

    @property
    def raw_bytes(self) -> int:
        """Size of all batches of the segments, in bytes, as stored by Kafka."""
        return sum(segment.raw_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChains:
    """One topic as of the restore point, with a chain for every partition that holds data."""

    shape: TopicShape
    chains: tuple[PartitionChain, ...]

    @property
    def topic(self) -> str:
        return self.shape.topic


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedChains:
    """All parts of commit `commit` of a backup to read: `topics` with their chains, and their `holes`. `skipped` are
    selected topics that are left out, with the reason."""

    backup: str
    commit: int
    topics: tuple[TopicChains, ...]
    holes: tuple[RecordedHole, ...]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def chains(self) -> Iterator[PartitionChain]:
        """The chains of all topics, in the order of topics and partitions."""
        return (chain for topic in self.topics for chain in topic.chains)

    @property
    def names(self) -> set[str]:
        """The names of the topics."""
        return {topic.topic for topic in self.topics}

    def copyable(self) -> SelectedChains:
        """The selection for a copy: without topics owned by brokers, which mean nothing on another cluster, and with
        the topic of a schema registry first, because values need the schemas. Raises `NoSuchTopic` when no topic is
        selected."""
        if not self.topics:
            raise NoSuchTopic(f"no topic of backup {self.backup} is selected", hint=_hint(self.backup))
        unprotected = [topic for topic in self.topics if topic.topic not in PROTECTED_TOPICS]
        return replace(
            self,
            topics=tuple(sorted(unprotected, key=lambda topic: not topic.shape.holds_schemas)),
            holes=tuple(hole for hole in self.holes if hole.partition_id.topic not in PROTECTED_TOPICS),
            skipped=tuple((name, "owned by the brokers") for name in sorted(self.names & PROTECTED_TOPICS)),
        )


def select_chains(point: PointInTime, selection: TopicSelection) -> SelectedChains:
    """The chains of the topics that match `selection`, sorted by name; may be empty. Raises `NoSuchTopic` for a full
    name that the restore point does not know."""
    shapes = point.state.latest_shapes()
    if missing := selection.missing(shapes):
        raise NoSuchTopic(
            f"backup {point.state.backup} has no topic {', '.join(missing)} at commit {point.state.seq}",
            hint=_hint(point.state.backup),
        )
    return chains_of(point, selection.select(shapes, internal=PROTECTED_TOPICS))


def chains_of(point: PointInTime, topics: Iterable[str]) -> SelectedChains:
    """The chains of the latest incarnations of `topics`, sorted by name. Names unknown to the restore point are
    ignored."""
    state, latest = point.state, point.state.latest_shapes()
    shapes = [latest[topic] for topic in sorted(set(topics) & latest.keys())]
    incarnations = {shape.incarnation for shape in shapes}
    holes = tuple(hole for hole in state.holes if hole.partition_id.incarnation in incarnations)
    starts = hole_starts(holes)
    return SelectedChains(
        backup=state.backup,
        commit=state.seq,
        topics=tuple(TopicChains(shape=shape, chains=tuple(_chains(point, shape, starts))) for shape in shapes),
        holes=holes,
    )


def hole_starts(holes: Iterable[RecordedHole]) -> dict[PartitionId, tuple[int, ...]]:
    """The starts of the holes by partition, rising."""
    starts: defaultdict[PartitionId, set[int]] = defaultdict(set)
    for hole in holes:
        starts[hole.partition_id].add(hole.start)
    return {partition_id: tuple(sorted(offsets)) for partition_id, offsets in starts.items()}


def _chains(
    point: PointInTime, shape: TopicShape, starts: Mapping[PartitionId, tuple[int, ...]]
) -> Iterator[PartitionChain]:
    for source in shape.partition_ids:
        if point.state.segments.get(source):
            yield chain_to(point, source, point.state.positions[source].end, starts=starts)


def chain_to(
    point: PointInTime, source: PartitionId, end: int, *, starts: Mapping[PartitionId, tuple[int, ...]]
) -> PartitionChain:
    """The chain of one partition to `end`. `starts`: see `hole_starts`."""
    return PartitionChain(
        source=source,
        segments=tuple(segment for segment in point.state.segments.get(source, ()) if segment.start < end),
        end=end,
        until_ms=point.until_ms,
        left_out=point.cut.left_out(source),
        hole_starts=starts.get(source, ()),
    )


def _hint(backup: str) -> str:
    return f"see its topics with: offsite show {backup}"
