"""Decides when a schedule fires: the due time, the skipped times, the next time. Pure.

Every time of a schedule is decided once, by a create-only object with a number; a round continues from the newest
decision. So a status may be lost, several operators may run, and clocks may step: a time at or before the newest
decision is never decided again. If the newest decision lies further ahead than clocks differ, or belongs to another
timetable, the schedule restarts at now. Otherwise a clock that was wrong once would silence the schedule until that
time, and a new timetable would make up for times that were never requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import assert_never

from offsite.jobs.status import JobState
from offsite.model.errors import BadResource
from offsite.model.units import parse_duration_s
from offsite.operator.decide.command import option_words
from offsite.operator.decide.timetable import Timetable
from offsite.operator.resources.schedule import Action, Schedule

TIMES_MAX = 10_000
"""Times that one round processes; after a longer pause the next round continues."""
AHEAD_MS = 5 * 60_000
"""Clocks of machines differ by less. A decision further ahead was made by a wrong clock."""
_LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CANCELLING})


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
