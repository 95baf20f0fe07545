"""Decides when a schedule fires: the due time, the skipped times, the next time. Pure.

Every time of a schedule is decided once, by a create-only object with a number; a round continues from the newest
decision. So a status may be lost, several operators may run, and clocks may step: a time at or before the newest
decision is never decided again. If the newest decision lies further ahead than clocks differ, or belongs to another
timetable, the schedule restarts at now. Otherwise a clock that was wrong once would silence the schedule until that
time, and a new timetable would make up for times that were never requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice
from typing import assert_never
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from offsite.jobs.status import JobState
from offsite.model.errors import BadResource
from offsite.model.units import parse_duration_s
from offsite.operator.decide.options import option_words
from offsite.operator.resources.jobs import FACTORY, TIME_ZONE, Action, Schedule

FIELDS = {"minute": 60, "hour": 24, "day of the month": 31, "month": 12, "day of the week": 7}
"""The fields of cron, with the number of values of each."""
_HINT = "minute 0-59, hour 0-23, day 1-31, month 1-12, day of the week 0-7, as in: 30 2 * * *"
_ZONE_HINT = "write it as Europe/Zurich, or UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = re.compile(r"/([0-9]+)")
TIMES_MAX = 10_000
"""Times that one round processes; after a longer pause the next round continues."""
AHEAD_MS = 5 * 60_000
"""Clocks of machines differ by less. A decision further ahead was made by a wrong clock."""
_LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CANCELLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The times of a schedule. Raises `BadResource` for an invalid timetable, or a timetable without any time.

    Times come from `cronsim`, which follows the rules of Debian's cron: a time that a clock change skips fires right
    after the change; a time that comes twice fires the first time; with `*` for the minute or the hour, real time
    counts.
    """

    cron: str
    time_zone: str

    def __post_init__(self) -> None:
        if next(self._after(0), None) is None:
            raise self._never()

    def after(self, time_ms: int, *, until_ms: int | None = None) -> Iterator[int]:
        """Yield the times after `time_ms`, ascending, up to and including `until_ms`."""
        newest = time_ms
        for moment in self._after(time_ms):
            at_ms = (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
            if until_ms is not None and at_ms > until_ms:
                return
            if at_ms > newest:  # an hour that comes twice: the library starts in the first pass
                newest = at_ms
                yield at_ms

    def __str__(self) -> str:
        return f"{self.cron} {self.time_zone}"

    def next_after(self, time_ms: int) -> int | None:
        """Return the next time; None: no further time."""
        return next(self.after(time_ms), None)

    def _after(self, time_ms: int) -> CronSim:
        fields = self.cron.split()
        if len(fields) != len(FIELDS):
            raise BadResource(f"cron {self.cron!r} has not five fields", hint=_HINT)
        for field, (name, values) in zip(fields, FIELDS.items(), strict=True):
            if any(int(step) > values for step in _STEP.findall(field)):
                raise BadResource(
                    f"cron {self.cron!r}: a step in its {name} is larger than its {values} values", hint=_HINT
                )
        begin = datetime.fromtimestamp(time_ms / 1000, tz=_zone(self.time_zone))
        try:
            return CronSim(self.cron, begin)
        except (CronSimError, ValueError, TypeError, AssertionError) as error:
            if "day-of-month" in str(error) and _is_cron(f"{fields[0]} {fields[1]} {fields[2]} * {fields[4]}"):
                raise self._never() from error
            raise BadResource(f"cron {self.cron!r} cannot be read: {error}", hint=_HINT) from error

    def _never(self) -> BadResource:
        return BadResource(f"cron {self.cron!r} never runs: its months have no such day", hint=_HINT)


def _is_cron(text: str) -> bool:
    try:
        CronSim(text, _EPOCH)
    except (CronSimError, ValueError, TypeError, AssertionError):
        return False
    return True


def _zone(name: str) -> tzinfo:
    """Return the time zone. UTC needs no database. Files of the database that are not zones for people (the zone of the
    local machine, leap seconds, a place holder) are refused."""
    if name == "UTC":
        return UTC
    try:
        zone = ZoneInfo(name) if re.fullmatch(TIME_ZONE, name) and name != FACTORY else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = None
    if zone is None:
        hint = _ZONE_HINT if _has_database() else "this machine has no time zone database: install tzdata, or write UTC"
        raise BadResource(f"{name!r} is not a known time zone", hint=hint)
    return zone


def _has_database() -> bool:
    try:
        ZoneInfo("Etc/UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


class DecisionKind(StrEnum):
    """The decision about a time."""

    FIRED = "fired"
    SKIPPED = "skipped"
    """The previous run still runs, or no run is possible now."""
    MISSED = "missed"
    """The run could not start within its deadline."""
    STARTED = "started"
    """The schedule, or its timetable, starts here: no earlier time is due."""
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    """Times that were due earlier are skipped."""

    @property
    def is_run(self) -> bool:
        """Whether the decision is about a time of the schedule."""
        return self in {DecisionKind.FIRED, DecisionKind.SKIPPED, DecisionKind.MISSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDecision:
    """The decision about the time `time_ms`. `left_out`: number of times between the previous decision and this one
    that are skipped. `timetable`: timetable of the decision; empty: not recorded. `reason`: reason for a skip; empty:
    the previous run was not over."""

    time_ms: int
    kind: DecisionKind
    left_out: int = 0
    timetable: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSchedule:
    """The desired state of a schedule."""

    uid: str
    timetable: Timetable
    suspend: bool
    deadline_ms: int
    action: Action
    cluster: str
    topics: tuple[str, ...]
    history: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSchedule:
    """The observed state of a schedule. `newest`: newest decision. `running`: state of the newest job; None if no job
    exists, or the job is not requested yet. `is_unasked`: the newest fired time has no job yet. `reason`: why no run is
    possible now; empty: a run is possible. `now_ms`: the home's clock."""

    newest: TimeDecision | None
    running: JobState | None
    is_unasked: bool
    now_ms: int
    reason: str = ""


def resolve_schedule(schedule: Schedule) -> DesiredSchedule:
    """Resolve `schedule` into its desired state. Raises `BadResource`."""
    spec = schedule.spec
    who = f"schedule {schedule.metadata.name}"
    if spec.action is Action.DRILL and not spec.topics:
        raise BadResource(f"{who}: it names no topics", hint="omit topics for all topics of the backup")
    option_words(who, {"topics": spec.topics})
    return DesiredSchedule(
        uid=schedule.metadata.uid,
        timetable=Timetable(cron=spec.cron, time_zone=spec.time_zone),
        suspend=spec.suspend,
        deadline_ms=int(parse_duration_s(spec.starting_deadline) * 1000),
        action=spec.action,
        cluster=spec.cluster if spec.action is Action.DRILL else "",
        topics=spec.topics,
        history=spec.history,
        who=who,
    )


def decide_time(desired: DesiredSchedule, observed: ObservedSchedule) -> TimeDecision | None:
    """Return the decision of now; None: no time is due."""
    decision = _decide(desired, observed)
    return None if decision is None else replace(decision, timetable=str(desired.timetable))


def is_ahead(time_ms: int, *, now_ms: int) -> bool:
    """Whether a decided time comes from a wrong clock."""
    return time_ms - now_ms > AHEAD_MS


def _decide(desired: DesiredSchedule, observed: ObservedSchedule) -> TimeDecision | None:
    newest = observed.newest
    if newest is None or is_ahead(newest.time_ms, now_ms=observed.now_ms):
        return TimeDecision(time_ms=observed.now_ms, kind=DecisionKind.STARTED)
    if observed.now_ms <= newest.time_ms:
        return None
    is_suspended = newest.kind is DecisionKind.SUSPENDED
    if desired.suspend:
        return None if is_suspended else TimeDecision(time_ms=observed.now_ms, kind=DecisionKind.SUSPENDED)
    if is_suspended:
        # the part of the pause without an operator is unknown, so all skipped times are reported
        left_out = len(_between(desired, newest.time_ms, observed.now_ms))
        return TimeDecision(time_ms=observed.now_ms, kind=DecisionKind.RESUMED, left_out=left_out)
    if newest.timetable not in {"", str(desired.timetable)}:
        return TimeDecision(time_ms=observed.now_ms, kind=DecisionKind.STARTED)
    due = _between(desired, newest.time_ms, observed.now_ms)
    return _due(desired, observed, due) if due else None


def _between(desired: DesiredSchedule, start_ms: int, end_ms: int) -> Sequence[int]:
    return list(islice(desired.timetable.after(start_ms, until_ms=end_ms), TIMES_MAX))


def _due(desired: DesiredSchedule, observed: ObservedSchedule, due: Sequence[int]) -> TimeDecision:
    """Of several due times the newest counts: a run now makes up for the earlier times."""
    time_ms = due[-1]
    if observed.now_ms - time_ms > desired.deadline_ms:
        kind = DecisionKind.MISSED
    elif observed.reason:
        return TimeDecision(time_ms=time_ms, kind=DecisionKind.SKIPPED, left_out=len(due) - 1, reason=observed.reason)
    elif observed.is_unasked or observed.running in _LIVE:
        kind = DecisionKind.SKIPPED
    else:
        kind = DecisionKind.FIRED
    return TimeDecision(time_ms=time_ms, kind=kind, left_out=len(due) - 1)


def next_time(desired: DesiredSchedule, observed: ObservedSchedule) -> int | None:
    """Return the next time; None: the schedule never fires in its current state."""
    newest_ms = observed.newest.time_ms if observed.newest else 0
    behind_ms = observed.now_ms if is_ahead(newest_ms, now_ms=observed.now_ms) else max(observed.now_ms, newest_ms)
    return None if desired.suspend else desired.timetable.next_after(behind_ms)


def build_command(desired: DesiredSchedule, backup: str) -> tuple[str, ...]:
    """Return the command line of a run, about the low-level backup of that name."""
    match desired.action:
        case Action.CHECKPOINT:
            return ("checkpoint", "take", *option_words(desired.who, {"backup": backup}), "--wait")
        case Action.DRILL:
            words = option_words(desired.who, {"backup": backup, "topics": desired.topics})
            return ("restore", "drill", *words, *(() if desired.cluster else ("--sandbox",)))
        case _:
            assert_never(desired.action)
