"""Keeps the `Schedule` resources of a home: every time fires once, as a job of the local machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.model.check import check
from offsite.model.errors import BadResource
from offsite.model.time import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.schedule import schedule_wanted
from offsite.operator.decide.wanted import Account, Wanted, wanted_of
from offsite.operator.folder.keeper import Changes, Kept, saying_of
from offsite.operator.folder.records import Record
from offsite.operator.folder.status import Told
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.schedule import Schedule
from offsite.operator.world.places import kept_account
from offsite.operator.world.schedule_runs import ScheduleRun
from offsite.operator.world.schedules import ScheduleHands, ScheduleStatus, target_of
from offsite.operator.world.telling import Telling

_MISCONFIGURED = "MisconfiguredSchedule"
_FAILED = "LastRunFailed"
_CLOCK = "ClockStepped"


@dataclass(slots=True, kw_only=True)
class ScheduleKeeper:
    """`executor` and `accounts` belong to the current round."""

    records: Changes
    telling: Telling
    hands: ScheduleHands | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: Record) -> Kept:
        schedule = record.resource()
        check(isinstance(schedule, Schedule), "a keeper of schedules")
        if self.hands is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run tells what is wrong with it")
        wanted = schedule_wanted(schedule)  # type: ignore[arg-type]  # as was checked
        backup = self._backup(schedule.spec.backup)  # type: ignore[attr-defined]
        target = target_of(self.hands.eyes, wanted, backup) if backup is not None else None
        kept = _kept(self.hands.reconcile(wanted, target), is_suspended=wanted.suspend)
        if backup is not None:
            saying = saying_of(record, kept.told, kept.fields)
            self.telling.tell(self.hands.eyes, record.uid, backup.place, saying)  # in the repository of the backup
        return kept

    def let_go(self, record: Record) -> Kept | None:
        """A running job continues to its end."""
        if self.hands is not None:
            self.telling.forget(self.hands.eyes, record.uid)
        return None

    def _backup(self, name: str) -> Wanted | None:
        """Return the backup of the schedule; None while the backup is not declared."""
        named = self.records.find("Backup", name)
        backup = named.resource() if named is not None else None
        if named is None or self.hands is None or not isinstance(backup, Backup):
            return None
        account = backup.spec.destination.account
        kept = "" if account else kept_account(self.hands.eyes, named.uid, named.places, ledger=named.ledger)
        return wanted_of(backup, tuple(self.accounts), kept=kept)


def _kept(status: ScheduleStatus, *, is_suspended: bool) -> Kept:
    fields: dict[str, JsonValue] = {
        "state": _state(status, is_suspended=is_suspended),
        "runs": [_run(each) for each in reversed(status.runs)],
    }
    if status.last_ms is not None:
        fields["lastScheduleTime"] = format_time(status.last_ms)
    if status.next_ms is not None:
        fields["nextScheduleTime"] = format_time(status.next_ms)
    told = ((_MISCONFIGURED, status.problem), (_FAILED, status.failure), (_CLOCK, status.clock))
    return Kept(told=[Told(type=kind, message=said) for kind, said in told if said], fields=fields)


def _state(status: ScheduleStatus, *, is_suspended: bool) -> str:
    if status.is_running:
        return "running"
    if is_suspended:
        return "suspended"
    return "waiting" if status.next_ms is not None else "over"


def _run(run: ScheduleRun) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"time": format_time(run.time_ms), "phase": run.state}
    if run.job:
        found["job"] = run.job
    if run.message:
        found["message"] = run.message
    return found
