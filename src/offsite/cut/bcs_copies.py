"""Copies of a log processor's local checkpoints in a store: who makes one, what it is worth, what a restore takes, and
what may go.

Each leader stores its copy under its own term, so two that do not know of each other never write to the same place. The
only thing they share is the state of a copy, which the store changes by compare-and-set:

    none -> in progress -> completed    all of it is stored, was read back and verified
                        -> failed       by its own leader, or by a later one: nobody continues it
                        -> abandoned    by a later one that makes its own
    any  -> deleted                     for ever: an id is used once

A leader that was deposed may not know it, and what it asked of the store may arrive late. So that no checkpoint is
failed and completed afterwards, **nobody ends or begins a copy by what it saw before its own one was there**: it puts
its own, in progress, and looks again. Of two leaders that do so at once, one or both see the other's; the earlier one
then gives way (`beginning`), or the later one has ended its copy (`superseded`, `orphaned`).

Pure, like `offsite.cut.bcs`: it is told what the store holds, and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from offsite.cut.bcs import Created


class CopyState(StrEnum):
    IN_PROGRESS = "inProgress"
    COMPLETED = "completed"
    FAILED = "failed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


class BackupStatus(StrEnum):
    """Of one checkpoint, over all partitions."""

    DOES_NOT_EXIST = "doesNotExist"
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """Some partitions have no copy: asking again for the same id may still complete it."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy of one local checkpoint by the leader of `term`. `position` is where the checkpoint lies in the log of
    the partition; `partitions`, how many the processor had. `reason` says why it failed."""

    partition: int
    checkpoint: int
    term: int
    state: CopyState
    position: int
    partitions: int
    reason: str = ""


class Beginning(StrEnum):
    """What a leader does about an upload that its `Step` asks for."""

    COPY = "copy"
    """Abandon those that `superseded` names, put its own in progress, look, and ask again, until there is nothing left
    to abandon. Only then does it copy. If the answer becomes another one, it abandons its own."""
    SKIP = "skip"
    """A completed one is there: after a restore the marker is processed anew."""
    REFUSE = "refuse"
    """The id is spent: it failed or was deleted, or a later leader is at it."""


def beginning(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int) -> Beginning:
    """What the leader of `term` does, seeing all `copies` in the store, of other partitions too. Its own one in
    progress changes nothing: that is how it asks for the second time. An unfinished copy of an earlier term does not
    keep it: that leader died before its `Created` was durable, otherwise this one would replay it, and not process."""
    known = [each for each in copies if each.checkpoint == checkpoint]
    own = [each for each in known if each.partition == partition]
    states = {each.state for each in own}
    is_deleted = any(each.state is CopyState.DELETED for each in known)
    if is_deleted or CopyState.FAILED in states or any(each.term > term for each in own):
        return Beginning.REFUSE
    is_ended = any(each.term == term and each.state is not CopyState.IN_PROGRESS for each in own)
    if CopyState.COMPLETED in states or is_ended:
        return Beginning.SKIP
    return Beginning.COPY


def superseded(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int) -> Iterator[Copy]:
    """The copies to abandon before the leader of `term` begins its own: else that of a leader which does not know yet
    that it is none could still be completed, after this one's has failed."""
    for each in _by_term(copies):
        is_older = (each.partition, each.checkpoint) == (partition, checkpoint) and each.term < term
        if is_older and each.state is CopyState.IN_PROGRESS:
            yield each


def orphaned(copies: Iterable[Copy], *, partition: int, newest: int, term: int, restored: int = 0) -> Iterator[Copy]:
    """The copies that the new leader of `term` has to end, once it has replayed up to checkpoint `newest`: *every*
    unfinished one of earlier terms, not the newest one alone, or the others stay in progress for ever. In the order of
    their terms. It ends the first one as `ending` says, and looks again, until there is none.

    `restored`: the checkpoint that this processor was restored from, 0 for none. It, and what is before it, belongs to
    the processor that was backed up, whose terms say nothing here."""
    for each in _by_term(copies):
        is_abandoned = each.partition == partition and restored < each.checkpoint <= newest and each.term < term
        if is_abandoned and each.state is CopyState.IN_PROGRESS:
            yield each


def never_begun(
    copies: Iterable[Copy], *, partition: int, replayed: Iterable[Created], restored: int = 0
) -> Iterator[Created]:
    """Those checkpoints that a new leader has `replayed`, or that the base it began with says were taken, and that have
    no copy, or abandoned ones alone. Nobody will make one: the leader puts its own, in progress, ends those of earlier
    leaders that are `orphaned` now, and then its own as `ending` says, or whoever waits for it waits for ever. Of
    checkpoints that are deleted there is nothing to say, nor of those up to the `restored` one, as in `orphaned`."""
    copies = tuple(copies)
    own = {each.checkpoint for each in copies if each.partition == partition and each.state is not CopyState.ABANDONED}
    known = own | {each.checkpoint for each in copies if each.state is CopyState.DELETED}
    for each in replayed:
        if each.checkpoint > restored and not each.is_marker and each.checkpoint not in known:
            yield each


