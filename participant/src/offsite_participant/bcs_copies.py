"""Copies of a log processor's local checkpoints in a store: who makes a copy, the worth of a copy, the choice of a
restore, and deletion.

A leader stores a copy under the leader's own term: two competing leaders never write to the same place.
Leaders share only the state of a copy, changed in the store by compare-and-set:

    none -> in progress -> completed    everything is stored, was read back and verified
                        -> failed       by its own leader, or by a later leader: nobody continues the copy
                        -> abandoned    by a later leader with a copy of its own
    any  -> deleted                     for ever: an id is used once

A deposed leader may not know of the deposition, and late requests to the store may arrive. To keep a checkpoint from
being failed and completed afterwards, **nobody ends or begins a copy on observations older than their own copy**: a
leader puts its own copy, in progress, and looks again. Of two leaders doing both at once, at least one sees the copy of
the other. The earlier leader gives way (`beginning`), or the later leader has ended the earlier copy (`superseded`,
`orphaned`).

Pure, like `offsite_participant.bcs`: contents of the store in, actions out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from offsite_participant.bcs import Created


class CopyState(StrEnum):
    IN_PROGRESS = "inProgress"
    COMPLETED = "completed"
    FAILED = "failed"
    ABANDONED = "abandoned"
    DELETED = "deleted"


class BackupStatus(StrEnum):
    """The state of a checkpoint over all partitions."""

    DOES_NOT_EXIST = "doesNotExist"
    ONGOING = "ongoing"
    COMPLETED = "completed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    """Some partitions have no copy: asking again for the same id may still complete the checkpoint."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy of a local checkpoint by the leader of `term`. `position`: where the checkpoint lies in the log of the
    partition. `partitions`: how many partitions the processor had. `reason`: why the copy failed."""

    partition: int
    checkpoint: int
    term: int
    state: CopyState
    position: int
    partitions: int
    reason: str = ""


class Beginning(StrEnum):
    """A leader's decision about an upload that its `Step` asks for."""

    COPY = "copy"
    """Abandon the copies in `superseded`, put the own copy in progress, look, and ask again, until nothing is left to
    abandon. Copy only after that. If the answer changes, abandon the own copy."""
    SKIP = "skip"
    """A completed copy exists, or the checkpoint belongs to the processor that was backed up: after a restore its
    `Create` is processed again."""
    REFUSE = "refuse"
    """The id is spent: a copy failed or was deleted, or a later leader is at work."""


def beginning(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int, restored: int = 0) -> Beginning:
    """The decision of the leader of `term`, given all `copies` in the store, including copies of other partitions. The
    leader's own copy in progress changes nothing: with it the leader asks for the second time. An unfinished copy of an
    earlier term does not stop the leader: the earlier leader died before its `Created` was durable, otherwise the new
    leader would replay and not process.

    No copy is made of checkpoints up to `restored`, as in `orphaned`. Two `Create`s may lie next to each other in a
    log: a restore cuts the log behind the second `Create`, and so the first is processed again without its `Created`.
    """
    if checkpoint <= restored:
        return Beginning.SKIP
    checkpoint_copies = [copy for copy in copies if copy.checkpoint == checkpoint]
    partition_copies = [copy for copy in checkpoint_copies if copy.partition == partition]
    states = {copy.state for copy in partition_copies}
    is_deleted = any(copy.state is CopyState.DELETED for copy in checkpoint_copies)
    if is_deleted or CopyState.FAILED in states or any(copy.term > term for copy in partition_copies):
        return Beginning.REFUSE
    is_ended = any(copy.term == term and copy.state is not CopyState.IN_PROGRESS for copy in partition_copies)
    if CopyState.COMPLETED in states or is_ended:
        return Beginning.SKIP
    return Beginning.COPY


def superseded(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int) -> Iterator[Copy]:
    """The copies to abandon before the leader of `term` begins its own. Otherwise an earlier leader, not yet aware of
    its deposition, could complete its copy after the new copy has failed."""
    for copy in _by_term(copies):
        is_older = (copy.partition, copy.checkpoint) == (partition, checkpoint) and copy.term < term
        if is_older and copy.state is CopyState.IN_PROGRESS:
            yield copy


def orphaned(copies: Iterable[Copy], *, partition: int, newest: int, term: int, restored: int = 0) -> Iterator[Copy]:
    """The copies that the new leader of `term` has to end, after replaying up to checkpoint `newest`: *every*
    unfinished copy of earlier terms, not only the newest, or the rest stay in progress for ever. Ordered by term. The
    leader ends the first copy as `ending` says, and looks again, until none is left.

    `restored`: the checkpoint from which the processor was restored, 0 for none. Checkpoints up to `restored` belong to
    the backed-up processor, whose terms mean nothing here.
    """
    for copy in _by_term(copies):
        is_abandoned = copy.partition == partition and restored < copy.checkpoint <= newest and copy.term < term
        if is_abandoned and copy.state is CopyState.IN_PROGRESS:
            yield copy


