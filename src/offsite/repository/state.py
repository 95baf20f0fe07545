"""The state of a backup after a number of commits (see `fold`), and the immutable mappings it is made of.

A state has tens of thousands of partitions, and a round moves a few: states share the unchanged entries, and a changed
copy of a mapping costs only its changes. A mapping consists of a few dicts, each laid over the previous ones; no dict
is written to after its creation. The newest dict is merged into the one below as soon as the lower dict is at most
twice as large. So layers stay few, and each entry is copied only a few times.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated, Generic, TypeVar, cast

from offsite.log.range import PartitionId, Span, TopicIncarnation
from offsite.model.bounds import MAX_OFFSET
from offsite.model.untrusted.json_codec import Form, Inline, Spare, TimeMs, Unstored, codec_of, integer_within
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.commit import (
    NO_PREVIOUS,
    Checkpoint,
    CommitChanges,
    CompactedRange,
    ExpiredRange,
    LeftBehindPartition,
    PassProgress,
    Pin,
    Position,
    RecordedHole,
    SnapshotRef,
    TopicShape,
)
from offsite.repository.commit_history import CommitHistory
from offsite.repository.partition_history import (
    Branch,
    Spans,
    borders,
    held_start,
    join_spans,
    segments_before,
    spans_before,
)
from offsite.repository.segments.segment import Segment, SegmentList

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_GONE = object()
"""Marks a key of the layers below as removed."""

FIRST_SEQ = 1
CUTS_MAX = 16
"""The newest consistent cuts kept in a state. A search for a usable cut reads one after the other."""


class LayeredMap(Mapping[K, V]):
    """Immutable. Keeps the order of first appearance, as a dict does."""

    __slots__ = ("_layers", "_length")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._layers: tuple[dict[K, object], ...] = (dict(entries or {}),)
        self._length = len(self._layers[0])

    def with_changes(self, changes: Mapping[K, object]) -> LayeredMap[K, V]:
        """A copy with `changes`; `_GONE` removes a key."""
        result: LayeredMap[K, V] = LayeredMap()
        result._length = self._length + sum((value is not _GONE) - (key in self) for key, value in changes.items())
        result._layers = _merged((*self._layers, dict(changes)))
        return result

    def __getitem__(self, key: K) -> V:
        for layer in reversed(self._layers):
            if (value := layer.get(key, self)) is not self:
                if value is _GONE:
                    break
                return cast("V", value)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        for layer in reversed(self._layers):
            if (value := layer.get(cast("K", key), self)) is not self:
                return value is not _GONE
        return False

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return iter(self._plain())

    def keys(self) -> KeysView[K]:
        return self._plain().keys()

    def values(self) -> ValuesView[V]:
        return self._plain().values()

    def items(self) -> ItemsView[K, V]:
        return self._plain().items()

    def __reduce__(self) -> tuple[object, ...]:
        return LayeredMap, (self._plain(),)

    def __repr__(self) -> str:
        return f"LayeredMap({self._plain()})"

    def _plain(self) -> dict[K, V]:
        """All entries in one layer, kept in place of the layers: the content is equal."""
        if len(self._layers) > 1:
            self._layers = (_laid_over(self._layers),)
        return cast("dict[K, V]", self._layers[0])


class LayeredMapBuilder(Generic[K, V]):
    """The working copy of a mapping; copies only the changes."""

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base: LayeredMap[K, V] = base if isinstance(base, LayeredMap) else LayeredMap(base)
        self._changes: dict[K, object] = {}

    def get(self, key: K) -> V | None:
        value = self._changes.get(key, self)
        if value is self:
            return self._base.get(key)
        return None if value is _GONE else cast("V", value)

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: K, value: V) -> None:
        self._changes[key] = value

    def remove(self, key: K) -> None:
        self._changes[key] = _GONE

    def build(self) -> LayeredMap[K, V]:
        """The mapping so far. Later changes do not affect the returned mapping."""
        if self._changes:
            self._base, self._changes = self._base.with_changes(self._changes), {}
        return self._base


def _merged(layers: tuple[dict[K, object], ...]) -> tuple[dict[K, object], ...]:
    stack = [layer for layer in layers if layer] or [{}]
    while len(stack) > 1 and len(stack[-2]) <= 2 * len(stack[-1]):
        newest = stack.pop()
        below = stack.pop()
        stack.append({**below, **newest})
    return tuple(stack) if len(stack) > 1 else (_laid_over(tuple(stack)),)


def _laid_over(layers: tuple[dict[K, object], ...]) -> dict[K, object]:
    whole: dict[K, object] = {}
    for layer in layers:
        whole.update(layer)
    if any(value is _GONE for value in whole.values()):
        return {key: value for key, value in whole.items() if value is not _GONE}
    return whole


_FIRST = integer_within(FIRST_SEQ, MAX_OFFSET)
_LAST = Form(lambda document, name: document.integer(name, least=document.integer("first")))


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSpan:
    """A consistent cut, and its commits: `first` to `last`, both inclusive. `completed_at_ms`: when the newest pass
    known to commit `last` was completed."""

    first: Annotated[int, _FIRST]
    last: Annotated[int, _LAST]
    completed_at_ms: int
    ref: Inline[SnapshotRef]


def spans_of(ranges: Iterable[ExpiredRange | CompactedRange]) -> Mapping[PartitionId, Spans]:
    """The spans of each partition, joined."""
    grouped: dict[PartitionId, list[Span]] = {}
    for stretch in ranges:
        grouped.setdefault(stretch.partition_id, []).append((stretch.start, stretch.end))
    return {partition: join_spans(spans) for partition, spans in grouped.items()}


def _write_expired(expired: Mapping[PartitionId, Spans]) -> list[JsonValue]:
    return [
        _EXPIRED_RANGE.write(ExpiredRange(partition_id=partition, start=start, end=end))
        for partition, spans in expired.items()
        for start, end in spans
    ]


_EXPIRED_RANGE = codec_of(ExpiredRange)
_EXPIRED = Form(lambda document, name: spans_of(map(_EXPIRED_RANGE.read, document.children(name))), _write_expired)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupState:
    """A backup as of commit `seq` (0: before the first commit). `head_hash`: the hash of that commit's bytes.

    `topics`: the latest shape of each incarnation, in order of first appearance. `segments`: live segments. `branches`:
    the old histories of truncated logs, in order of discovery; the restore points before a cut need the branch's
    segments, which are in no list of live segments. `left_behind`: the partitions that the run of commit `seq` could
    not back up. `incomplete`: that run was to go on; `progress`: its progress (None: unknown). `completed_at_ms`: when
    the newest commit that completes a pass was made (as `committed_at_ms`; 0 if unknown). `read_ms`: when that pass
    read the ends of the logs, before the first complete pass the first run (0 if unknown; see also
    `TopicShape.read_ms`). `groups`: the key of the latest group snapshot. `metadata`: the latest cluster settings.
    `registry`: the latest schema registry. `cut`: the consistent cut of the positions (None: no cut). `expired`: spans
    of the live histories removed by retention; `compacted`: spans with only the latest record of each key; both rising
    and not adjacent. `compacted_until`: the latest record time before the compaction, per partition (epoch ms). `pins`:
    by number. `history`: the restore points up to `seq`. `configs_since`: for each topic, the commit since which, at
    the latest, the topic has its settings in `topics`. `unreadable`: the problem of the existing commit after `seq`;
    empty without a problem. `is_outdated`: that commit is of a newer format than this offsite reads.

    Excluded from comparison: `cuts`, the newest cuts, ascending, including cuts of older positions (states stored by an
    earlier version know only `cut`); `loose_commits` and `loose_entries`, the amount committed since the newest catalog
    named by a commit; `is_own`: the run that holds the state made its newest commit; `accounted`: a commit promised an
    account of all passed offsets (see `CommitChanges.accounted`), and every later commit must keep the promise.
    """

    backup: str
    seq: int = FIRST_SEQ - 1
    head_hash: str = NO_PREVIOUS
    committed_at_ms: int = 0
    topics: Unstored[Mapping[TopicIncarnation, TopicShape]] = field(default_factory=dict)
    positions: Unstored[Mapping[PartitionId, Position]] = field(default_factory=dict)
    segments: Unstored[Mapping[PartitionId, SegmentList]] = field(default_factory=dict)
    holes: tuple[RecordedHole, ...] = ()
    left_behind: tuple[LeftBehindPartition, ...] = ()
    incomplete: Spare[bool] = False
    progress: Spare[PassProgress | None] = None
    completed_at_ms: Unstored[int] = 0
    read_ms: Spare[TimeMs] = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    groups: str | None = None
    metadata: SnapshotRef | None = None
    registry: Spare[SnapshotRef | None] = None
    cut: Spare[SnapshotRef | None] = None
    cuts: Spare[tuple[CutSpan, ...]] = field(default=(), compare=False)
    branches: Spare[tuple[Branch, ...]] = ()
    expired: Annotated[Spare[Mapping[PartitionId, Spans]], _EXPIRED] = field(default_factory=dict)
    compacted: Unstored[Mapping[PartitionId, Spans]] = field(default_factory=dict)
    compacted_until: Unstored[Mapping[PartitionId, int]] = field(default_factory=dict)
    pins: Spare[tuple[Pin, ...]] = ()
    accounted: Spare[bool] = field(default=False, compare=False)
    history: Unstored[CommitHistory] = field(default_factory=CommitHistory)
    unreadable: Unstored[str] = ""
    is_outdated: Unstored[bool] = False
    configs_since: Unstored[Mapping[TopicIncarnation, int]] = field(default_factory=dict, compare=False)
    loose_commits: Unstored[int] = field(default=0, compare=False)
    loose_entries: Unstored[int] = field(default=0, compare=False)
    is_own: Unstored[bool] = field(default=False, compare=False)

    def incarnation(self, topic: str) -> TopicIncarnation | None:
        """The latest incarnation of `topic`."""
        return next((incarnation for incarnation in reversed(tuple(self.topics)) if incarnation.topic == topic), None)

    def latest_shapes(self) -> dict[str, TopicShape]:
        """The shape of each topic's latest incarnation, by name, in order of first appearance."""
        return {incarnation.topic: shape for incarnation, shape in self.topics.items()}

    def live_incarnations(self) -> frozenset[TopicIncarnation]:
        """The live incarnations: the latest of each topic, unless known to be deleted."""
        return frozenset(shape.incarnation for shape in self.latest_shapes().values() if not shape.is_deleted)

    def is_live(self, incarnation: TopicIncarnation) -> bool:
        """Whether `incarnation` is one of `live_incarnations`, which are many where one is asked for."""
        shape = self.topics.get(incarnation)
        return shape is not None and not shape.is_deleted and self.incarnation(incarnation.topic) == incarnation

    def all_segments(self) -> Iterator[Segment]:
        """Every live segment, by partition in sorted order, then by offset."""
        for partition_id in sorted(self.segments):
            yield from self.segments[partition_id]

    def stored_segments(self) -> Iterator[Segment]:
        """Every segment with a needed object, live or of a branch, once and whole: in the order of `all_segments`, then
        the segments of branches alone."""
        yielded_keys: set[str] = set()
        for segment in chain(self.all_segments(), *(branch.segments for branch in self.branches)):
            if segment.key not in yielded_keys:
                yielded_keys.add(segment.key)
                yield segment.as_written

    def accounted_ends(self, partitions: Iterable[PartitionId] | None = None) -> dict[PartitionId, int]:
        """The accounted end of each partition, or of each known one of `partitions`."""
        positions = (
            (partition, self.positions.get(partition))
            for partition in (self.positions if partitions is None else partitions)
        )
        return {
            partition: accounted_end(at, self.segments.get(partition)) for partition, at in positions if at is not None
        }

    def held_range(self, partition_id: PartitionId) -> Span:
        """The backed-up range of a partition, apart from holes: from its first live segment to its position. Without
        segments: empty, at the position."""
        position = self.positions.get(partition_id)
        end = position.end if position else 0
        segments = self.segments.get(partition_id)
        return min(segments.start, end) if segments else end, end

    def checkpoint(self, checkpoint_id: int) -> Checkpoint | None:
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.id == checkpoint_id), None)

    def served_by(self, head: BackupState) -> BackupState:
        """This restore point with the segments that hold its data now: those of `head` below the point's positions.

        Later commits may have merged or removed segments; missing data shows as uncovered ranges. A segment may extend
        past a position: readers stop at the position. After a truncation the old history serves the point. Of the
        restore points before this one, only those still in `head` remain.
        """
        begins = {partition_id: head.held_start(self, partition_id) for partition_id in self.positions}
        segments = {
            partition_id: SegmentList(
                segment
                for segment in head.segments_at(self.seq, partition_id)
                if begins[partition_id] <= segment.start < position.end
            )
            for partition_id, position in self.positions.items()
        }
        return replace(
            self,
            segments={partition: listed for partition, listed in segments.items() if listed},
            holes=tuple(hole for hole in self.holes if hole.end > begins.get(hole.partition_id, 0)),
            compacted=head.compacted,
            compacted_until=head.compacted_until,
            history=head.history.upto(self.seq),
        )

    def as_point(self) -> BackupState:
        """The newest restore point, without data held only for older points in front of an expired range."""
        lone = {
            partition: SegmentList(segment for segment in listed if segment.start >= spans[-1][1])
            for partition, spans in self.expired.items()
            if (spans[0][0] or len(spans) > 1) and (listed := self.segments.get(partition))
        }
        if not lone:
            return self
        segments = {partition: listed for partition, listed in {**self.segments, **lone}.items() if listed}
        return replace(
            self,
            segments=segments,
            holes=tuple(hole for hole in self.holes if hole.end > self.held_start(self, hole.partition_id)),
        )

    def held_start(self, point: BackupState, partition_id: PartitionId) -> int:
        """The first offset of a partition that this state, the newest, holds for `point`: after the expired spans of
        the history known to the point. 0 if nothing expired."""
        position = point.positions.get(partition_id)
        return held_start(self.expired_at(point.seq, partition_id), position.end) if position else 0

    def expired_at(self, seq: int, partition_id: PartitionId) -> Spans:
        """The expired spans of a partition, in the history known to commit `seq`."""
        spans, cut_since = self.expired.get(partition_id, ()), self._cut_since(seq, partition_id)
        return spans_before(spans, cut_since) if cut_since else spans

    def segments_at(self, seq: int, partition_id: PartitionId) -> SegmentList:
        """The segments of a partition, in the history known to commit `seq`."""
        live, cut_since = self.segments.get(partition_id, SegmentList()), self._cut_since(seq, partition_id)
        return segments_before(live, cut_since) if cut_since else live

    def _cut_since(self, seq: int, partition_id: PartitionId) -> list[Branch]:
        return [branch for branch in self.branches if branch.partition_id == partition_id and branch.commit > seq]

    def carry_over(self, changes: CommitChanges) -> CommitChanges:
        """`changes` with this state's facts about the newest run. This state is the one before `changes`. Readers know
        only what the newest commit states about the run."""
        return replace(changes, left_behind=self.left_behind, incomplete=self.incomplete, progress=self.progress)

    def borders(self, partition_id: PartitionId) -> frozenset[int]:
        """The offsets of a partition that no new segment may span, even a merged one (see `Branch`)."""
        return borders(branch for branch in self.branches if branch.partition_id == partition_id)


def accounted_end(position: Position, segments: SegmentList | None) -> int:
    """The accounted end of a partition with `segments`. Positions of earlier versions may lie inside the last batch."""
    last = segments.last if segments and not position.is_exact else None
    return position.end if last is None else max(position.end, last.last_offset + 1)


def segment_partition(segment: Segment) -> PartitionId:
    return PartitionId(topic=segment.topic, topic_id=segment.topic_id, partition=segment.partition)
