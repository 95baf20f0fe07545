"""The tasks of a restore: which topics keep their source's offsets, and what is written first.

The choice of topics that keep offsets is made once, before anything is touched, and recorded. A schema registry's topic
is restored before the topics with values that need schemas, and never over the topic of a running registry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from offsite.model.errors import RestoreRefused
from offsite.model.journal import decided
from offsite.model.options import OffsetsMode
from offsite.model.selection import TopicSelection
from offsite.model.units import format_duration
from offsite.points.chain import PartitionChain
from offsite.points.point_in_time import PointInTime, is_open
from offsite.repository.restores.record import RestoreRecord, RestoreTargets
from offsite.restore.request import RestoreRequest
from offsite.restore.write.bundle import AnyRestoreTask
from offsite.restore.write.plan import PartitionRestore, RestorePlan, TargetTopic, TopicRestore
from offsite.restore.write.preserve.copy import PreserveTask
from offsite.restore.write.preserve.verdict import (
    AUTO_EXTRA_MAX_S,
    BY_COORDINATOR,
    DIRECT_NEEDS,
    OffsetsVerdict,
    PreservedPartition,
    ReplayWay,
    SlowTransaction,
    describe_slow_transaction,
    obstacle,
    preserved_partition,
)
from offsite.restore.write.translate import RestoreTask

FindSlow = Callable[[PartitionRestore], SlowTransaction | None]


def decide_offsets(  # noqa: PLR0913  # what to decide on, and whom to ask
    plan: RestorePlan,
    point: PointInTime,
    request: RestoreRequest,
    *,
    existing: Iterable[TargetTopic],
    unfinished: RestoreRecord | None,
    find_slow: FindSlow = lambda _: None,
    cannot_replay: str = "",
    way: ReplayWay = BY_COORDINATOR,
) -> tuple[OffsetsVerdict, ...]:
    """One verdict per topic of `plan`; the verdicts of an `unfinished` restore stand. `find_slow` finds a partition's
    transaction that would stay open too long.

    `auto` keeps offsets when possible, quick, and likely to end well. `cannot_replay`: why the target's brokers cannot
    replay transactions, or empty; `way`: how offsets without a record come back. Raises `RestoreRefused`, with all
    reasons, when offsets were requested and cannot be kept.
    """
    targets = {target.topic: target for target in existing}
    chains = _by_target(plan)
    judge = partial(_judge, point=point, request=request, way=way)
    verdicts = [judge(topic, chains.get(topic.target, ()), targets.get(topic.target)) for topic in plan.topics]
    verdicts = [_unless_replayed(verdict, cannot_replay) for verdict in verdicts]
    if unfinished is not None:
        return tuple(replace(verdict, preserve=verdict.target in unfinished.preserved) for verdict in verdicts)
    verdicts = [_checked_for_slow(verdict, request, find_slow) if verdict.preserve else verdict for verdict in verdicts]
    if request.offsets == OffsetsMode.PRESERVE and (
        refused := [verdict for verdict in verdicts if not verdict.preserve]
    ):
        raise RestoreRefused(
            "; ".join(f"{verdict.source} cannot keep its offsets: {verdict.reason}" for verdict in refused),
            hint=(
                "use --offsets auto: it keeps the offsets where possible, and stores a map from old to new offsets "
                "for the other topics"
            ),
        )
    if request.offsets == OffsetsMode.AUTO:
        for verdict in verdicts:
            if not verdict.preserve:
                decided(
                    "fall_back",
                    to=OffsetsMode.TRANSLATE,
                    topic=verdict.source,
                    target=verdict.target,
                    why=verdict.reason,
                )
    return tuple(verdicts)


def restore_tasks(
    plan: RestorePlan, offsets: Sequence[OffsetsVerdict], targets: RestoreTargets, *, created: Collection[str] = ()
) -> list[AnyRestoreTask]:
    """One task per partition, topics in the plan's order. A disturbed topic can be made again if this restore `created`
    it: the quick way is tried first, but not a second time."""
    translated, starts, makings = _by_target(plan), dict(targets.starts), dict(targets.makings)
    tasks: list[AnyRestoreTask] = []
    for topic in offsets:
        making = makings.get(topic.target, 1)
        if topic.preserve:
            tasks += [
                PreserveTask(
                    partition=partition.chain,
                    target_start=starts[partition.chain.target],
                    making=making,
                    direct=partition.way.direct,
                    careful=making > 1 or topic.target not in created,
                )
                for partition in topic.partitions
            ]
        else:
            tasks += [
                RestoreTask(partition=chain, target_start=starts[chain.target], making=making)
                for chain in translated.get(topic.target, ())
            ]
    return tasks


def _judge(  # noqa: PLR0913  # the topic, and what is the same for all
    topic: TopicRestore,
    chains: Sequence[PartitionRestore],
    target: TargetTopic | None,
    *,
    point: PointInTime,
    request: RestoreRequest,
    way: ReplayWay,
) -> OffsetsVerdict:
    offsets = OffsetsVerdict(
        source=topic.source.topic,
        target=topic.target,
        preserve=False,
        reason=_reason(topic, point, request) if request.offsets != OffsetsMode.TRANSLATE else "",
        partitions=(),
    )
    if request.offsets == OffsetsMode.TRANSLATE or offsets.reason:
        return offsets
    every = tuple(_chains(topic, chains, point, request))
    offsets = replace(offsets, partitions=tuple(_partitions(every, target, way)))
    reason = obstacle(offsets.partitions, target)
    if not reason and request.offsets == OffsetsMode.AUTO and offsets.extra_s > AUTO_EXTRA_MAX_S:
        reason = (
            f"it would take about {format_duration(offsets.extra_s)} longer; use --offsets preserve to keep the "
            "offsets anyway"
        )
        reason += "" if way.direct else f"; with {DIRECT_NEEDS} it is fast"
    return replace(offsets, preserve=not reason, reason=reason)


def _checked_for_slow(offsets: OffsetsVerdict, request: RestoreRequest, find_slow: FindSlow) -> OffsetsVerdict:
    """A request for the source's offsets is met with a warning only: the open time is an estimate."""
    partitions = tuple(replace(partition, slow=find_slow(partition.chain)) for partition in offsets.partitions)
    reason = describe_slow_transaction(partitions) if request.offsets == OffsetsMode.AUTO else ""
    return replace(offsets, partitions=partitions, preserve=not reason, reason=reason)