def never_begun(
    copies: Iterable[Copy], *, partition: int, replayed: Iterable[Created], restored: int = 0
) -> Iterator[Created]:
    """The checkpoints without a copy, or with only abandoned copies, of all checkpoints `replayed` by a new leader or
    recorded as taken in the leader's base. Nobody will make such a copy: the leader puts a copy, in progress, ends the
    now `orphaned` copies of earlier leaders, and ends the new copy as `ending` says; otherwise waiters wait for ever.
    Deleted checkpoints, and checkpoints up to `restored` as in `orphaned`, are left out."""
    copies = tuple(copies)
    with_copy = {
        copy.checkpoint for copy in copies if copy.partition == partition and copy.state is not CopyState.ABANDONED
    }
    handled = with_copy | {copy.checkpoint for copy in copies if copy.state is CopyState.DELETED}
    for created in replayed:
        if created.checkpoint > restored and not created.is_marker and created.checkpoint not in handled:
            yield created


def ending(copies: Iterable[Copy], *, partition: int, checkpoint: int, term: int) -> CopyState:
    """The final state for the unfinished copy of `term`, an orphan or the leader's own copy of `never_begun`, decided
    right after a look: failed, unless another copy counts. A completed copy counts, and an unfinished copy of a later
    term: its leader may not know of its deposition, and complete the copy after the failure. A leader that begins after
    the look sees the copy."""
    partition_copies = [copy for copy in copies if (copy.partition, copy.checkpoint) == (partition, checkpoint)]
    is_completed = any(copy.state is CopyState.COMPLETED for copy in partition_copies)
    is_at_work = any(copy.term > term and copy.state is CopyState.IN_PROGRESS for copy in partition_copies)
    return CopyState.ABANDONED if is_completed or is_at_work else CopyState.FAILED


def status_of(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> BackupStatus:
    """The status of a checkpoint of `partitions` partitions, from the store alone. The best copy of every partition
    counts; a single failed partition fails the checkpoint."""
    best = _best(copies, checkpoint)
    states = {copy.state for copy in best.values()}
    if not best:
        return BackupStatus.DOES_NOT_EXIST
    if CopyState.DELETED in states:
        return BackupStatus.DELETED
    if CopyState.FAILED in states:
        return BackupStatus.FAILED
    are_all = best.keys() == set(range(1, partitions + 1))
    are_of_one_size = {copy.partitions for copy in best.values()} == {partitions}
    if CopyState.ABANDONED in states or not (are_all and are_of_one_size):
        return BackupStatus.INCOMPLETE
    return BackupStatus.ONGOING if CopyState.IN_PROGRESS in states else BackupStatus.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The state of a checkpoint in a partition, and the `copy` that proves the state; None without a copy."""

    partition: int
    status: BackupStatus
    copy: Copy | None = None


def partition_statuses(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> tuple[PartitionStatus, ...]:
    """The status of every partition, by the copy that counts for `status_of`. An abandoned copy, and a copy from a time
    with more or fewer partitions, is incomplete."""
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
    """The copies of a checkpoint, in whatever state, that its deletion has yet to mark as deleted. A deletion marks
    them by compare-and-set and looks again, until none is left; only afterwards their files are deleted, as
    `disposable` says. A single mark is enough for `status_of` and `beginning`: a broken-off deletion offers no restore,
    and a leader at work gives way. The marks stay for ever, because an id is used once."""
    for copy in _by_term(copies):
        if copy.checkpoint == checkpoint and copy.state is not CopyState.DELETED:
            yield copy


def disposable(copies: Iterable[Copy]) -> Iterator[Copy]:
    """The copies whose files no restore will ever take: failed, abandoned and deleted copies. Their files may be
    deleted. The states are final: an observation stays true. An unfinished copy stays however old: its leader may be
    slow, and only a later leader or a deletion ends the copy. A completed copy stays until deleted.

    Only files are deleted, the states stay. A leader unaware of the end of its copy may write more files: a later
    clean-up takes the files.
    """
    yield from (copy for copy in _by_term(copies) if copy.state in _FINAL)


def restorable(copies: Iterable[Copy], *, checkpoint: int, partitions: int) -> dict[int, Copy]:
    """The copy to restore for every partition, numbered from 1. Raises `ValueError` unless the checkpoint is completed
    for exactly `partitions` partitions: messages are routed by the number of partitions."""
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
    return sorted(copies, key=lambda copy: copy.term)


def _best(copies: Iterable[Copy], checkpoint: int) -> dict[int, Copy]:
    best: dict[int, Copy] = {}
    for copy in copies:
        if copy.checkpoint != checkpoint:
            continue
        current = best.get(copy.partition)
        if current is None or (_WORTH.index(copy.state), copy.term) > (_WORTH.index(current.state), current.term):
            best[copy.partition] = copy
    return best
