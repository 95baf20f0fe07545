"""Carries a plan to a newer state, for a continuous run: the backup continued while the plan was made.

The choice of points stays; newer points stay with all their data, and merged data is examined again. After other
changes (a pin, a truncation) the plan is void.
"""

from __future__ import annotations

from dataclasses import replace

from offsite.repository.commit import ExpiredRange
from offsite.repository.state import BackupState
from offsite.upkeep.retention.gone import UnneededSegments
from offsite.upkeep.retention.kept_points import NEWEST, ChosenPoints, merge_chosen, points_between
from offsite.upkeep.retention.needs import Branches, add_needs, needs_of_run
from offsite.upkeep.retention.plan import RetentionPlan


def carry_to(plan: RetentionPlan, head: BackupState) -> RetentionPlan | None:
    """`plan` for `head`, a later state than the plan's own; None if a new plan is needed."""
    if head.seq == plan.head.seq:
        return plan
    if (head.pins, len(head.branches)) != (plan.head.pins, len(plan.head.branches)) or head.seq < plan.head.seq:
        return None
    since = plan.head.seq, head.seq + 1
    states = {plan.head.seq: plan.head, head.seq: head}
    needs = {history: list(spans) for history, spans in plan.needs.items()}
    add_needs(needs, needs_of_run(states, since, Branches.of(head)))
    unneeded = UnneededSegments(head=head, needs=needs, may_go=plan.may_go)
    expired: list[ExpiredRange] = []
    segments = removed_bytes = 0
    for partition_id in sorted({expired_range.partition_id for expired_range in plan.expired}):
        expired_segments = unneeded.of(partition_id)
        expired += expired_segments.ranges
        segments, removed_bytes = segments + expired_segments.segments, removed_bytes + expired_segments.bytes
    points = {span: points_between(head.history, span[0], span[1] - 1) for span in plan.forgotten}
    came = ChosenPoints(start=since[0] + 1, end=since[1], rule=NEWEST)
    return replace(
        plan,
        head=head,
        kept_points=(*plan.kept_points, *merge_chosen(head.history, [came])),
        forgotten=tuple(span for span, count in points.items() if count),
        points=sum(points.values()),
        expired=tuple(expired),
        segments=segments,
        removed_bytes=removed_bytes,
        kept_bytes=max(0, plan.kept_bytes + plan.removed_bytes - removed_bytes),
    )
