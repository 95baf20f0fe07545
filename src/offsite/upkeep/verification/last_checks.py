"""The last checks of a backup: the last verification, and the last drill with a restore.

Checks made by the local installation are remembered (`CheckMemory`) and count. A verification also keeps a record in
the repository, where writing is allowed, and makes checks of other installations known. But every party that may create
objects can forge such a record: checks of other installations are claims, and shown as claims. A claim proves nothing
and clears nothing; a claim of damage is looked into. Unknown are checks from before records were kept, and checks of
other copies of the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from offsite.model.errors import Damaged, FormatTooNew, OffsiteError
from offsite.model.ids import dated_id
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.lease import ProcessIdentity
from offsite.repository.local_memory import RememberedFacts, facts_of
from offsite.repository.snapshots.check_records import (
    AHEAD_MAX_MS,
    DEEP,
    DEPTHS,
    VERIFY_RECORD,
    DrillRecord,
    VerifyRecord,
    drill_keys,
    get_drill_record,
    last_verify_record,
    put_verify_record,
    read_proven,
)
from offsite.stores.wrapped_store import display_now_ms

if TYPE_CHECKING:
    from offsite.upkeep.verification.run import VerifyResult

_UNREADABLE = (Damaged, FormatTooNew)

_SAME_FOR_MS = 3_600_000
"""A quick check with the same result as a check less than an hour before keeps no record: some monitoring asks every
minute, for years."""


_DRILLS_READ_MAX = 16
"""At most so many of the newest drill reports of other installations are read: any number may exist."""

_DRILL, _PROVEN = "drill", "proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChecks:
    """The last check of every depth, the last drill, and when a drill last proved the backup (epoch ms by the store's
    clock, -1: never), all made here. `claimed`, `claimed_drill`, `claimed_ms`: later checks that other installations
    claim in the repository. `problems`: unreadable records."""

    verified: tuple[VerifyRecord, ...] = ()
    drill: DrillRecord | None = None
    proven_ms: int = -1
    claimed: tuple[VerifyRecord, ...] = ()
    claimed_drill: DrillRecord | None = None
    claimed_ms: int = -1
    problems: tuple[str, ...] = ()

    @property
    def damage(self) -> tuple[VerifyRecord, ...]:
        """The checks that found damage, by any installation, unless a later deep check made here found none: a quick
        check sees less, and a claim may be forged."""
        whole_ms = max(
            (record.verified_at_ms for record in self.verified if record.ok and record.depth == DEEP), default=-1
        )
        return tuple(record for record in self.all_verified() if not record.ok and record.verified_at_ms > whole_ms)

    @property
    def is_proof(self) -> bool:
        """Whether a check or a drill made here found the backup sound. Claims prove nothing."""
        return self.proven_ms >= 0 or any(record.ok for record in self.verified)

    def all_verified(self) -> tuple[VerifyRecord, ...]:
        """The last checks: first own checks, followed by claimed checks."""
        return (*self.verified, *self.claimed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMemory:
    """The last checks and drills of a backup made by the local installation."""

    backup: Backup

    @property
    def facts(self) -> RememberedFacts:
        return facts_of(self.backup, "checks")

    def note_check(self, record: VerifyRecord) -> None:
        self.facts.put(record.depth, VERIFY_RECORD.write(record))

    def note_drill(self, record: DrillRecord) -> None:
        for name in (_DRILL, *([_PROVEN] if record.proven else [])):
            fields: dict[str, JsonValue] = {"drill": record.drill, "ended_ms": record.ended_ms, "proven": record.proven}
            self.facts.put(name, {**fields, "by": record.by})

    def check(self, depth: str) -> VerifyRecord | None:
        return self.facts.recall(depth, VERIFY_RECORD.read)

    def drill(self) -> DrillRecord | None:
        return self.facts.recall(_DRILL, _drill)

    def proof(self) -> DrillRecord | None:
        """The last drill that proved the backup."""
        return self.facts.recall(_PROVEN, _drill)


def read_last_checks(backup: Backup, *, now_ms: int) -> LastChecks:
    """Read the last checks of `backup`. `now_ms`: approximately the store's clock. Raises `StoreUnavailable`,
    `StoreDenied`."""
    problems: list[str] = []
    memory = CheckMemory(backup=backup)
    own_checks = {depth: record for depth in DEPTHS if (record := memory.check(depth)) is not None}
    drill, proof = memory.drill(), memory.proof()
    drills = [
        report
        for report in _drills(backup, problems, now_ms=now_ms)
        if drill is None or report.ended_ms > drill.ended_ms
    ]
    proofs = (
        report.ended_ms for report in drills if report.proven and (proof is None or report.ended_ms > proof.ended_ms)
    )
    return LastChecks(
        verified=tuple(own_checks.values()),
        drill=drill,
        proven_ms=-1 if proof is None else proof.ended_ms,
        claimed=tuple(_claimed(backup, own_checks, problems, now_ms=now_ms)),
        claimed_drill=next(iter(drills), None),
        claimed_ms=next(proofs, -1),
        problems=tuple(problems),
    )


def _claimed(
    backup: Backup, own_checks: Mapping[str, VerifyRecord], problems: list[str], *, now_ms: int
) -> Iterator[VerifyRecord]:
    """The last check of every depth in the repository, if later than the last check of the local installation."""
    for depth in DEPTHS:
        try:
            record = last_verify_record(backup.store, backup.layout, depth, now_ms=now_ms)
        except _UNREADABLE as error:
            problems.append(f"the record of a check cannot be read: {error.message}")
            continue
        mine = own_checks.get(depth)
        if record is not None and (mine is None or record.verified_at_ms > mine.verified_at_ms):
            yield record


def remember_check(backup: Backup, result: VerifyResult) -> bool:
    """Remember a check here, and record the check in the repository, if the store allows. Returns whether the check is
    recorded, or the same was recorded already. A check that found only commits of a newer format has judged nothing:
    another offsite will."""
    from offsite.upkeep.verification.run import VerifyVerdict  # readers of records need nothing of the verifier

    if any(damaged_commit.is_newer for damaged_commit in result.damaged_commits) and not _damaged(result):
        return False
    try:
        record = VerifyRecord(
            depth=result.depth,
            verified_at_ms=display_now_ms(backup.store),
            ok=result.verdict is not VerifyVerdict.DAMAGED,
            damaged=_damaged(result),
            commit=result.head_commit,
            head_hash=result.head_hash,
            by=ProcessIdentity.current().text,
        )
        CheckMemory(backup=backup).note_check(record)
        if not _is_known(backup, record):
            put_verify_record(backup.store, backup.layout, record)
    except OffsiteError as error:  # a check that cannot be written down is still a check
        noted("check_not_kept", depth=result.depth, error=error.id, why=error.message)
        return False
    return True


def _drills(backup: Backup, problems: list[str], *, now_ms: int) -> list[DrillRecord]:
    """The drills of the newest reports, newest first, up to the last drill that proved the backup. No drill of ours
    writes a date later than now. If records lie elsewhere, records of the repository count as well."""
    drills: list[DrillRecord] = []
    latest_ms = now_ms + AHEAD_MAX_MS
    latest = backup.layout.drill_key(dated_id(latest_ms, "z"), "json")
    places = (backup.store,) if backup.records_at is None else (backup.store, backup.records_at)
    reports = [(key, place) for place in places for key in drill_keys(place, backup.layout) if key < latest]
    for key, place in sorted(reports, key=itemgetter(0), reverse=True)[:_DRILLS_READ_MAX]:
        try:
            record = get_drill_record(place, key)
        except _UNREADABLE as error:
            problems.append(f"the report of a drill cannot be read: {error.message}")
            continue
        drills += [record] if record.ended_ms <= latest_ms else []
        if record.proven and drills:
            break
    return drills


def _drill(document: JsonObject) -> DrillRecord:
    return DrillRecord(
        drill=document.text("drill"),
        ended_ms=document.count("ended_ms"),
        proven=read_proven(document),
        by=document.text("by"),
    )


def _is_known(backup: Backup, record: VerifyRecord) -> bool:
    if record.depth == DEEP:
        return False
    try:
        last = last_verify_record(backup.store, backup.layout, record.depth, now_ms=record.verified_at_ms)
    except _UNREADABLE:  # the old record tells nothing: the new one will
        return False
    return (
        last is not None
        and 0 <= record.verified_at_ms - last.verified_at_ms < _SAME_FOR_MS
        and (last.ok, last.damaged) == (record.ok, record.damaged)
    )


def _damaged(result: VerifyResult) -> int:
    """The number of damaged or lost things, unaccounted offsets included."""
    lists = (
        result.damaged,
        [damaged_commit for damaged_commit in result.damaged_commits if not damaged_commit.is_newer],
        result.damaged_objects,
        result.damaged_snapshots,
        result.unaccounted,
        result.missing_head,
    )
    return sum(map(len, lists))
