"""The omissions of a restore point, as people and scripts read them in a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from offsite.model.cleanup_policy import is_compacted
from offsite.model.units import format_time
from offsite.points.incarnations import IncarnationSummary
from offsite.points.point_in_time import PointInTime
from offsite.repository.commit import RecordedHole
from offsite.repository.state import BackupState
from offsite.restore.write.plan import RestorePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class CutReport:
    """A partition that is restored up to `end` instead of `commit_end`. Of its segments, `whole_segments` are taken
    unchanged, `edge_segments` in part (their records are examined), `left_out_segments` not at all."""

    topic: str
    partition: int
    end: int
    commit_end: int
    whole_segments: int
    edge_segments: int
    left_out_segments: int


def report_cuts(point: PointInTime, plan: RestorePlan) -> tuple[CutReport, ...]:
    """The cut partitions of the plan's topics, sorted."""
    chosen = {topic.source.incarnation for topic in plan.topics}
    return tuple(
        CutReport(
            topic=cut.partition.topic,
            partition=cut.partition.partition,
            end=cut.end,
            commit_end=cut.commit_end,
            whole_segments=cut.whole_segments,
            edge_segments=cut.edge_segments,
            left_out_segments=cut.left_out_segments,
        )
        for cut in point.cuts()
        if cut.partition.incarnation in chosen
    )


def incarnations_of(point: PointInTime, topics: Collection[str]) -> tuple[IncarnationSummary, ...]:
    """The incarnations of those `topics` that were deleted and recreated: the selected one, and the rest."""
    return tuple(incarnation for incarnation in point.incarnations if incarnation.topic in topics)


def point_notes(point: PointInTime, plan: RestorePlan) -> Iterator[str]:
    """Notes for a person on the point, and on partitions with mixed contents."""
    if point.commit.incomplete:
        yield (
            f"commit {point.commit.seq} was made during a run: each partition ends where the run was at that time, "
            "some partitions may have no records yet, and the groups come from the run before"
        )
    if point.until_ms is not None:
        yield (
            f"only records with a timestamp up to {format_time(point.until_ms)}: transactions may be restored in "
            "part; the figures are upper bounds"
        )
        yield from _compacted(plan)
    elif any(segment.end > chain.end for chain in plan.all_chains for segment in chain.segments):
        yield "the segments also have later records, which are not restored: the figures are upper bounds"
    for topic in plan.topics:
        if topic.source.configs_unread:
            yield (
                f"the settings of {topic.source.topic} come from an earlier run: the run of the restore point had no "
                "permission to read them (DESCRIBE_CONFIGS)"
            )
        if topic.repartition is not None:
            yield (
                f"{topic.target} gets {topic.partitions} partitions instead of {topic.source.partitions}: records are "
                "distributed by key, and offsets of groups cannot be translated"
            )


def _compacted(plan: RestorePlan) -> Iterator[str]:
    """Notes on compacted topics: they lack replaced records, whatever the time says."""
    for topic in plan.topics:
        if is_compacted(dict(topic.source.configs)):
            yield (
                f"{topic.source.topic} is compacted: values that compaction removed before the backup are missing, "
                "even if they were current at that time"
            )


def holes_within(plan: RestorePlan, commit: BackupState) -> list[RecordedHole]:
    """The holes in the part of `commit` that `plan` restores: not behind its end, nor in left-out partitions."""
    ends = {chain.source: chain.end for chain in plan.all_chains}
    left_out = commit.segments.keys() - ends.keys()
    within = (hole for hole in plan.holes if hole.start < ends.get(hole.partition_id, hole.end))
    return [hole for hole in within if hole.partition_id not in left_out]
