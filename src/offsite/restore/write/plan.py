"""Plans of restores: the destination of every chain of a backup. Pure: data to read and target facts in, a frozen plan
out. Every reason against the restore is found here, before a byte is written."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, ProtectedTopic
from offsite.model.names import PROTECTED_TOPICS
from offsite.model.topic_choices import PartitionCounts, Renames
from offsite.model.units import KIB
from offsite.points.chain import PartitionChain, SelectedChains, TopicChains
from offsite.repository.commit import RecordedHole, TopicShape

REPARTITIONED_BATCH_BYTES = 256 * KIB
"""Size of the new batches of a repartitioned topic: a quarter of the brokers' default limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRestore:
    """One topic to restore: its shape at the source, its name at the target, and whether it has to be created.
    `repartition`: the new number of partitions, if any.

    Records begin at or before `oldest_ms`; `timestamp_max_ms` is the time of the newest record; -1 when unknown.
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
        """Number of partitions of the topic at the target."""
        return self.source.partitions if self.repartition is None else self.repartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRestore(PartitionChain):
    """A chain, and the target partition of its records, in their order."""

    target: TopicPartition

    @classmethod
    def into(cls, topic: str, chain: PartitionChain) -> PartitionRestore:
        """The restore of `chain` into the partition of `topic` with the source's partition number."""
        return cls(
            source=chain.source,
            segments=chain.segments,
            end=chain.end,
            until_ms=chain.until_ms,
            left_out=chain.left_out,
            hole_starts=chain.hole_starts,
            target=TopicPartition(topic=topic, partition=chain.source.partition),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition:
    """One topic with the records of all `sources` distributed to `partitions` target partitions by key, in new batches
    of about `batch_bytes`. Records without a key are refused, or go to the partitions in turn."""

    target: str
    partitions: int
    sources: tuple[PartitionChain, ...]
    keyless_in_turn: bool
    batch_bytes: int = REPARTITIONED_BATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A decided restore: `partitions` are chains with a target partition of their own, `repartitions` topics with mixed
    partitions. `skipped` are selected topics that are left out, with the reason."""

    backup: str
    commit: int
    topics: tuple[TopicRestore, ...]
    partitions: tuple[PartitionRestore, ...]
    holes: tuple[RecordedHole, ...]
    skipped: tuple[tuple[str, str], ...]
    repartitions: tuple[Repartition, ...] = ()

    @property
    def all_chains(self) -> tuple[PartitionChain, ...]:
        """The chains of all source partitions to read, alone or mixed."""
        return (*self.partitions, *(source for repartition in self.repartitions for source in repartition.sources))

    @property
    def source_names(self) -> set[str]:
        """The source names of the restored topics."""
        return {topic.source.topic for topic in self.topics}

    @property
    def raw_bytes(self) -> int:
        return sum(chain.raw_bytes for chain in self.all_chains)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)


def plan_restore(
    selected: SelectedChains,
    *,
    renames: Renames,
    existing: Container[str],
    counts: PartitionCounts | None = None,
) -> RestorePlan:
    """The plan to restore `selected` into a target with the topics `existing`. `counts`: new numbers of partitions. A
    schema registry needs one partition: a count for all topics does not apply to its topic.

    A preflight decides whether existing topics can take the records. Raises `BadOption` (two topics under one name, a
    count for a topic not restored), `ProtectedTopic`.
    """
    names = target_names(selected, renames)
    counts = counts or PartitionCounts()
    counts.check_all_used(names)
    topics = [(_topic(topic, names[topic.topic], existing, counts), topic.chains) for topic in selected.topics]
    return RestorePlan(
        backup=selected.backup,
        commit=selected.commit,
        topics=tuple(topic for topic, _ in topics),
        partitions=tuple(
            PartitionRestore.into(topic.target, chain)
            for topic, chains in topics
            if topic.repartition is None
            for chain in chains
        ),
        holes=selected.holes,
        skipped=selected.skipped,
        repartitions=tuple(
            Repartition(
                target=topic.target,
                partitions=topic.repartition,
                sources=chains,
                keyless_in_turn=counts.keyless_in_turn,
                batch_bytes=counts.batch_bytes or REPARTITIONED_BATCH_BYTES,
            )
            for topic, chains in topics
            if topic.repartition is not None
        ),
    )


def target_names(selected: SelectedChains, renames: Renames) -> dict[str, str]:
    """The target name of every topic of `selected`. Raises the errors of `plan_restore` for names."""
    names = renames.target_names(selected.names)
    if unused := renames.unused(names):
        raise BadOption(f"--rename names {', '.join(unused)}, which is not restored", hint="select it with --topics")
    if protected := sorted(PROTECTED_TOPICS & set(names.values())):
        raise ProtectedTopic(
            f"{protected[0]} is an internal topic of the brokers", hint="choose another name with --rename"
        )
    return names


def _topic(selected: TopicChains, target: str, existing: Container[str], counts: PartitionCounts) -> TopicRestore:
    shape, chains = selected.shape, selected.chains
    segments = [segment for chain in chains for segment in chain.segments]
    repartition = counts.of(shape.topic, shape.partitions, if_named=shape.holds_schemas)
    new_batch_bytes = 0 if repartition is None else counts.batch_bytes or REPARTITIONED_BATCH_BYTES
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
