"""Plans of restores: the destination of every chain of a backup. Pure: data to read and facts of target topics in, a
frozen plan out. Every reason against the restore is found here, before a byte is written.

A broker judges record by record, and may refuse a record in the middle of a restore. The same rules are applied to an
existing topic here, before the first record is written. Settings that can be set aside meanwhile and put back at the
end are no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.log.range import TopicPartition
from offsite.model.cleanup_policy import is_compacted
from offsite.model.errors import BadOption, OffsiteError, ProtectedTopic, TargetMismatch, TargetNotEmpty
from offsite.model.names import PROTECTED_TOPICS, amount
from offsite.model.topic_choices import PartitionCounts, Renames
from offsite.model.units import KIB, format_size, format_time
from offsite.points.point_in_time import PartitionChain, SelectedChains, TopicChains
from offsite.repository.commit import RecordedHole, TopicShape
from offsite.repository.state import BackupState

REPARTITIONED_BATCH_BYTES = 256 * KIB
"""Size of the new batches of a repartitioned topic: a quarter of the brokers' default limit."""
UNLIMITED = 2**63 - 1
_MAKE_ROOM = "delete the empty topic, or restore under another name with --rename"
BATCH_LIMIT = "max.message.bytes"
DISKLESS, MIRROR = "diskless.enable", "mirror.name"


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
class PartitionRestore:
    """A chain, and the target partition of its records, in their order."""

    chain: PartitionChain
    target: TopicPartition

    @classmethod
    def into(cls, topic: str, chain: PartitionChain) -> PartitionRestore:
        """The restore of `chain` into the partition of `topic` with the source's partition number."""
        return cls(chain=chain, target=TopicPartition(topic=topic, partition=chain.source.partition))


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
        alone = (partition.chain for partition in self.partitions)
        return (*alone, *(source for repartition in self.repartitions for source in repartition.sources))

    def with_chains(self, change: Callable[[PartitionChain], PartitionChain]) -> RestorePlan:
        """The plan with `change` of each chain in its place."""
        return replace(
            self,
            partitions=tuple(replace(partition, chain=change(partition.chain)) for partition in self.partitions),
            repartitions=tuple(
                replace(repartition, sources=tuple(map(change, repartition.sources)))
                for repartition in self.repartitions
            ),
        )

    @property
    def by_target(self) -> Mapping[str, Sequence[PartitionRestore]]:
        """Target topic → its partitions with a target of their own."""
        partitions: dict[str, list[PartitionRestore]] = {}
        for partition in self.partitions:
            partitions.setdefault(partition.target.topic, []).append(partition)
        return partitions

    @property
    def source_names(self) -> set[str]:
        """The source names of the restored topics."""
        return {topic.source.topic for topic in self.topics}

    @property
    def raw_bytes(self) -> int:
        return sum(chain.raw_bytes for chain in self.all_chains)

    def holes_within(self, commit: BackupState) -> list[RecordedHole]:
        """The holes in the restored part of `commit`: not behind its end, nor in left-out partitions."""
        ends = {chain.source: chain.end for chain in self.all_chains}
        left_out = commit.segments.keys() - ends.keys()
        within = (hole for hole in self.holes if hole.start < ends.get(hole.partition_id, hole.end))
        return [hole for hole in within if hole.partition_id not in left_out]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """A topic that exists on the target. `records` is its number of offsets, over all partitions.

    - `max_batch_bytes`: the largest accepted batch.
    - `oldest_taken_ms`, `newest_taken_ms`: the bounds of accepted record times.
    - `oldest_kept_ms`, `kept_bytes`: brokers delete older records, and bytes of a partition beyond the limit; nothing
      unless the topic `deletes`.
    - `keeps_times`: the topic has CreateTime. `compacts`: the topic refuses records without a key.
    - `diskless`: the topic takes no transactions (KIP-1150). `mirror`: the name of the mirror that alone writes into it
      (KIP-1279), empty without one.
    - `configs` are its own settings, `ends` the end of every partition.
    """

    topic: str
    partitions: int
    records: int
    max_batch_bytes: int
    oldest_taken_ms: int
    newest_taken_ms: int
    oldest_kept_ms: int
    keeps_times: bool
    compacts: bool
    deletes: bool = True
    kept_bytes: int = UNLIMITED
    diskless: bool = False
    mirror: str = ""
    configs: tuple[tuple[str, str], ...] = ()
    ends: tuple[int, ...] = ()