def ending(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int) -> CopyState:
    """How a leader ends the unfinished copy of `term`, an orphan or its own one of what was `never_begun`, having just
    looked: failed, but only if no other one counts. A completed one does, and one of a later term that is unfinished:
    its leader may not know yet that it is none, and complete it after this one has failed. Whoever begins after that
    look sees this one."""
    own = [each for each in copies if (each.partition, each.checkpoint) == (partition, checkpoint)]
    is_completed = any(each.state is CopyState.COMPLETED for each in own)
    is_at_work = any(each.term > term and each.state is CopyState.IN_PROGRESS for each in own)
    return CopyState.ABANDONED if is_completed or is_at_work else CopyState.FAILED


def status_of(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> BackupStatus:
    """The status of a checkpoint of so many partitions, from the store alone. Of each partition the best copy counts;
    one failed partition is enough to fail it."""
    best = _best(copies, checkpoint)
    states = {each.state for each in best.values()}
    if not best:
        return BackupStatus.DOES_NOT_EXIST
    if CopyState.DELETED in states:
        return BackupStatus.DELETED
    if CopyState.FAILED in states:
        return BackupStatus.FAILED
    are_all = best.keys() == set(range(1, partitions + 1))
    are_of_one_size = {each.partitions for each in best.values()} == {partitions}
    if CopyState.ABANDONED in states or not (are_all and are_of_one_size):
        return BackupStatus.INCOMPLETE
    return BackupStatus.ONGOING if CopyState.IN_PROGRESS in states else BackupStatus.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """What one partition has of a checkpoint, and the `copy` that says so; None if there is none."""

    partition: int
    status: BackupStatus
    copy: Copy | None = None


def partition_statuses(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> tuple[PartitionStatus, ...]:
    """The status of each partition alone, by the copy that counts for `status_of`. An abandoned one, and one that was
    made when there were more or fewer partitions, is incomplete."""
    best = _best(copies, checkpoint)
    return tuple(_partition_status(number, best.get(number), partitions) for number in range(1, partitions + 1))


def _partition_status(number: int, copy: Copy | None, partitions: int) -> PartitionStatus:
    if copy is None:
        return PartitionStatus(partition=number, status=BackupStatus.DOES_NOT_EXIST)
    status = _STATUSES[copy.state]
    if status is BackupStatus.COMPLETED and copy.partitions != partitions:
        status = BackupStatus.INCOMPLETE
    return PartitionStatus(partition=number, status=status, copy=copy)


def deletable(copies: Iterable[Copy], *, checkpoint: int) -> Iterator[Copy]:
    """The copies of a checkpoint that its deletion has yet to mark as deleted, whatever state they are in. Whoever
    deletes marks them by compare-and-set and looks again, until there is none; only then their files go, as
    `disposable` says. One mark is enough for `status_of` and `beginning`: a deletion that breaks off offers no restore,
    and a leader that is at work gives way. The marks stay for ever, since an id is used once."""
    for copy in _by_term(copies):
        if copy.checkpoint == checkpoint and copy.state is not CopyState.DELETED:
            yield copy


def disposable(copies: Iterable[Copy]) -> Iterator[Copy]:
    """The copies whose files no restore will ever take, so that they may go: failed, abandoned and deleted ones. These
    states are final, so what was seen once stays true. An unfinished copy stays however old it is: its leader may be
    slow, and only a later leader, or a deletion, ends it. A completed one stays until it is deleted.

    Only files go, the states stay. A leader that does not know yet that its copy was ended may write more: whoever
    cleans up later takes that."""
    yield from (copy for copy in _by_term(copies) if copy.state in _FINAL)


def restorable(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> dict[int, Copy]:
    """The copy to restore of each partition, which are numbered from 1. Raises `ValueError` unless the checkpoint is
    completed, for exactly so many partitions: messages are routed by their number."""
    copies = tuple(copies)
    status = status_of(copies, checkpoint=checkpoint, partitions=partitions)
    if status is not BackupStatus.COMPLETED:
        raise ValueError(f"checkpoint {checkpoint} of {partitions} partitions is {status}")
    return _best(copies, checkpoint)


_WORTH = (CopyState.ABANDONED, CopyState.IN_PROGRESS, CopyState.FAILED, CopyState.COMPLETED, CopyState.DELETED)
_FINAL = frozenset({CopyState.FAILED, CopyState.ABANDONED, CopyState.DELETED})
_STATUSES = {
    CopyState.IN_PROGRESS: BackupStatus.ONGOING,
    CopyState.COMPLETED: BackupStatus.COMPLETED,
    CopyState.FAILED: BackupStatus.FAILED,
    CopyState.ABANDONED: BackupStatus.INCOMPLETE,
    CopyState.DELETED: BackupStatus.DELETED,
}


def _by_term(copies: Iterable[Copy]) -> list[Copy]:
    return sorted(copies, key=lambda each: each.term)


def _best(copies: Iterable[Copy], checkpoint: int) -> dict[int, Copy]:
    best: dict[int, Copy] = {}
    for each in copies:
        if each.checkpoint != checkpoint:
            continue
        held = best.get(each.partition)
        if held is None or (_WORTH.index(each.state), each.term) > (_WORTH.index(held.state), held.term):
            best[each.partition] = each
    return best
