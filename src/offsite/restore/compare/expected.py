"""The records expected of a cluster, topic by topic, and the ranges to read. Decides; reads nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.log.range import LogRange, PartitionId, TopicPartition
from offsite.points.point_in_time import PartitionChain
from offsite.restore.compare.partition import ProofTask
from offsite.restore.write.pieces import log_start
from offsite.restore.write.plan import Repartition, RestorePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupExtent:
    """Offsets `[start, end)` of one partition: every offset is in the backup, or held no record, or lies in one of the
    recorded `holes`. All of them can be compared, and no record in the range was written since. Below `exact_from` the
    backup was compacted, and is not compared."""

    start: int
    end: int
    holes: tuple[LogRange, ...] = ()
    exact_from: int = 0


NO_EXTENT = BackupExtent(start=0, end=0)
"""The extent of a partition unknown to the backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTopic:
    """One topic expected of the cluster: `target` should hold the records of `chains`, by partition, and nothing in
    further partitions of `partitions`; or the records of `repartition`, distributed by key.

    - `read_committed`: compare the view of consumers of this isolation.
    - `starts`: the start of every target partition, as recorded by a restore; None: its log start.
    - `same_offsets`: records must have their source's offsets. `same_bounds`: the log must start and end where the
      source's did.
    - `compacted`: the topic may lack records whose key comes again, when the offsets of the rest are known: by
      `same_offsets`, or by `starts`.
    - `extents`: by partition, when the source's offsets are the target's; None: only the records show the extent of the
      backup.
    - `whole_log`: the very topic of the backup: markers and aborted records must exist, too.
    """

    source: str
    target: str
    partitions: int
    chains: Mapping[int, PartitionChain]
    starts: Mapping[int, int] | None
    read_committed: bool
    same_offsets: bool
    same_bounds: bool = False
    compacted: bool = False
    repartition: Repartition | None = None
    extents: Mapping[int, BackupExtent] | None = None
    whole_log: bool = False

    def extent(self, partition: int) -> BackupExtent | None:
        """The extent of a partition; None when not known by offsets."""
        return None if self.extents is None else self.extents.get(partition, NO_EXTENT)

    @property
    def raw_bytes(self) -> int:
        chains = self.chains.values() if self.repartition is None else self.repartition.sources
        return sum(chain.raw_bytes for chain in chains)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedBounds:
    """The begin and end offset of one partition of the cluster now."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """One target partition to read, with a log that ends at `log_end`. `expired_offsets`: offsets at its beginning that
    the cluster has deleted; `hole_offsets`: offsets of the rest in holes of the backup. `wrong_bounds`: how the log's
    start or end is wrong, `truncated`: how the log ends before the backup, if so. `task` is None when no partition of
    its own is expected: reading would prove nothing, or records go by key."""

    topic: ExpectedTopic
    target: LogRange
    log_end: int
    task: ProofTask | None
    expired_offsets: int = 0
    hole_offsets: int = 0
    wrong_bounds: str = ""
    truncated: str = ""

    def later_offsets(self, following: int) -> int:
        """Number of offsets in the log behind the extent of the backup; `following` is the first record there, or
        -1."""
        extent = self.topic.extent(self.target.partition)
        if extent is not None:
            return max(0, self.log_end - extent.end)
        return self.log_end - following if following >= 0 else 0


def expected_topics(
    plan: RestorePlan,
    *,
    starts: Mapping[TopicPartition, int],
    read_committed: bool,
    same_offsets: Collection[str],
) -> list[ExpectedTopic]:
    """The topics after a restore by `plan`, with target partitions that began at `starts`. `same_offsets` are the
    target topics that keep the source's offsets."""
    chains: dict[str, dict[int, PartitionChain]] = {topic.target: {} for topic in plan.topics}
    for partition in plan.partitions:
        chains[partition.target.topic][partition.target.partition] = partition.chain
    repartitions = {repartition.target: repartition for repartition in plan.repartitions}
    target_starts: dict[str, dict[int, int]] = {topic.target: {} for topic in plan.topics}
    for target, start in starts.items():
        target_starts[target.topic][target.partition] = start
    return [
        ExpectedTopic(
            source=topic.source.topic,
            target=topic.target,
            partitions=topic.partitions,
            chains=chains[topic.target],
            starts=target_starts[topic.target],
            read_committed=read_committed,
            same_offsets=topic.target in same_offsets,
            same_bounds=topic.target in same_offsets,
            repartition=repartitions.get(topic.target),
            extents=preserved_extents(chains[topic.target]) if topic.target in same_offsets else None,
        )
        for topic in plan.topics
    ]


