"""The consistent cut of the commit that completes a pass.

A task sees only its own range. Other tasks see where a transaction began before the range, and how it continues behind:
the tails of copied ranges are joined to the tails of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.backup.copy import BackupReceipt
from offsite.backup.copy_pass import PassSummary
from offsite.backup.copy_plan import NO_WINDOW, CopyPlan
from offsite.backup.cut.deletions import (
    DeletedBelow,
    UnreadDeletion,
    judge_by_deletions,
    offsets_of_cut,
    unread_deletions,
)
from offsite.backup.cut.found_cut import SnapshotGroups, Stamps, ends_match, find_cut
from offsite.backup.plan import BackupPlan
from offsite.backup.stamps import NONE_BEHIND, ObservedStamps, StampWindows, join_stamps
from offsite.cut.group_offsets import GroupKey
from offsite.log.group_offsets import GroupTable
from offsite.log.range import PartitionId
from offsite.log.transactions import OpenTransaction, PartitionTail, TailFold, with_unknown_beginnings
from offsite.model.names import named
from offsite.repository.commit import RecordedHole
from offsite.repository.snapshots.commit_cut import CheckpointParticipant, CommitCut
from offsite_participant.number import Form


def join_tails(
    plan: CopyPlan,
    receipts: Sequence[BackupReceipt],
    *,
    known_open: Mapping[PartitionId, Sequence[OpenTransaction]] | None,
) -> dict[PartitionId, PartitionTail]:
    """The tail of every partition of `plan`: the result of one pass over all copied data of the partition.

    `receipts`: of every task, in the order of `plan.tasks`. `known_open`: the transactions open at the start of the
    copy, from the previous run, in any order; a partition without tasks keeps its open transactions. None: unknown, and
    the first data seen of a transaction may be its middle. A partition with tasks but without a requested tail is left
    out: nothing is known of its end. If records are missing before the copy, the outcome of transactions open at the
    hole is unknown.
    """
    missing = {hole.topic_partition for hole in plan.holes}
    open_at_start = {
        partition_id: transactions
        for partition_id, transactions in (known_open or {}).items()
        if partition_id.topic_partition not in missing
    }
    folds = {
        bounds.partition_id: TailFold(known_open=open_at_start.get(bounds.partition_id, ())) for bounds in plan.bounds
    }
    for task, receipt in zip(plan.tasks, receipts, strict=True):
        if task.window_start == NO_WINDOW:
            folds.pop(task.partition_id, None)
        elif receipt.tail is not None:
            folds[task.partition_id].add(receipt.tail)
    tails = {partition_id: fold.partition_tail() for partition_id, fold in folds.items()}
    unknown = _goes_on(plan) if known_open is None else frozenset()
    return {
        partition_id: with_unknown_beginnings(tail) if partition_id in unknown else tail
        for partition_id, tail in tails.items()
    }


def _goes_on(plan: CopyPlan) -> frozenset[PartitionId]:
    """The partitions with data before the start of the copy."""
    return frozenset(
        bounds.partition_id for bounds in plan.bounds if plan.starts.get(bounds.partition_id, 0) > bounds.log_start
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCut:
    """The cut of a pass, and the groups that the cut sets below missing records. `offsets`: the offsets of all groups
    as of the cut, in partitions with missing records. `unclaimed`: partitions with records deleted after the readings
    began, without a known reading group at the time."""

    cut: CommitCut
    offsets: Mapping[GroupKey, int]
    unread: tuple[UnreadDeletion, ...] = ()
    unclaimed: frozenset[PartitionId] = frozenset()

    @property
    def lost(self) -> frozenset[PartitionId]:
        """The partitions in which a group would miss, or may miss, records given to the group by the source. A group's
        first commit after the readings is only known to later readings."""
        lost = (deletion.partition for deletion in self.unread if not deletion.at_source)
        return self.unclaimed | frozenset(lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCut:
    """The pass has no consistent cut, because of `why`. `error`: the id of the error that prevented the cut, if any."""

    why: str
    error: str = ""


def cut_of_pass(  # noqa: PLR0913  # the pass, and by keyword what was known before it
    plan: BackupPlan,
    whole: PassSummary,
    groups: GroupTable,
    *,
    known_open: Mapping[PartitionId, Sequence[OpenTransaction]] | None,
    participants: tuple[CheckpointParticipant, ...] = (),
    exactly_once: frozenset[str] = frozenset(),
) -> PassCut | NoCut:
    """Find the cut of a pass that `summary` completes. No cut where anything was not seen: missing records of a
    partition may be a part of copied records in another. `groups`: the group snapshot of the commit. `participants`:
    their positions must agree with the cut. `exactly_once`: groups that have committed in transactions. The cut is
    refused where the backup lacks records that a group would have read next."""
    positions = {position.partition_id: position.end for position in whole.positions}
    if why := _why_not(plan, whole, positions):
        return NoCut(why=why, error=plan.observed_ends.error)
    if known_open is not None:  # a log that was cut back begins anew
        anew = {cut.partition_id for cut in plan.cuts}
        known_open = {at: transactions for at, transactions in known_open.items() if at not in anew}
    stamps = _stamps(plan, whole)
    if lost := _lost_markers(plan, stamps):
        return NoCut(why=f"the marker in {lost[0]} is missing: was there an unclean leader election?")
    tails = join_tails(plan.copy, whole.receipts or (), known_open=known_open)
    evidence = plan.observed_ends.evidence(tails)
    selected = plan.request.groups.select({logged.commit.group for logged in evidence.commits})
    doubts = tuple(_doubts(plan))
    cut = find_cut(
        evidence,
        positions,
        SnapshotGroups(offsets=groups, selected=frozenset(selected), doubts=doubts),
        notes=(*_notes(plan), *_notes_of_stamps(plan, stamps)),
        participants=participants,
        stamps=stamps,
        partial=plan.observed_ends.series.partial if plan.observed_ends.series else frozenset(),
    )
    exactly_once |= {commit.group for commit, _ in evidence.commits if commit.exactly_once}
    of_cut = groups.keys() | {entry.group for entry in cut.groups}
    cut = replace(cut, exactly_once=tuple(sorted(exactly_once & of_cut)))
    deleted = deleted_below(plan, whole.holes)
    offsets = offsets_of_cut(groups, cut.groups, deleted)
    if doubts:  # nothing is claimed, and idle groups are unknown
        return PassCut(cut=cut, offsets=offsets)
    unread = tuple(unread_deletions(offsets, evidence, deleted, selected=selected))
    claimed = {partition for _, partition in offsets}
    late = (key for key, below in deleted.items() if below.end > below.log_start and key not in claimed)
    return PassCut(
        cut=judge_by_deletions(cut, unread),
        offsets=offsets,
        unread=unread,
        unclaimed=frozenset(late) if plan.groups is not None else frozenset(),
    )


def deleted_below(plan: BackupPlan, holes: Iterable[RecordedHole]) -> dict[PartitionId, DeletedBelow]:
    """For every partition with missing records, the offset below which records are missing. `holes`: the holes found by
    the pass.

    Records missing before the first segment count only as far as the source lacks them too: records deleted by
    retention of the backup do not count.
    """
    ends: dict[PartitionId, int] = {}
    for hole in (*plan.base.holes, *holes):
        ends[hole.partition_id] = max(hole.end, ends.get(hole.partition_id, 0))
    deleted = {}
    for bounds in plan.copy.bounds:
        partition_id, log_start = bounds.partition_id, bounds.log_start
        begin = plan.base.held_range(partition_id)[0] if partition_id in plan.base.positions else log_start
        if end := max(ends.get(partition_id, 0), min(begin, log_start)):
            deleted[partition_id] = DeletedBelow(end=end, log_start=log_start)
    return deleted


def _notes(plan: BackupPlan) -> Iterator[str]:
    series = plan.observed_ends.series
    yield from series.notes if series else ()
    if series and (partial := sorted(series.partial)):
        yield f"{named(partial, most=3)} has partitions outside the cut: were the partitions added during the pass?"


def _notes_of_stamps(plan: BackupPlan, stamps: Stamps) -> Iterator[str]:
    if plan.stamps is not None and (
        unstamped := sorted(
            {
                partition.topic
                for partition, partition_stamps in stamps.observed.items()
                if partition_stamps.has_unstamped
            }
        )
    ):
        yield (
            f"{named(unstamped, most=3)}: records without a stamp by {plan.stamps.form.value} of control topic "
            f"{plan.stamps.control_topic}: do all writers take part, and do they read that topic?"
        )


def _stamps(plan: BackupPlan, whole: PassSummary) -> Stamps:
    """The stamps seen of the checkpoint that the pass takes, if the checkpoint was opened to participants."""
    if plan.stamps is None:
        return Stamps()
    observed = join_stamps(plan.copy.tasks, [receipt.stamps for receipt in whole.receipts or ()])
    return Stamps(
        topics=plan.stamps.topics,
        observed=observed,
        doubts=tuple(_doubts_of_stamps(plan.stamps, observed)),
    )


def _doubts_of_stamps(windows: StampWindows, observed: Mapping[PartitionId, ObservedStamps]) -> Iterator[str]:
    """Why the stamps do not prove that the writers have taken the checkpoint."""
    if not windows.is_heard and any(partition_stamps.has_data for partition_stamps in observed.values()):
        yield (
            "there are new records, but no participant was present to acknowledge the checkpoint: do all writers use "
            "acks?"
        )
    ahead = max((partition_stamps.number for partition_stamps in observed.values()), default=0)
    if ahead > windows.checkpoint:
        yield (
            f"a writer used number {ahead} and may have skipped checkpoint {windows.checkpoint}: was a higher "
            "checkpoint opened during the pass, or do records of another cluster arrive here?"
        )
    yield from windows.doubts


def _lost_markers(plan: BackupPlan, stamps: Stamps) -> list[PartitionId]:
    """The partitions whose readers could go on without passing a marker."""
    if plan.stamps is None or plan.stamps.form is not Form.MARKERS:
        return []
    return sorted(
        plan.stamps.starts.keys()
        - {key for key, partition_stamps in stamps.observed.items() if partition_stamps.first != NONE_BEHIND}
    )


def _doubts(plan: BackupPlan) -> Iterator[str]:
    """Why the groups of the commit, from the run or an earlier run, may not belong to its ends."""
    yield from plan.observed_ends.doubts
    if plan.groups is None and plan.base.groups is not None:
        yield "this run did not read the groups: their offsets come from an earlier commit"
    failed = [group.group for group in plan.groups.failed] if plan.groups else []
    if failed:
        yield f"the offsets of {named(failed, most=3)} could not be read: they come from an earlier commit"


def _why_not(plan: BackupPlan, whole: PassSummary, positions: Mapping[PartitionId, int]) -> str:
    if plan.observed_ends.series is None:
        return plan.observed_ends.trouble or "this pass did not read the log ends for a cut"
    if whole.failed or whole.receipts is None:
        return "some partitions could not be copied to their end"
    if not ends_match(plan.observed_ends.ends, positions):
        return "some partitions have no recorded end, or were not copied to their end"
    return ""
