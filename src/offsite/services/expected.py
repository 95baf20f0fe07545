"""What is expected of a cluster, topic by topic, and where in it that has to be looked for. Decides; reads nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from offsite.log.range import LogRange, TopicPartition
from offsite.pipeline.preserve_pieces import log_start
from offsite.pipeline.proof import ProofTask
from offsite.pipeline.restore_plan import PartitionRestore, Repartition, RestorePlan
from offsite.repository.commit import PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTopic:
    """What `target` should hold: the records of `chains`, one for each partition that holds anything, and nothing in
    the other ones of `partitions`; or those of `repartition`, where they go by key.

    `read_committed`: of what consumers of that isolation see. `starts`: where each target partition began, as a restore
    remembers it; None: at its log start. `same_offsets`: records must have their source's offsets; a `compacted` topic
    may then lack some of them. `same_bounds`: the log must start and end where the source's did.
    """

    source: str
    target: str
    partitions: int
    chains: tuple[PartitionRestore, ...]
    starts: Mapping[int, int] | None
    read_committed: bool
    same_offsets: bool
    same_bounds: bool = False
    compacted: bool = False
    repartition: Repartition | None = None

    @property
    def raw_bytes(self) -> int:
        chains = self.chains if self.repartition is None else self.repartition.sources
        return sum(chain.raw_bytes for chain in chains)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """Where one partition of the cluster begins and ends now."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What to read of one target partition. `expired_offsets`: how much of its beginning the cluster has deleted.
    `wrong_bounds` says how the log does not start and end where it should, if so. `task` is None where no partition of
    its own says what to expect: reading would tell nothing, or it goes by key."""

    topic: ExpectedTopic
    target: LogRange
    expired_offsets: int
    wrong_bounds: str
    task: ProofTask | None


def expected_topics(
    plan: RestorePlan,
    *,
    starts: Mapping[TopicPartition, int] | None,
    read_committed: bool,
    same_offsets: Collection[str],
) -> list[ExpectedTopic]:
    """What a restore by `plan` leaves behind, when its target partitions began at `starts`. `same_offsets` are the
    target topics that keep the source's offsets."""
    chains: dict[str, list[PartitionRestore]] = {topic.target: [] for topic in plan.topics}
    for chain in plan.partitions:
        chains[chain.target.topic].append(chain)
    repartitions = {each.target: each for each in plan.repartitions}
    begun: dict[str, dict[int, int]] = {topic.target: {} for topic in plan.topics}
    for each, start in (starts or {}).items():
        begun[each.topic][each.partition] = start
    return [
        ExpectedTopic(
            source=topic.source.topic,
            target=topic.target,
            partitions=topic.partitions,
            chains=tuple(chains[topic.target]),
            starts=None if starts is None else begun[topic.target],
            read_committed=read_committed,
            same_offsets=topic.target in same_offsets,
            same_bounds=starts is not None and topic.target in same_offsets,
            repartition=repartitions.get(topic.target),
        )
        for topic in plan.topics
    ]


def checks(topic: ExpectedTopic, bounds: Mapping[TopicPartition, PartitionBounds], *, exact: bool) -> Iterator[Check]:
    """One check for each partition of the topic, in their order."""
    chains = {chain.target.partition: chain for chain in topic.chains}
    for number in range(topic.partitions):
        target = TopicPartition(topic=topic.target, partition=number)
        if topic.repartition is None:
            yield _check(topic, chains.get(number) or _nothing(topic, target), bounds[target], exact=exact)
        else:
            yield Check(
                topic=topic, target=_range(topic, target, bounds[target]), expired_offsets=0, wrong_bounds="", task=None
            )


def _nothing(topic: ExpectedTopic, target: TopicPartition) -> PartitionRestore:
    source = PartitionId(topic=topic.source, topic_id="", partition=target.partition)
    return PartitionRestore(source=source, target=target, segments=(), end=0)


def _check(topic: ExpectedTopic, chain: PartitionRestore, bounds: PartitionBounds, *, exact: bool) -> Check:
    """A restore without the source's offsets is found by where it began."""
    target = _range(topic, chain.target, bounds)
    begun = bounds.start if topic.starts is None else topic.starts[chain.target.partition]
    if topic.same_offsets:
        begun = log_start(chain) if chain.segments else bounds.start
    expired = max(0, bounds.start - begun)
    task = ProofTask(
        partition=chain,
        target=target,
        read_committed=topic.read_committed,
        offsets=topic.same_offsets,
        compacted=topic.compacted,
        skip_below=bounds.start if topic.same_offsets and not exact else 0,
        skip_records=expired if not topic.same_offsets and not exact else 0,
    )
    tells = bool(chain.segments) or (exact and len(target) > 0)
    return Check(
        topic=topic,
        target=target,
        expired_offsets=expired,
        wrong_bounds=_wrong_bounds(chain, bounds) if exact and topic.same_bounds else "",
        task=task if tells else None,
    )


def _wrong_bounds(chain: PartitionRestore, bounds: PartitionBounds) -> str:
    start = log_start(chain)
    if (bounds.start, bounds.end) == (start, chain.end):
        return ""
    return f"the log has offsets {bounds.start} to {bounds.end} instead of {start} to {chain.end}"


def _range(topic: ExpectedTopic, target: TopicPartition, bounds: PartitionBounds) -> LogRange:
    begun = bounds.start
    if topic.starts is not None and not topic.same_offsets:
        begun = max(begun, topic.starts[target.partition])
    return LogRange(topic=target.topic, partition=target.partition, start=begun, end=max(begun, bounds.end))