def target_problems(
    target: TargetTopic, topic: TopicRestore, *, may_override_retention: bool
) -> Iterator[OffsiteError]:
    """Every reason why `target` cannot take `topic`, with a hint for the change needed."""
    if target.mirror:
        yield TargetMismatch(
            f"{target.topic} exists and mirrors a topic of another cluster ({MIRROR}={target.mirror}): brokers "
            "refuse all other writers",
            hint=f"end the mirroring of the topic, or {_MAKE_ROOM}",
        )
        return
    if target.records:
        yield TargetNotEmpty(
            f"{target.topic} exists on the target and holds {amount(target.records, 'record')}",
            hint=f"restore under another name: --rename {topic.source.topic}={topic.source.topic}-restored",
        )
        return
    if target.partitions != topic.partitions:
        yield TargetMismatch(
            f"{target.topic} exists with {amount(target.partitions, 'partition')}, but the restore needs "
            f"{topic.partitions}",
            hint="distribute the records over the existing partitions with --repartition "
            f"{topic.source.topic}={target.partitions}, or {_MAKE_ROOM}",
        )
    if target.compacts and not is_compacted(dict(topic.source.configs)):
        yield TargetMismatch(f"{target.topic} exists and is compacted, but the source topic is not", hint=_MAKE_ROOM)
    if topic.largest_batch_bytes > target.max_batch_bytes:
        yield batches_too_large(topic, target.max_batch_bytes)
    if not may_override_retention:
        yield from _retention(target, topic)


def is_too_old(target: TargetTopic, topic: TopicRestore) -> bool:
    """Whether the target's brokers would delete some of the records at once."""
    return topic.records > 0 and 0 <= topic.oldest_ms < target.oldest_kept_ms


def is_too_much(target: TargetTopic, topic: TopicRestore) -> bool:
    return topic.largest_partition_bytes > target.kept_bytes


def batches_too_large(topic: TopicRestore, limit_bytes: int) -> TargetMismatch:
    """The error for a target topic that takes smaller batches than the backup has."""
    return TargetMismatch(
        f"{topic.target} accepts batches up to {format_size(limit_bytes)} (max.message.bytes={limit_bytes}), but the "
        f"backup has a batch of {format_size(topic.largest_batch_bytes)}",
        hint=f"raise the limit to {topic.largest_batch_bytes} bytes (max.message.bytes of an existing topic, "
        f"message.max.bytes of the brokers), or {_MAKE_ROOM}",
    )


def _retention(target: TargetTopic, topic: TopicRestore) -> Iterator[OffsiteError]:
    if is_too_old(target, topic):
        yield TargetMismatch(
            f"{target.topic} deletes records older than {format_time(target.oldest_kept_ms)} (retention.ms), but the "
            f"records of the backup begin at {format_time(topic.oldest_ms)}",
            hint=f"raise its retention.ms, suspend it during the restore with --retention override, or {_MAKE_ROOM}",
        )
    if is_too_much(target, topic):
        yield TargetMismatch(
            f"{target.topic} keeps {format_size(target.kept_bytes)} of each partition (retention.bytes), but the "
            f"backup has a partition of {format_size(topic.largest_partition_bytes)}",
            hint=f"raise its retention.bytes, suspend it during the restore with --retention override, or {_MAKE_ROOM}",
        )
