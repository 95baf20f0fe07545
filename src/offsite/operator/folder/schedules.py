"""Looks after the resources `Schedule` of a home: each time fires once, as a job of this machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from offsite.model.check import check
from offsite.model.errors import BadResource
from offsite.model.time import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.schedule import schedule_wanted
from offsite.operator.decide.wanted import Account, wanted_of
from offsite.operator.folder.keeper import Changes, Kept
from offsite.operator.folder.records import Record
from offsite.operator.folder.status import Told
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.schedule import Schedule
from offsite.operator.world.schedule_runs import ScheduleRun
from offsite.operator.world.schedules import ScheduleHands, ScheduleStatus, target_of
from offsite.operator.world.timeline import NotNow, Target

_MISCONFIGURED = "MisconfiguredSchedule"
_FAILED = "LastRunFailed"
_CLOCK = "ClockStepped"


@dataclass(slots=True, kw_only=True)
class ScheduleKeeper:
    """`hands` and `accounts` are those of the look."""

    records: Changes
    hands: ScheduleHands | None = None
    accounts: Collection[Account] = ()

    def keep(self, record: Record) -> Kept:
        schedule = record.resource()
        check(isinstance(schedule, Schedule), "a keeper of schedules")
        if self.hands is None:
            raise BadResource("accounts.yaml cannot be read", hint="offsite operator run tells what is wrong with it")
        wanted = schedule_wanted(schedule)  # type: ignore[arg-type]  # as was checked
        status = self.hands.reconcile(wanted, self._target(schedule))  # type: ignore[arg-type]
        return _kept(status, is_suspended=wanted.suspend)

    def let_go(self, record: Record) -> Kept | None:  # noqa: ARG002  # what runs goes on to its end
        return None

    def _target(self, schedule: Schedule) -> Target | NotNow | None:
        """What a run of now would be about; None while the backup is not declared, or has nothing."""
        named = self.records.find("Backup", schedule.spec.backup)
        backup = named.resource() if named is not None else None
        if not isinstance(backup, Backup) or self.hands is None:
            return None
        wanted = schedule_wanted(schedule)
        return target_of(self.hands.eyes, wanted, wanted_of(backup, tuple(self.accounts)))


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
