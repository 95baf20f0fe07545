"""Carries out a retention: one commit with the expired points and ranges, and nothing else. Objects are deleted later.

The commit takes effect at one moment: its forgotten restore points stop being points, and its expired ranges are no
longer held. A crash before the commit changes nothing; a crash after the commit leaves objects for the next collection
(see `upkeep.collection`, decision 0022). A line for each deletion is written before the commit (see `audit_record`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.log.range import uncovered
from offsite.model.cleanup_policy import Retention
from offsite.model.clock import Clock
from offsite.model.errors import BelowFloor, ClockStep, CommitLost
from offsite.model.journal import decided
from offsite.model.names import amount
from offsite.repository.backup import Backup
from offsite.repository.commit import LIVE, CommitChanges, ExpiredRange
from offsite.repository.snapshots.audit_record import POINTS, RANGE, Deletion
from offsite.repository.state import BackupState
from offsite.upkeep.deletion import ATTEMPTS, commit_upkeep, run_to_end
from offsite.upkeep.retention.kept_points import NEWEST, ChosenPoints, merge_chosen, points_between
from offsite.upkeep.retention.needs import Branches, UnneededSegments, add_needs, needs_of_run
from offsite.upkeep.retention.plan import RetentionPlan, points_in_use, retention_plan_steps
from offsite.upkeep.retention.policy import RetentionPolicy, rule_of
from offsite.upkeep.retention.report import BY, put_note


def carry_to(plan: RetentionPlan, head: BackupState) -> RetentionPlan | None:
    """`plan` for `head`, a later state than the plan's own; None if a new plan is needed.

    Another writer may commit between the plan and the commit. The points shown in the plan still go, and newer data
    stays: a new choice could drop a point shown as kept, because a newer point took its place. Only a new pin, restore
    or truncation requires a new plan, as of the same moment; the new plan may drop fewer points, never additional
    points. A continuous run carries its plan to the newer state: newer points stay with all their data, and merged data
    is examined again.
    """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """The result of a retention: the executed plan, the state afterwards, and the number of the commit, None without
    any change."""

    plan: RetentionPlan
    state: BackupState
    commit: int | None


def plan_retention(
    backup: Backup,
    policy: RetentionPolicy,
    *,
    clock: Clock,
    cluster_retention: Mapping[str, Retention] | None = None,
    now_ms: int | None = None,
) -> RetentionPlan:
    """The plan for the newest state. Raises as `retention_plan_steps`."""
    return run_to_end(
        retention_plan_steps(backup, policy, clock=clock, cluster_retention=cluster_retention, now_ms=now_ms)
    )


def apply_retention(
    backup: Backup,
    plan: RetentionPlan,
    *,
    clock: Clock,
    force: bool = False,
    cluster_retention: Mapping[str, Retention] | None = None,
) -> RetentionResult:
    """Carry out `plan`, or the still permitted part. Raises as `check_force`, `retention_plan_steps` and
    `Backup.commit`, and `CommitLost` if other writers keep committing first or other points would go by now."""
    for _ in range(ATTEMPTS - 1):
        try:
            return carry_out(backup, plan, base=plan.head, force=force)
        except CommitLost:
            plan = _renewed(backup, plan, clock=clock, cluster_retention=cluster_retention)
    return carry_out(backup, plan, base=plan.head, force=force)


def carry_out(backup: Backup, plan: RetentionPlan, *, base: BackupState, force: bool = False) -> RetentionResult:
    """Commit `plan` to `base`, the state it was made for. Raises as `check_force` and `Backup.commit`, and `CommitLost`
    also if a restore started since the plan reads a point about to go."""
    check_force(plan, force=force)
    if plan.is_empty:
        return RetentionResult(plan=plan, state=base, commit=None)
    # 1. A restore may have begun since the plan.
    if (read_commit := _read_by_now(backup, plan)) is not None:
        raise CommitLost(
            f"a restore reads commit {read_commit} now, and the plan would delete that commit", hint="plan again"
        )
    # 2. Audit lines come before the commit, the note after the commit.
    after = commit_upkeep(
        backup, base, changes_of(plan), deletions=tuple(deletions(plan)), by=BY, rule=rule_of(plan.policy)
    )
    decided(
        "retention",
        why=f"the policy keeps {amount(len(base.history) - plan.points, 'restore point')}",
        commit=after.seq,
        points=plan.points,
        segments=plan.segments,
        bytes=plan.removed_bytes,
    )
    put_note(backup, plan, after.seq)
    return RetentionResult(plan=plan, state=after, commit=after.seq)


def _renewed(
    backup: Backup, plan: RetentionPlan, *, clock: Clock, cluster_retention: Mapping[str, Retention] | None
) -> RetentionPlan:
    """`plan` for the newest state. Raises `CommitLost` if other points would go."""
    carried = carry_to(plan, backup.state()) if _read_by_now(backup, plan) is None else None
    if carried is not None:
        return carried
    anew = plan_retention(backup, plan.policy, clock=clock, cluster_retention=cluster_retention, now_ms=plan.now_ms)
    for start, end in anew.forgotten:
        for low, high in uncovered(start, end, plan.forgotten):
            if points_between(anew.head.history, low, high - 1):
                raise CommitLost(
                    f"commits {low} to {high - 1} would be deleted now, and the plan kept them", hint="plan again"
                )
    return anew


def _read_by_now(backup: Backup, plan: RetentionPlan) -> int | None:
    """A restore point dropped by `plan` and read by a running restore."""
    read = points_in_use(backup) if plan.forgotten else ()
    return next((seq for seq in read if any(start <= seq < end for start, end in plan.forgotten)), None)


def check_force(plan: RetentionPlan, *, force: bool) -> None:
    """Unless `force`: raise `BelowFloor` if the plan would drop points protected by the floor, and `ClockStep` if the
    times behind the plan may come from a wrong clock."""
    if plan.below_floor and not force:
        raise BelowFloor(
            plan.below_floor, hint="keep more restore points, lower --floor, or continue anyway with --force"
        )
    if plan.clock_step and not force:
        raise ClockStep(
            f"{plan.clock_step}; nothing was deleted",
            hint="check the times with offsite show; if they are right: offsite retention apply --force",
        )


def changes_of(plan: RetentionPlan) -> CommitChanges:
    """The retention's changes for the commit."""
    return CommitChanges(
        forgotten=plan.forgotten,
        expired=plan.expired,
        unpinned=plan.unpinned,
    )


def deletions(plan: RetentionPlan) -> Iterator[Deletion]:
    """One line per run of restore points and per range. The first line carries the bytes of all lines, because objects
    may be shared."""
    rule = rule_of(plan.policy)
    size_bytes = plan.removed_bytes
    for start, end in plan.forgotten:
        yield Deletion(kind=POINTS, what=describe_points(start, end - 1), rule=rule, bytes=size_bytes)
        size_bytes = 0
    for expired in plan.expired:
        yield Deletion(kind=RANGE, what=describe_range(expired), rule=rule, bytes=size_bytes)
        size_bytes = 0


def describe_range(expired: ExpiredRange) -> str:
    """A range, as named in the audit."""
    branch = "" if expired.branch == LIVE else f" of branch {expired.branch}"
    return f"{expired.partition_id} [{expired.start}, {expired.end}){branch}"


def describe_points(first: int, last: int) -> str:
    """A run of restore points, as named in the audit."""
    return f"commit {first}" if first == last else f"commits {first} to {last}"