def preserved_extents(chains: Mapping[int, PartitionChain]) -> dict[int, BackupExtent]:
    """The extents of partitions that a restore wrote at the offsets of their sources: no other record may exist below
    their ends, neither before the source's log start nor in holes of the backup."""
    return {partition: BackupExtent(start=0, end=chain.end) for partition, chain in chains.items()}


def plan_checks(
    topic: ExpectedTopic, bounds: Mapping[TopicPartition, ExpectedBounds], *, exact: bool
) -> Iterator[PartitionCheck]:
    """One check per partition of the topic with known bounds, in their order."""
    for number in range(topic.partitions):
        target = TopicPartition(topic=topic.target, partition=number)
        if target not in bounds:
            continue
        if topic.repartition is None:
            chain = topic.chains.get(number) or _nothing(topic, number)
            yield _check(topic, target, chain, bounds[target], exact=exact)
        else:
            log_range = _range(topic, target, bounds[target], exact=exact)
            yield PartitionCheck(topic=topic, target=log_range, log_end=log_range.end, task=None)


def _nothing(topic: ExpectedTopic, partition: int) -> PartitionChain:
    return PartitionChain(source=PartitionId(topic=topic.source, topic_id="", partition=partition), segments=(), end=0)


def _check(
    topic: ExpectedTopic, partition: TopicPartition, chain: PartitionChain, bounds: ExpectedBounds, *, exact: bool
) -> PartitionCheck:
    target, extent = _range(topic, partition, bounds, exact=exact), topic.extent(partition.partition)
    log_start_now = bounds.start if extent is None else min(bounds.start, extent.end)
    expired = max(0, log_start_now - _begun(topic, partition.partition, chain, bounds))
    begin = 0 if exact else target.start
    begin = begin if extent is None else max(begin, extent.exact_from)
    if topic.same_offsets:
        chain = _above(chain, begin)
    truncated = _truncated(extent, bounds)
    holes = () if extent is None else tuple(_within(extent.holes, target))
    task = ProofTask(
        partition=chain,
        target=target,
        read_committed=topic.read_committed,
        whole_log=topic.whole_log,
        bounded=extent is not None,
        offsets=topic.same_offsets,
        compacted=topic.compacted and (topic.same_offsets or topic.starts is not None),
        goes_on=extent is not None and not truncated,
        log_end=bounds.end,
        holes=holes,
        skip_below=begin if topic.same_offsets else 0,
        skip_records=expired if not topic.same_offsets and not exact else 0,
    )
    return PartitionCheck(
        topic=topic,
        target=target,
        log_end=bounds.end,
        task=task if chain.segments or len(target) > 0 else None,
        expired_offsets=expired,
        hole_offsets=sum(map(len, holes)),
        wrong_bounds=_wrong_bounds(chain, bounds) if exact and topic.same_bounds else "",
        truncated=truncated,
    )


def _begun(topic: ExpectedTopic, partition: int, chain: PartitionChain, bounds: ExpectedBounds) -> int:
    """The target offset at which the backup's records begin. Without the source's offsets, the start recorded by the
    restore."""
    if topic.same_offsets:
        return log_start(chain) if chain.segments else bounds.start
    return bounds.start if topic.starts is None else topic.starts[partition]


def _above(chain: PartitionChain, offset: int) -> PartitionChain:
    """The chain without segments that end at or below the offset: they need not be read."""
    return replace(chain, segments=tuple(s for s in chain.segments if s.next_offset > offset))


def _within(holes: Iterable[LogRange], target: LogRange) -> Iterator[LogRange]:
    for hole in holes:
        start, end = max(hole.start, target.start), min(hole.end, target.end)
        if start < end:
            yield replace(target, start=start, end=end)


def _truncated(extent: BackupExtent | None, bounds: ExpectedBounds) -> str:
    if extent is None or bounds.end >= extent.end:
        return ""
    return f"its log ends at offset {bounds.end}, the backup has records up to {extent.end}"


def _wrong_bounds(chain: PartitionChain, bounds: ExpectedBounds) -> str:
    start = log_start(chain)
    if (bounds.start, bounds.end) == (start, chain.end):
        return ""
    return f"the log has offsets {bounds.start} to {bounds.end} instead of {start} to {chain.end}"


def _range(topic: ExpectedTopic, target: TopicPartition, bounds: ExpectedBounds, *, exact: bool) -> LogRange:
    """The range of the log to compare: to the end of the backup's extent, when known by offsets."""
    start, end, extent = bounds.start, bounds.end, topic.extent(target.partition)
    if topic.starts is not None and not topic.same_offsets:
        start = max(start, topic.starts[target.partition])
    if extent is not None and not exact:
        start, end = max(start, extent.start), min(end, extent.end)
    return LogRange(topic=target.topic, partition=target.partition, start=start, end=max(start, end))
