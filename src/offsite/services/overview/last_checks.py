"""The last checks of a backup that its repository remembers: when it was verified, and when a drill restored it.

What verifies keeps a record, where it may write: a check by somebody who may only read is a check all the same. Checks
before records were kept are not known, nor are those of other copies of the repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.model.errors import Damaged, FormatTooNew, OffsiteError
from offsite.model.journal import noted
from offsite.repository.backup import Backup
from offsite.repository.snapshots.drill_record import DrillRecord, drill_keys, get_drill_record
from offsite.repository.snapshots.verify_record import (
    DEEP,
    DEPTHS,
    VerifyRecord,
    last_verify_record,
    put_verify_record,
)

if TYPE_CHECKING:
    from offsite.services.verify.run import VerifyResult

_UNREADABLE = (Damaged, FormatTooNew)

_SAME_FOR_MS = 3_600_000
"""A quick check that finds the same as one less than an hour before keeps no record: some monitoring asks every
minute, for years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChecks:
    """The last check of each depth, the last drill, and when a drill last proved the backup (epoch ms by the store's
    clock, -1: never). `problems`: records that cannot be read."""

    verified: tuple[VerifyRecord, ...] = ()
    drill: DrillRecord | None = None
    proven_ms: int = -1
    problems: tuple[str, ...] = ()

    @property
    def damage(self) -> tuple[VerifyRecord, ...]:
        """The checks that found damage, unless a deep one found none later: a quick one sees less."""
        whole_ms = max((each.verified_at_ms for each in self.verified if each.ok and each.depth == DEEP), default=-1)
        return tuple(each for each in self.verified if not each.ok and each.verified_at_ms > whole_ms)


def read_last_checks(backup: Backup, *, now_ms: int) -> LastChecks:
    """The last checks of `backup`; `now_ms` is the store's clock, roughly. Raises `StoreUnavailable`, `StoreDenied`."""
    problems: list[str] = []
    verified = []
    for depth in DEPTHS:
        try:
            record = last_verify_record(backup.store, backup.layout, depth, now_ms=now_ms)
        except _UNREADABLE as error:
            problems.append(f"the record of a check cannot be read: {error.message}")
        else:
            verified += [record] if record is not None else []
    drills = _drills(backup, problems)
    return LastChecks(
        verified=tuple(verified),
        drill=drills[0] if drills else None,
        proven_ms=next((each.ended_ms for each in drills if each.proven), -1),
        problems=tuple(problems),
    )


def remember_check(backup: Backup, result: VerifyResult) -> bool:
    """Keep a record of a check, if the store takes it. Whether it did, or knew the same already. A check that found
    nothing wrong but commits of a newer format has judged nothing: another offsite will."""
    from offsite.services.verify.run import Verdict  # those who only read records need nothing of what verifies

    if any(each.is_newer for each in result.damaged_commits) and not _damaged(result):
        return False
    try:
        record = VerifyRecord(
            depth=result.depth,
            verified_at_ms=backup.store.now_ms(),
            ok=result.verdict is not Verdict.DAMAGED,
            damaged=_damaged(result),
            commit=result.head_commit,
            head_hash=result.head_hash,
        )
        if not _is_known(backup, record):
            put_verify_record(backup.store, backup.layout, record)
    except OffsiteError as error:  # a check that cannot be written down is a check
        noted("check_not_kept", depth=result.depth, error=error.id, why=error.message)
        return False
    return True


def _drills(backup: Backup, problems: list[str]) -> list[DrillRecord]:
    """The drills since the last one that proved the backup, the newest first; that one is the last."""
    found: list[DrillRecord] = []
    for key in drill_keys(backup.store, backup.layout):
        try:
            found.append(get_drill_record(backup.store, key))
        except _UNREADABLE as error:
            problems.append(f"the report of a drill cannot be read: {error.message}")
            continue
        if found[-1].proven:
            break
    return found


def _is_known(backup: Backup, record: VerifyRecord) -> bool:
    if record.depth == DEEP:
        return False
    try:
        last = last_verify_record(backup.store, backup.layout, record.depth, now_ms=record.verified_at_ms)
    except _UNREADABLE:  # it tells nothing: the new one will
        return False
    return (
        last is not None
        and 0 <= record.verified_at_ms - last.verified_at_ms < _SAME_FOR_MS
        and (last.ok, last.damaged) == (record.ok, record.damaged)
    )


def _damaged(result: VerifyResult) -> int:
    """How many things are damaged or gone, offsets that nobody accounted for among them."""
    lists = (
        result.damaged,
        [each for each in result.damaged_commits if not each.is_newer],
        result.damaged_objects,
        result.damaged_snapshots,
        result.unaccounted,
        result.missing_head,
    )
    return sum(map(len, lists))
