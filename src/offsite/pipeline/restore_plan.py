"""Plans of restores: which partitions go where, from which segments. Pure: a restore point and target facts in, a
frozen plan out; every reason not to begin is found here, before a byte is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, NoSuchTopic, ProtectedTopic
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.rename import Renames
from offsite.model.selection import TopicSelection
from offsite.pipeline.target_topic import TargetTopic
from offsite.repository.commit import PartitionId, RecordedHole, TopicShape
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRestore:
    """One topic to restore: its shape at the source, its name at the target, and whether it has to be created.

    `oldest_ms` is a time at or before which records begin, `timestamp_max_ms` that of the newest; -1 when unknown.
    """

    source: TopicShape
    target: str
    create: bool
    records: int
    raw_bytes: int
    largest_batch_bytes: int
    largest_partition_bytes: int
    oldest_ms: int
    timestamp_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRestore:
    """One ordered chain: the records of `segments` below `end` (a source offset) into one target partition.

    With `until_ms` only those dated then or before.
    """

    source: PartitionId
    target: TopicPartition
    segments: tuple[Segment, ...]
    end: int
    until_ms: int | None = None

    @property
    def raw_bytes(self) -> int:
        return sum(segment.raw_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore will do. `skipped` are selected topics that are left out, with the reason."""

    backup: str
    commit: int
    topics: tuple[TopicRestore, ...]
    partitions: tuple[PartitionRestore, ...]
    holes: tuple[RecordedHole, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def raw_bytes(self) -> int:
        return sum(partition.raw_bytes for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)


def plan_restore(
    point: BackupState,
    selection: TopicSelection,
    *,
    renames: Renames,
    target_topics: Iterable[TargetTopic],
    until_ms: int | None = None,
) -> RestorePlan:
    """Decide what restoring `selection` as of `point` (see `BackupState.served_by`) means on this target. With
    `until_ms`: only records dated then or before.

    Whether `target_topics` can take it is for a preflight to judge. Raises `NoSuchTopic` (nothing selected, or a
    literal name not in the backup), `BadOption` (two topics under one name).
    """
    shapes = _selected(point, selection)
    skipped = tuple((s.topic, "owned by the brokers") for s in shapes if s.topic in PROTECTED_TOPICS)
    chosen = [shape for shape in shapes if shape.topic not in PROTECTED_TOPICS]
    names = _target_names(chosen, renames)
    existing = {topic.topic: topic for topic in target_topics}
    incarnations = {shape.incarnation for shape in chosen}
    return RestorePlan(
        backup=point.backup,
        commit=point.seq,
        topics=tuple(_topic(point, shape, names[shape.topic], existing) for shape in chosen),
        partitions=tuple(
            replace(p, until_ms=until_ms) for shape in chosen for p in _partitions(point, shape, names[shape.topic])
        ),
        holes=tuple(hole for hole in point.holes if hole.partition_id.incarnation in incarnations),
        skipped=skipped,
    )


def _selected(point: BackupState, selection: TopicSelection) -> list[TopicShape]:
    known = {incarnation.topic for incarnation in point.topics}
    if missing := selection.missing(known):
        raise NoSuchTopic(
            f"backup {point.backup} has no topic {', '.join(missing)} at commit {point.seq}",
            hint=f"see its topics with: offsite show {point.backup}",
        )
    names = selection.select(known, internal=PROTECTED_TOPICS)
    if not names:
        raise NoSuchTopic(
            f"no topic of backup {point.backup} is selected", hint=f"see its topics with: offsite show {point.backup}"
        )
    latest = (point.incarnation(name) for name in names)
    return [point.topics[incarnation] for incarnation in latest if incarnation is not None]


def _target_names(shapes: Sequence[TopicShape], renames: Renames) -> dict[str, str]:
    names = {shape.topic: renames.target_name(shape.topic) for shape in shapes}
    if unused := renames.unused(names):
        raise BadOption(f"--rename names {', '.join(unused)}, which is not restored", hint="select it with --topics")
    if len(set(names.values())) < len(names):
        raise BadOption("two topics would be restored under one name", hint="give each its own --rename")
    if protected := sorted(PROTECTED_TOPICS & set(names.values())):
        raise ProtectedTopic(f"{protected[0]} belongs to the brokers", hint="choose another name with --rename")
    return names


def _topic(point: BackupState, shape: TopicShape, target: str, existing: Mapping[str, TargetTopic]) -> TopicRestore:
    chains = _partitions(point, shape, target)
    segments = [s for p in chains for s in p.segments]
    return TopicRestore(
        source=shape,
        target=target,
        create=target not in existing,
        records=sum(s.records for s in segments),
        raw_bytes=sum(s.raw_bytes for s in segments),
        largest_batch_bytes=max((s.largest_batch_bytes for s in segments), default=0),
        largest_partition_bytes=max((chain.raw_bytes for chain in chains), default=0),
        oldest_ms=min((s.base_timestamp_min_ms for s in segments if s.base_timestamp_min_ms >= 0), default=-1),
        timestamp_max_ms=max((s.timestamp_max_ms for s in segments), default=-1),
    )


def _partitions(point: BackupState, shape: TopicShape, target: str) -> list[PartitionRestore]:
    """One chain for each partition that holds anything; an empty one needs no task, its topic's creation is enough."""
    chains = []
    for number in range(shape.partitions):
        source = PartitionId(topic=shape.topic, topic_id=shape.topic_id, partition=number)
        segments = tuple(point.segments.get(source, ()))
        if segments:
            partition = TopicPartition(topic=target, partition=number)
            end = point.positions[source].end
            chains.append(PartitionRestore(source=source, target=partition, segments=segments, end=end))
    return chains