def _unless_replayed(offsets: OffsetsVerdict, cannot_replay: str) -> OffsetsVerdict:
    """Without transactions no control records can be written: neither those of the source, nor fillers of gaps."""
    if not (
        cannot_replay and offsets.preserve and any(partition.needs_transactions for partition in offsets.partitions)
    ):
        return offsets
    return replace(offsets, preserve=False, reason=cannot_replay)


def _partitions(
    chains: Iterable[PartitionRestore], target: TargetTopic | None, way: ReplayWay
) -> Iterator[PreservedPartition]:
    for chain in chains:
        number = chain.target.partition
        if target is None or number < len(target.ends):
            end = target.ends[number] if target is not None else 0
            yield preserved_partition(chain, way=way, target_end=end)


def _reason(topic: TopicRestore, point: PointInTime, request: RestoreRequest) -> str:
    """Why the request is impossible at the source's offsets, for any log."""
    if not request.read_committed:
        return "records of aborted transactions are restored as plain records"
    if topic.repartition is not None:
        return "its records go to other partitions"
    segment_lists = (point.commit.segments.get(source, ()) for source in topic.source.partition_ids)
    if point.until_ms is not None and any(
        is_open(segment, point.until_ms) for segments in segment_lists for segment in segments
    ):
        return "records are selected by timestamp, so offsets have gaps"
    return ""


def _chains(
    topic: TopicRestore, chains: Sequence[PartitionRestore], point: PointInTime, request: RestoreRequest
) -> Iterator[PartitionRestore]:
    """All partitions of the topic with data (`chains`), or with data before retention emptied them."""
    by_source = {chain.source: chain for chain in chains}
    for source in topic.source.partition_ids:
        position = point.state.positions.get(source)
        if source in by_source:
            yield replace(by_source[source], until_ms=None)
        elif position and position.end > 0 and request.partitions.includes(source.topic, source.partition):
            emptied = PartitionChain(source=source, segments=(), end=position.end)
            yield PartitionRestore.into(topic.target, emptied)


def _by_target(plan: RestorePlan) -> Mapping[str, Sequence[PartitionRestore]]:
    """Target topic → its chains."""
    chains: dict[str, list[PartitionRestore]] = {}
    for chain in plan.partitions:
        chains.setdefault(chain.target.topic, []).append(chain)
    return chains


IN_USE = "the schema registry of this cluster uses the topic, and the schemas exist already"


def order_schemas_first(tasks: Iterable[AnyRestoreTask], plan: RestorePlan) -> list[list[AnyRestoreTask]]:
    """The tasks in waves: tasks of the schemas topic, and all other tasks. The plan and `tasks` have this order."""
    schemas = {topic.target for topic in plan.topics if topic.source.holds_schemas}
    waves: tuple[list[AnyRestoreTask], list[AnyRestoreTask]] = ([], [])
    for task in tasks:
        waves[task.partition.target.topic not in schemas].append(task)
    return [wave for wave in waves if wave]


def without_live_schemas(
    plan: RestorePlan, selection: TopicSelection, existing: Sequence[TargetTopic], unfinished: RestoreRecord | None
) -> RestorePlan:
    """A plan for the backup's own cluster, less the schemas topic when the topic is in use and nobody named it: a
    backup includes the topic unasked, and on this cluster the ids in the records mean the same. A continued restore
    leaves out the topics of its first run."""
    in_use = {target.topic for target in existing if target.records}
    for topic in plan.topics:
        name = topic.source.topic
        unasked = topic.source.holds_schemas and name == topic.target and name not in selection.include
        skipped = name not in dict(unfinished.topics) if unfinished else name in in_use
        if unasked and skipped and len(plan.topics) > 1:
            return _without(plan, name)
    return plan


def _without(plan: RestorePlan, name: str) -> RestorePlan:
    return replace(
        plan,
        topics=tuple(topic for topic in plan.topics if topic.source.topic != name),
        partitions=tuple(chain for chain in plan.partitions if chain.source.topic != name),
        repartitions=tuple(repartition for repartition in plan.repartitions if repartition.target != name),
        holes=tuple(hole for hole in plan.holes if hole.partition_id.topic != name),
        skipped=(*plan.skipped, (name, IN_USE)),
    )
