"""The consistent cut of the commit that completes a pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.copy.plan import PositionKey
from offsite.copy.stamps import NONE_BEHIND, SeenStamps, StampWindows, joined_stamps
from offsite.copy.tails import joined_tails
from offsite.cut.group_offsets import GroupKey
from offsite.cut.window import PartitionKey
from offsite.log.groups.offsets import GroupTable
from offsite.log.transactions import OpenTransaction
from offsite.model.named import named
from offsite.participant.number import Form
from offsite.repository.commit import PartitionId, RecordedHole
from offsite.repository.snapshots.commit_cut import CommitCut
from offsite.repository.snapshots.participant import CheckpointParticipant
from offsite.services.backup.planned import BackupPlan
from offsite.services.backup.whole_pass import WholePass
from offsite.services.cut.deletions import (
    DeletedBelow,
    UnreadDeletion,
    judged_by_deletions,
    offsets_of_cut,
    unread_deletions,
)
from offsite.services.cut.found_cut import SnapshotGroups, Stamps, ends_match, found_cut, key_of, partition_of


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
        lost = (partition_of(deletion.partition) for deletion in self.unread if not deletion.at_source)
        return self.unclaimed | frozenset(lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCut:
    """The pass has no consistent cut, because of `why`. `error`: the id of the error that prevented the cut, if any."""

    why: str
    error: str = ""


def cut_of_pass(  # noqa: PLR0913  # the pass, and by keyword what was known before it
    plan: BackupPlan,
    whole: WholePass,
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
        return NoCut(why=why, error=plan.seen.error)
    if known_open is not None:
        anew = {cut.partition_id for cut in plan.cuts}
        known_open = {each: transactions for each, transactions in known_open.items() if each not in anew}
    stamps = _stamps(plan, whole)
    if lost := _lost_markers(plan, stamps):
        return NoCut(why=f"the marker that was written to {lost[0]} is not there: was a leader elected uncleanly?")
    tails = joined_tails(plan.copy, whole.receipts or (), known_open=known_open)
    by_key = {key_of(each): tail for each, tail in tails.items()}
    evidence = plan.seen.evidence(by_key)
    wanted = plan.group_patterns.select({each.commit.group for each in evidence.commits})
    doubts = tuple(_doubts(plan))
    cut = found_cut(
        evidence,
        positions,
        SnapshotGroups(offsets=groups, wanted=frozenset(wanted), doubts=doubts),
        notes=(*_notes(plan), *_notes_of_stamps(plan, stamps)),
        participants=participants,
        stamps=stamps,
        partial=plan.seen.taken.partial if plan.seen.taken else frozenset(),
    )
    seen = exactly_once | {commit.group for commit, _ in evidence.commits if commit.exactly_once}
    cut = replace(cut, exactly_once=tuple(sorted(seen & (groups.keys() | {entry.group for entry in cut.groups}))))
    deleted = deleted_below(plan, whole.holes)
    offsets = offsets_of_cut(groups, cut.groups, deleted)
    if doubts:  # nothing is claimed, and idle groups are unknown
        return PassCut(cut=cut, offsets=offsets)
    unread = tuple(unread_deletions(offsets, evidence, deleted, wanted=wanted))
    claimed = {partition for _, partition in offsets}
    late = (key for key, below in deleted.items() if below.end > below.told and key not in claimed)
    return PassCut(
        cut=judged_by_deletions(cut, unread),
        offsets=offsets,
        unread=unread,
        unclaimed=frozenset(map(partition_of, late)) if plan.groups is not None else frozenset(),
    )


def deleted_below(plan: BackupPlan, holes: Iterable[RecordedHole]) -> dict[PartitionKey, DeletedBelow]:
    """For every partition with missing records, the offset below which records are missing. `holes`: the holes found by
    the pass.

    Records missing before the first segment count only as far as the source lacks them too: records deleted by
    retention of the backup do not count.
    """
    ends: dict[PartitionKey, int] = {}
    for hole in (*plan.base.holes, *holes):
        key = key_of(hole.partition_id)
        ends[key] = max(hole.end, ends.get(key, 0))
    deleted = {}
    for bounds in plan.copy.bounds:
        key, told, known = PartitionKey(*bounds.key), bounds.log_start, bounds.partition_id
        begin = plan.base.held_range(known)[0] if known in plan.base.positions else told
        if end := max(ends.get(key, 0), min(begin, told)):
            deleted[key] = DeletedBelow(end=end, told=told)
    return deleted


def _notes(plan: BackupPlan) -> Iterator[str]:
    taken = plan.seen.taken
    yield from taken.notes if taken else ()
    if taken and (partial := sorted(taken.partial)):
        yield f"{named(partial, most=3)} has partitions that are not in the cut: were they added meanwhile?"


def _notes_of_stamps(plan: BackupPlan, stamps: Stamps) -> Iterator[str]:
    if plan.stamps is not None and (
        unstamped := sorted({partition.topic for partition, seen in stamps.seen.items() if seen.has_unstamped})
    ):
        yield (
            f"{named(unstamped, most=3)}: somebody wrote without a stamp by {plan.stamps.form.value} of control topic "
            f"{plan.stamps.control_topic}: do all writers take part, and read that topic?"
        )


def _stamps(plan: BackupPlan, whole: WholePass) -> Stamps:
    """The stamps seen of the checkpoint that the pass takes, if the checkpoint was opened to participants."""
    if plan.stamps is None:
        return Stamps()
    seen = joined_stamps(plan.copy.tasks, [each.stamps for each in whole.receipts or ()])
    return Stamps(
        topics=plan.stamps.topics,
        seen={PartitionKey(*key): each for key, each in seen.items()},
        doubts=tuple(_doubts_of_stamps(plan.stamps, seen)),
    )


def _doubts_of_stamps(windows: StampWindows, seen: Mapping[PositionKey, SeenStamps]) -> Iterator[str]:
    """Why the stamps do not prove that the writers have taken the checkpoint."""
    if not windows.is_heard and any(each.has_data for each in seen.values()):
        yield "no participant was there to acknowledge the checkpoint, and yet somebody wrote: do all of them use acks?"
    ahead = max((each.number for each in seen.values()), default=0)
    if ahead > windows.checkpoint:
        yield (
            f"somebody wrote with number {ahead}, and so did not have to take checkpoint {windows.checkpoint}: was a "
            "higher one opened meanwhile, or are records of another cluster written here?"
        )
    yield from windows.doubts


def _lost_markers(plan: BackupPlan, stamps: Stamps) -> list[PartitionKey]:
    """The partitions whose readers could go on without passing a marker."""
    if plan.stamps is None or plan.stamps.form is not Form.MARKERS:
        return []
    marked = {PartitionKey(*key) for key in plan.stamps.starts}
    return sorted(marked - {key for key, seen in stamps.seen.items() if seen.first != NONE_BEHIND})


def _doubts(plan: BackupPlan) -> Iterator[str]:
    """Why the groups of the commit, from the run or an earlier run, may not belong to its ends."""
    yield from plan.seen.doubts
    if plan.groups is None and plan.base.groups is not None:
        yield "this run did not read the groups: their offsets are those of an earlier commit"
    failed = [each.group for each in plan.groups.failed] if plan.groups else []
    if failed:
        yield f"the offsets of {named(failed, most=3)} could not be read: they are those of an earlier commit"


def _why_not(plan: BackupPlan, whole: WholePass, positions: Mapping[PartitionId, int]) -> str:
    if plan.seen.taken is None:
        return plan.seen.trouble or "the ends were not read for one"
    if whole.failed or whole.receipts is None:
        return "some partitions could not be copied to their end"
    if not ends_match(plan.seen.ends, positions):
        return "some partitions are not in the readings, or were not copied to their end"
    return ""
