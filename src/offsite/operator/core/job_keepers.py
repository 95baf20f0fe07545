"""Keeps the `Restore` and `Schedule` resources of a home. Every restore runs once, and every time of a schedule fires
once, as a job of the local machine.

The place of a restore is recorded before anything starts. Hence a restore without a start can be deleted at once,
even with an invalid spec, and a started restore is stopped by its record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from offsite.model.errors import BadResource, OffsiteError, check
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.core.keeper import NoteWriter, Reconciled, make_note
from offsite.operator.core.records import RecordStore, ResourceRecord, add_place
from offsite.operator.core.status import Condition
from offsite.operator.decide.desired import Account, DesiredBackup, RepositoryPlace, resolve_backup
from offsite.operator.decide.desired_restore import DesiredRestore, resolve_restore, resolve_stopped_restore
from offsite.operator.decide.restore import RestoreStatus
from offsite.operator.decide.schedule import resolve_schedule
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.jobs import Restore, Schedule
from offsite.operator.world.observe import find_current_account
from offsite.operator.world.restores import GONE_MS, RestoreExecutor, is_unreachable
from offsite.operator.world.schedules import ScheduleExecutor, ScheduleStatus, find_target
from offsite.operator.world.timeline import ScheduleRun

_MISCONFIGURED = "MisconfiguredSchedule"
_FAILED = "LastRunFailed"
_CLOCK = "ClockStepped"


@dataclass(slots=True, kw_only=True)
class RestoreKeeper:
    """`executor` and `accounts` belong to the current round."""

    records: RecordStore
    notes: NoteWriter
    executor: RestoreExecutor | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: ResourceRecord) -> Reconciled:
        executor, restore = self._parts(record)
        current_account = (
            record.places[-1].account if record.places else ""
        )  # the order of accounts matters for new restores only
        desired = resolve_restore(restore, tuple(self.accounts), current_account=current_account)
        executor.observer.open_store(desired.place)
        if desired.place not in record.places:
            add_place(self.records, record, desired.place)
        return self._tell(
            executor, record, desired.place, executor.reconcile(desired, declared_uids=self.records.uids())
        )

    def let_go(self, record: ResourceRecord) -> Reconciled | None:
        """Stop a running restore, and wait for its end; restored records stay. Only a restore that is over in its log
        is deleted: another operator may be about to start the restore. If the end cannot be read, because the
        repository is unreachable for an hour or the log is barred, the tag is released for other restores."""
        if not record.places:
            return None
        executor, restore = self._parts(record)
        stopped = _stopped(restore, record)
        try:
            status = executor.reconcile(stopped, declared_uids=self.records.uids())
        except OffsiteError as error:
            if not is_unreachable(error) or executor.tags.now_ms() - record.deletion_ms <= GONE_MS:
                raise
            executor.free_tag(stopped)
            return None
        reconciled = self._tell(executor, record, stopped.place, status)
        if status.phase.is_final:
            return None
        if executor.is_barred(stopped):
            executor.free_tag(stopped)
            return None
        return reconciled

    def _tell(
        self, executor: RestoreExecutor, record: ResourceRecord, place: RepositoryPlace, status: RestoreStatus
    ) -> Reconciled:
        reconciled = _restore_reconciled(status)
        self.notes.write(
            executor.observer, record.uid, place, make_note(record, reconciled.conditions, reconciled.status)
        )
        return reconciled

    def _parts(self, record: ResourceRecord) -> tuple[RestoreExecutor, Restore]:
        restore = record.resource()
        check(isinstance(restore, Restore), "a keeper of restores")
        if self.executor is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run reports the problem")
        return self.executor, restore  # type: ignore[return-value]  # as was checked


def _stopped(restore: Restore, record: ResourceRecord) -> DesiredRestore:
    return resolve_stopped_restore(record.uid, record.places[-1], cluster=restore.spec.cluster, tag=restore.spec.tag)


def _restore_reconciled(status: RestoreStatus) -> Reconciled:
    fields: dict[str, JsonValue] = {"phase": status.phase.value, "attempts": status.attempts}
    if status.job:
        fields["job"] = status.job
    if status.progress is not None:
        progress: Mapping[str, JsonValue] = {
            "tasksDone": status.progress.tasks_done,
            "tasksTotal": status.progress.tasks_total,
            "records": status.progress.records,
        }
        fields["progress"] = progress
    if status.failure is not None:
        hint = f"; {status.failure.hint}" if status.failure.hint else ""
        fields["failureReason"] = f"{status.failure.id}: {status.failure.message}{hint}"
    if status.verified is not None:
        fields["verified"] = status.verified
    return Reconciled(
        conditions=[Condition(type=condition.type.value, message=condition.message) for condition in status.conditions],
        status=fields,
    )


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
        reconciled = _schedule_reconciled(self.executor.reconcile(desired, target), is_suspended=desired.suspend)
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


def _schedule_reconciled(status: ScheduleStatus, *, is_suspended: bool) -> Reconciled:
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
