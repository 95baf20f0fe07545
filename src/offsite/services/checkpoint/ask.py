"""A request for a checkpoint: which id it gets, and that whoever takes checkpoints of the backup learns of it.

A request is an object of its own, created once. The process that holds the lease of the backup's checkpoints sees it
when it is next free: a run that follows before its next round, a `checkpoint take` before it ends. Without one, whoever
asked takes it itself. So two processes never copy against each other for one checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from offsite.model.errors import BadOption, CheckpointIdUsed
from offsite.model.ids import random_id
from offsite.model.untrusted.bounds import MAX_OFFSET
from offsite.repository.backup import Backup
from offsite.repository.checkpoints.marker import ToldCheckpoint
from offsite.repository.checkpoints.records import CheckpointRecords, Told
from offsite.repository.checkpoints.stamping import Stamping
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.services.checkpoint.status import CheckpointReport, Checkpoints, CheckpointStatus

CHOSEN_MAX = (1 << 53) - 1
"""The highest id that one may choose: so many more than any clock or date tells are left for the next ones."""
_OWN_BELOW = 1 << 62
"""Nobody was ever given an id as high as that: what bears one does not move the next one up."""
_USED = frozenset({CheckpointStatus.FAILED, CheckpointStatus.DELETED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The id of a checkpoint that was asked for; `is_new`: by this call."""

    id: int
    is_new: bool


def ask(
    backup: Backup, wanted: int | None = None, *, participants: Sequence[str] = (), stamping: Stamping | None = None
) -> Asked:
    """Ask for checkpoint `wanted`, None: for the next id, which is the store's time in epoch ms, or one above the
    highest one that is known. An id that is asked for, taken or complete already is answered, not asked again.
    No process takes it without those `participants`, by name; it is opened to applications as `stamping` says.

    Raises `CheckpointIdUsed` where it failed, was deleted, was asked for with another `stamping` or without one of
    `participants`, or a higher one is
    known, and where no id is left; `BadOption` for no id.
    """
    records, checkpoints = CheckpointRecords.of(backup), Checkpoints(backup)
    highest = highest_id(checkpoints.ids)
    if wanted is None:
        return _ask_next(backup, records, highest, _Wanted(tuple(participants), stamping))
    if not 0 < wanted <= CHOSEN_MAX:
        hint = f"choose a number above {highest} and up to {CHOSEN_MAX}, or none"
        raise BadOption(f"{wanted} is no id of a checkpoint", hint=hint)
    report = checkpoints.report(wanted)
    if report.status is not CheckpointStatus.DOES_NOT_EXIST:
        asked = _Wanted(tuple(participants), stamping)
        return _known(report, highest, records.told(wanted, Told.REQUESTED), asked)
    if wanted < highest:
        raise CheckpointIdUsed(
            f"checkpoint {highest} of backup {backup.descriptor.name} is there, so {wanted} cannot be taken any more",
            hint=_next_hint(highest),
        )
    request = _request(backup, wanted, _Wanted(tuple(participants), stamping))
    return Asked(id=wanted, is_new=records.put(request, Told.REQUESTED))


class _Wanted(NamedTuple):
    participants: tuple[str, ...]
    stamping: Stamping | None


def _ask_next(backup: Backup, records: CheckpointRecords, highest: int, wanted: _Wanted) -> Asked:
    checkpoint = next_id(backup, highest)
    while not records.put(_request(backup, checkpoint, wanted), Told.REQUESTED):
        checkpoint = next_id(backup, checkpoint)  # another one was faster by some ms
    return Asked(id=checkpoint, is_new=True)


def highest_id(known: Iterable[int]) -> int:
    """The highest out of the `known` ids that the next one has to be above."""
    return max((checkpoint for checkpoint in known if checkpoint < _OWN_BELOW), default=0)


def next_id(backup: Backup, highest: int) -> int:
    """The id for a checkpoint that nobody chose one for; `highest`: the highest that is known. Raises
    `CheckpointIdUsed` where that is the last one that there is."""
    if highest >= MAX_OFFSET:
        raise CheckpointIdUsed(
            f"checkpoint {highest} of backup {backup.descriptor.name} is there, which is the last id there can be",
            hint="it has no more checkpoints; every commit still is a restore point, and another backup begins anew",
        )
    return max(backup.store.now_ms(), highest + 1)


def _known(report: CheckpointReport, highest: int, request: ToldCheckpoint | None, wanted: _Wanted) -> Asked:
    if report.status in _USED:
        why = f": {report.failure_reason}" if report.failure_reason else ""
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} {_WORDS[report.status]}{why}",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    taking_part = {each.name for each in report.participants} | set(request.participants if request is not None else ())
    if missing := sorted(set(wanted.participants) - taking_part):
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} was asked for without {', '.join(missing)}",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    if wanted.stamping is not None and (request is None or request.stamping != wanted.stamping):
        raise CheckpointIdUsed(
            f"checkpoint {report.id} of backup {report.backup} was asked for with other options for participants",
            hint=f"each id is used once; {_next_hint(highest)}",
        )
    return Asked(id=report.id, is_new=False)


_WORDS = {CheckpointStatus.FAILED: "failed", CheckpointStatus.DELETED: "was deleted"}


def _next_hint(highest: int) -> str:
    if highest >= MAX_OFFSET:
        return "no id is left in this backup"
    return f"take the next one: offsite checkpoint take --id {highest + 1}, or without --id"


def _request(backup: Backup, checkpoint: int, wanted: _Wanted) -> ToldCheckpoint:
    """The random word tells our own lost answer from another's request."""
    return replace(
        told(backup, checkpoint, writer=random_id(16)), participants=wanted.participants, stamping=wanted.stamping
    )


def told(backup: Backup, checkpoint: int, *, writer: str, reason: str = "") -> ToldCheckpoint:
    """Something to tell of a checkpoint now."""
    return ToldCheckpoint(
        id=checkpoint,
        at_ms=backup.store.now_ms(),
        by=ProcessIdentity.mine().text,
        writer=writer,
        reason=reason,
    )
