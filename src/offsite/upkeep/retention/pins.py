"""Pins: restore points that a person wants to keep, with the reason and the end of the pin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offsite.model.errors import BadOption, NoSuchRestorePoint
from offsite.model.units import parse_duration_s, parse_time
from offsite.repository.backup import Backup
from offsite.repository.commit import FOR_EVER, CommitChanges, Pin
from offsite.repository.removal import check_stays
from offsite.repository.state import BackupState
from offsite.stores.wrapped_store import display_now_ms
from offsite.upkeep.deletion import commit_on_newest, commit_upkeep
from offsite.upkeep.retention.kept_points import pin_holds

REASON_MAX = 1_000
"""Characters; every reader of the backup reads all reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPoint:
    """A pinned restore point: commit time, reason, and end of the pin (epoch ms by the store's clock; 0: forever).
    `holds`: the end has not come; the next retention after the end removes the pin."""

    commit: int
    committed_at_ms: int
    reason: str
    until_ms: int
    holds: bool


def parse_until(text: str | None, *, now_ms: int) -> int:
    """The end of a pin: a time, or a duration from now (`90d`); `FOR_EVER` for None. Raises `BadOption`."""
    if text is None:
        return FOR_EVER
    try:
        until_ms = now_ms + int(parse_duration_s(text) * 1000)
    except BadOption:
        until_ms = parse_time(text, now_ms=now_ms)
    if until_ms <= now_ms:
        raise BadOption(f"--until {text[:100]!r} is in the past", hint="give a time in the future, or a duration: 90d")
    return until_ms


def pin_point(backup: Backup, commit: int, *, reason: str, until_ms: int = FOR_EVER) -> BackupState:
    """Pin restore point `commit`, in a commit of its own; replaces an existing pin. Raises `NoSuchRestorePoint`,
    `BadOption` for an empty or too long reason, `CommitLost` if other writers keep committing first, and `BackupGoing`
    if the whole backup is being removed: the pin may not hold in that case."""
    if not reason.strip() or len(reason) > REASON_MAX:
        raise BadOption(f"the reason of a pin must have 1 to {REASON_MAX} characters; this reason has {len(reason)}")

    def changes(head: BackupState) -> CommitChanges:
        backup.check_point(commit, head=head)
        return CommitChanges(pinned=(Pin(seq=commit, reason=reason, until_ms=until_ms),))

    state = _commit(backup, changes)
    check_stays(backup)
    return state


def unpin_point(backup: Backup, commit: int) -> BackupState:
    """Remove the pin of restore point `commit`: the next retention decides about the point by the policy. Raises
    `NoSuchRestorePoint` without a pin, and `CommitLost`."""

    def changes(head: BackupState) -> CommitChanges:
        if commit not in {pin.seq for pin in head.pins}:
            raise NoSuchRestorePoint(
                f"commit {commit} of backup {head.backup} is not pinned",
                hint="see the pins with: offsite retention pins",
            )
        return CommitChanges(unpinned=(commit,))

    return _commit(backup, changes)


def pinned_points(backup: Backup) -> tuple[PinnedPoint, ...]:
    """The pins of the newest state, by number."""
    head = backup.sound_state()
    now_ms = display_now_ms(backup.store) if head.pins else 0
    return tuple(
        PinnedPoint(
            commit=pin.seq,
            committed_at_ms=line.committed_at_ms if (line := head.history.find(pin.seq)) else 0,
            reason=pin.reason,
            until_ms=pin.until_ms,
            holds=pin_holds(pin, now_ms=now_ms),
        )
        for pin in head.pins
    )


def _commit(backup: Backup, changes: Callable[[BackupState], CommitChanges]) -> BackupState:
    return commit_on_newest(backup, lambda head: commit_upkeep(backup, head, changes(head)))
