"""Keeps the `Schedule` resources of a home: every time fires once, as a job of the local machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.model.errors import BadResource, check
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.schedule import resolve_schedule
from offsite.operator.decide.wanted import Account, DesiredBackup, resolve_backup
from offsite.operator.folder.keeper import Reconciled, RecordStore, make_note
from offsite.operator.folder.records import ResourceRecord
from offsite.operator.folder.status import Condition
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.schedule import Schedule
from offsite.operator.world.places import find_current_account
from offsite.operator.world.schedule_runs import ScheduleRun
from offsite.operator.world.schedules import ScheduleExecutor, ScheduleStatus, find_target
from offsite.operator.world.telling import NoteWriter

_MISCONFIGURED = "MisconfiguredSchedule"
_FAILED = "LastRunFailed"
_CLOCK = "ClockStepped"


@dataclass(slots=True, kw_only=True)
class ScheduleKeeper:
    """`executor` and `accounts` belong to the current round."""

    records: RecordStore
    notes: NoteWriter
    executor: ScheduleExecutor | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: ResourceRecord) -> Reconciled:
        schedule = record.resource()
        check(isinstance(schedule, Schedule), "a keeper of schedules")
        if self.executor is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run reports the problem")
        desired = resolve_schedule(schedule)  # type: ignore[arg-type]  # as was checked
        backup = self._backup(schedule.spec.backup)  # type: ignore[attr-defined]
        target = find_target(self.executor.observer, desired, backup) if backup is not None else None
        reconciled = _reconciled(self.executor.reconcile(desired, target), is_suspended=desired.suspend)
        if backup is not None:
            note = make_note(record, reconciled.conditions, reconciled.status)
            self.notes.write(self.executor.observer, record.uid, backup.place, note)  # in the repository of the backup
        return reconciled

    def let_go(self, record: ResourceRecord) -> Reconciled | None:
        """A running job continues to its end."""
        if self.executor is not None:
            self.notes.forget(self.executor.observer, record.uid)
        return None

    def _backup(self, name: str) -> DesiredBackup | None:
        """Return the backup of the schedule; None while the backup is not declared."""
        named = self.records.find("Backup", name)
        backup = named.resource() if named is not None else None
        if named is None or self.executor is None or not isinstance(backup, Backup):
            return None
        account = backup.spec.destination.account
        current_account = (
            ""
            if account
            else find_current_account(self.executor.observer, named.uid, named.places, ledger=named.ledger)
        )
        return resolve_backup(backup, tuple(self.accounts), current_account=current_account)


def _reconciled(status: ScheduleStatus, *, is_suspended: bool) -> Reconciled:
    fields: dict[str, JsonValue] = {
        "state": _state(status, is_suspended=is_suspended),
        "runs": [_run(run) for run in reversed(status.runs)],
    }
    if status.last_ms is not None:
        fields["lastScheduleTime"] = format_time(status.last_ms)
    if status.next_ms is not None:
        fields["nextScheduleTime"] = format_time(status.next_ms)
    messages = ((_MISCONFIGURED, status.problem), (_FAILED, status.failure), (_CLOCK, status.clock))
    return Reconciled(conditions=[Condition(type=kind, message=said) for kind, said in messages if said], status=fields)


def _state(status: ScheduleStatus, *, is_suspended: bool) -> str:
    if status.is_running:
        return "running"
    if is_suspended:
        return "suspended"
    return "waiting" if status.next_ms is not None else "over"


def _run(run: ScheduleRun) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {"time": format_time(run.time_ms), "phase": run.state}
    if run.job:
        fields["job"] = run.job
    if run.message:
        fields["message"] = run.message
    return fields
