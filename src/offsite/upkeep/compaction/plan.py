"""The plan of a compaction, decided from the commits alone, and shown before any change. A note of the stretches
that the last compaction took at once is a hint, overwritten and never trusted.

The state of a backup records compacted data in the smallest number of spans. When points are dropped, stretches become
adjacent, and two pieces compacted separately can shrink further together: that requires the pieces. Without the note,
or with a wrong note, a region is compacted too early or too late; the result is right either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.log.range import PartitionId, Span
from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import noted
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.selection import TopicSelection
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape, read_partition, write_partition
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.repository.leftovers import living_since_ms
from offsite.repository.state import BackupState
from offsite.upkeep.compaction.point_ends import PointEnds, is_seen_compacted
from offsite.upkeep.compaction.regions import Region, find_regions

Stretches = Mapping[PartitionId, tuple[Span, ...]]

MIN_DIRTY_RATIO = 0.5
"""Kafka's default of `min.cleanable.dirty.ratio`: each byte is then rewritten about once, however long the backup
lasts."""
_RATIO = "min.cleanable.dirty.ratio"
ALL_TOPICS = TopicSelection(include=("*",), internal=True)


def get_stretches(backup: Backup) -> Stretches:
    """The stretches compacted at once, of each partition; empty without a note."""
    key = backup.layout.compaction_key
    try:
        data = backup.store.get(key)
        if data is None:
            return {}
        document = parse_json_object(data, source=key, damaged=DamagedObject)
        return {read_partition(partition): _spans(partition) for partition in document.children("partitions")}
    except OffsiteError as error:
        noted("hint_unusable", what=key, why=error.message)
        return {}


def put_stretches(backup: Backup, regions: Iterable[Region]) -> None:
    """Note the compacted stretches of `regions`, each compacted at once. A failure is logged and ignored."""
    stretches = dict(get_stretches(backup))
    for region in regions:
        untouched = (
            span for span in stretches.get(region.partition, ()) if span[1] <= region.start or region.end <= span[0]
        )
        stretches[region.partition] = tuple(sorted((*untouched, *region.stretches)))
    partitions: list[JsonValue] = [_to_json(partition, stretches[partition]) for partition in sorted(stretches)]
    try:
        data = encode_object({"format": FORMAT, "partitions": partitions})
        backup.store.put_overwrite(backup.layout.compaction_key, data)
    except OffsiteError as error:
        noted("no_note", what="what was compacted", why=error.message)


def clean_spans(state: BackupState, partition: PartitionId, stretches: Stretches) -> tuple[Span, ...]:
    """The parts of the partition compacted at once, if known; else the spans of the state."""
    pieces = stretches.get(partition, ())
    clean: list[Span] = []
    for low, high in state.compacted.get(partition, ()):
        inside = [(max(low, start), min(high, end)) for start, end in pieces if start < high and low < end]
        clean += inside or [(low, high)]
    return tuple(clean)


def _to_json(partition: PartitionId, spans: Iterable[Span]) -> dict[str, JsonValue]:
    return {**write_partition(partition), "spans": [{"start": start, "end": end} for start, end in spans]}


def _spans(document: JsonObject) -> tuple[Span, ...]:
    return tuple((span.count("start"), span.count("end")) for span in document.children("spans"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """The compacted topics to include, and the ratio of new bytes in a region due for compaction (None: the topic's own
    `min.cleanable.dirty.ratio`). `max_bytes`: raw bytes at once, unless one region is larger; None: all due regions."""

    selection: TopicSelection = ALL_TOPICS
    min_dirty_ratio: float | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The due `regions` of `head`, the newest state; `not_due`: the number of further regions. `is_all`: no further
    region is due. `restore_runs`: no region is due, because a running restore must find its data unchanged."""

    request: CompactionRequest
    head: BackupState
    regions: tuple[Region, ...] = ()
    not_due: int = 0
    is_all: bool = True
    restore_runs: bool = False

    @property
    def raw_bytes(self) -> int:
        return sum(region.raw_bytes for region in self.regions)

    @property
    def records(self) -> int:
        return sum(region.records for region in self.regions)


