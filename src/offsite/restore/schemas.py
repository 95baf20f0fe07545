"""A schema registry's topic in a restore: restored before the topics with values that need schemas, and never over the
topic of a running registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from offsite.model.selection import TopicSelection
from offsite.repository.restores.record import RestoreRecord
from offsite.restore.write.plan import RestorePlan
from offsite.restore.write.target_topic import TargetTopic
from offsite.restore.write.task import AnyRestoreTask

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
