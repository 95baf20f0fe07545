"""Plans of restores: which partitions go where, from which segments. Pure: a restore point and target facts in, a
frozen plan out; every reason not to begin is found here, before a byte is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, NoSuchTopic, ProtectedTopic
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.partition_counts import PartitionCounts
from offsite.model.rename import Renames
from offsite.model.selection import TopicSelection
from offsite.model.size import KIB
from offsite.pipeline.target_topic import TargetTopic
from offsite.repository.commit import PartitionId, RecordedHole, TopicShape
from offsite.repository.segment import Segment
from offsite.repository.state import BackupState

REPARTITIONED_BATCH_BYTES = 256 * KIB
"""How large the new batches of a repartitioned topic get: a quarter of what brokers take by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRestore:
    """One topic to restore: its shape at the source, its name at the target, and whether it has to be created. With
    `repartition` it gets that many partitions.

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
    repartition: int | None = None

    @property
    def partitions(self) -> int:
        """How many it has at the target."""
        return self.source.partitions if self.repartition is None else self.repartition


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
class Repartition:
    """One topic whose records, those of all `sources`, go to `partitions` target partitions by their keys. What has no
    key is refused, or goes to each in turn."""

    target: str
    partitions: int
    sources: tuple[PartitionRestore, ...]
    keyless_in_turn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What a restore will do: `partitions` are chains of their own, `repartitions` topics whose partitions mix.
    `skipped` are selected topics that are left out, with the reason."""

    backup: str
    commit: int
    topics: tuple[TopicRestore, ...]
    partitions: tuple[PartitionRestore, ...]
    holes: tuple[RecordedHole, ...]
    skipped: tuple[tuple[str, str], ...]
    repartitions: tuple[Repartition, ...] = ()

    @property
    def all_chains(self) -> tuple[PartitionRestore, ...]:
        """Of every source partition that is read, whether alone or mixed with others."""
        return (*self.partitions, *(source for each in self.repartitions for source in each.sources))

    @property
    def raw_bytes(self) -> int:
        return sum(chain.raw_bytes for chain in self.all_chains)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)


def plan_restore(  # noqa: PLR0913  # the restore point, what is meant of it, and the target
    point: BackupState,
    selection: TopicSelection,
    *,
    renames: Renames,
    target_topics: Iterable[TargetTopic],
    until_ms: int | None = None,
    counts: PartitionCounts | None = None,
) -> RestorePlan:
    """Decide what restoring `selection` as of `point` (see `BackupState.served_by`) means on this target. With
    `until_ms`: only records dated then or before. `counts`: of partitions, where they change; a schema registry wants
    one, so a count for all topics does not mean its own. That topic is the first of the plan.

    Whether `target_topics` can take it is for a preflight to judge. Raises `NoSuchTopic` (nothing selected, or a
    literal name not in the backup), `BadOption` (two topics under one name, a count for a topic not restored).
    """
    shapes = _selected(point, selection)
    skipped = tuple((s.topic, "owned by the brokers") for s in shapes if s.topic in PROTECTED_TOPICS)
    chosen = sorted(_restorable(shapes), key=lambda shape: not shape.holds_schemas)
    names = _target_names(chosen, renames)
    existing = {topic.topic: topic for topic in target_topics}
    incarnations = {shape.incarnation for shape in chosen}
    counts = counts or PartitionCounts()
    counts.check_all_used(names)
    chains = {s.topic: _partitions(point, s, names[s.topic], until_ms) for s in chosen}
    topics = tuple(_topic(s, names[s.topic], existing, chains[s.topic], counts) for s in chosen)
    return RestorePlan(
        backup=point.backup,
        commit=point.seq,
        topics=topics,
        partitions=tuple(p for topic in topics if topic.repartition is None for p in chains[topic.source.topic]),
        holes=tuple(hole for hole in point.holes if hole.partition_id.incarnation in incarnations),
        skipped=skipped,
        repartitions=tuple(
            Repartition(
                target=topic.target,
                partitions=topic.repartition,
                sources=tuple(chains[topic.source.topic]),
                keyless_in_turn=counts.keyless_in_turn,
            )
            for topic in topics
            if topic.repartition is not None
        ),
    )


def target_names(point: BackupState, selection: TopicSelection, renames: Renames) -> dict[str, str]:
    """The name at the target of each topic that `plan_restore` would restore. Raises what it raises of these."""
    return _target_names(_restorable(_selected(point, selection)), renames)


def _restorable(shapes: Iterable[TopicShape]) -> list[TopicShape]:
    return [shape for shape in shapes if shape.topic not in PROTECTED_TOPICS]


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


def _topic(
    shape: TopicShape,
    target: str,
    existing: Mapping[str, TargetTopic],
    chains: Sequence[PartitionRestore],
    counts: PartitionCounts,
) -> TopicRestore:
    segments = [s for p in chains for s in p.segments]
    repartition = counts.of(shape.topic, shape.partitions, if_named=shape.holds_schemas)
    new_batch_bytes = 0 if repartition is None else REPARTITIONED_BATCH_BYTES
    return TopicRestore(
        source=shape,
        target=target,
        create=target not in existing,
        records=sum(s.records for s in segments),
        raw_bytes=sum(s.raw_bytes for s in segments),
        largest_batch_bytes=max((new_batch_bytes, *(s.largest_batch_bytes for s in segments))),
        largest_partition_bytes=max((chain.raw_bytes for chain in chains), default=0),
        oldest_ms=min((s.base_timestamp_min_ms for s in segments if s.base_timestamp_min_ms >= 0), default=-1),
        timestamp_max_ms=max((s.timestamp_max_ms for s in segments), default=-1),
        repartition=repartition,
    )


def _partitions(point: BackupState, shape: TopicShape, target: str, until_ms: int | None) -> list[PartitionRestore]:
    """One chain for each partition that holds anything; an empty one needs no task, its topic's creation is enough."""
    chains = []
    for number in range(shape.partitions):
        source = PartitionId(topic=shape.topic, topic_id=shape.topic_id, partition=number)
        if segments := tuple(point.segments.get(source, ())):
            chains.append(
                PartitionRestore(
                    source=source,
                    target=TopicPartition(topic=target, partition=number),
                    segments=segments,
                    end=point.positions[source].end,
                    until_ms=until_ms,
                )
            )
    return chains