def plan_compaction(backup: Backup, request: CompactionRequest, *, head: BackupState | None = None) -> CompactionPlan:
    """The plan for `head`, the newest state by default. Changes nothing. Raises `NoSuchTopic`, `DamagedCommit`."""
    head = head or backup.state()
    shapes = tuple(compacted_shapes(head, request.selection))
    if not shapes:
        return CompactionPlan(request=request, head=head)
    if living_since_ms(backup) is not None:
        return CompactionPlan(request=request, head=head, restore_runs=True)
    stretches = get_stretches(backup)
    points = PointEnds(backup, head, (partition for shape in shapes for partition in shape.partition_ids))
    due: list[Region] = []
    not_due = 0
    for shape in shapes:
        for region in _regions(shape, head, points, stretches):
            if region.dirty_bytes >= _min_ratio(shape, request) * region.raw_bytes and region.dirty_bytes:
                due.append(region)
            else:
                not_due += 1
    chosen = tuple(first_regions(due, request.max_bytes))
    return CompactionPlan(request=request, head=head, regions=chosen, not_due=not_due, is_all=len(chosen) == len(due))


def first_regions(regions: Iterable[Region], max_bytes: int | None) -> Iterator[Region]:
    """The first of `regions` with together at most `max_bytes` raw bytes, and at least one region."""
    size_bytes = 0
    for region in regions:
        size_bytes += region.raw_bytes
        if max_bytes is not None and size_bytes > max_bytes and size_bytes > region.raw_bytes:
            return
        yield region


def compacted_shapes(state: BackupState, selection: TopicSelection) -> Iterator[TopicShape]:
    """The topics known to be compacted, each in its latest incarnation."""
    latest = state.latest_shapes()
    for name in selection.select(latest, internal=PROTECTED_TOPICS):
        shape = latest[name]
        if name not in PROTECTED_TOPICS and is_seen_compacted(shape):
            yield shape


def _regions(shape: TopicShape, head: BackupState, points: PointEnds, stretches: Stretches) -> Iterator[Region]:
    configs = dict(shape.configs)
    for partition in shape.partition_ids:
        listed = head.segments.get(partition)
        segments = listed.read() if listed else ()
        if not segments:
            continue
        ends = points.ends(partition)
        for region in find_regions(
            partition,
            segments,
            point_ends=ends,
            above=points.above(partition),
            borders=head.borders(partition),
            holes=[(hole.start, hole.end) for hole in head.holes if hole.partition_id == partition],
            clean=clean_spans(head, partition, stretches),
        ):
            if _is_first_held(region, segments[0].start, head):
                below = points.tombstones_below(partition, start=region.start, configs=configs)
                yield replace(region, tombstones_below=below)
            else:
                yield region


def _is_first_held(region: Region, first: int, head: BackupState) -> bool:
    """Whether no readable data lies in front of the region. Otherwise removing a tombstone would bring older data back
    to life."""
    begins = {first, *(high for _, high in head.expired.get(region.partition, ()))}
    return region.start in begins and not any(branch.partition_id == region.partition for branch in head.branches)


def _min_ratio(shape: TopicShape, request: CompactionRequest) -> float:
    if request.min_dirty_ratio is not None:
        return request.min_dirty_ratio
    try:
        return float(dict(shape.configs).get(_RATIO, MIN_DIRTY_RATIO))
    except ValueError:
        return MIN_DIRTY_RATIO


def is_unchanged(region: Region, state: BackupState) -> bool:
    """Whether `state`, later than the plan's state, still has all of the region's segments unchanged, of a compacted
    topic. Points since the plan end after the region; after a truncation in the region, its segments are replaced by
    parts."""
    shape = state.topics.get(region.partition.incarnation)
    listed = state.segments.get(region.partition)
    live = {segment.key: segment for segment in listed.read()} if listed else {}
    same = all(live.get(segment.key) == segment for segment in region.segments)
    return same and shape is not None and is_seen_compacted(shape)
