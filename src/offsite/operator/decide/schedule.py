"""When a schedule fires: which time is due, what is left out, when the next one comes. Pure.

Each time of a schedule is decided once, by an object that is created once, named by that time; the newest one is where
a look goes on. So a status may be lost, operators may be two, and clocks may step: what lies at or before the newest
decision is never decided again. But where the newest one lies ahead of now, by more than clocks differ, or is of
another timetable, the schedule begins anew at now: else a clock that was wrong once would silence it until then, and a
new timetable would make up for times that nobody had asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import assert_never

from offsite.model.errors import BadResource
from offsite.model.time import parse_duration_s
from offsite.operator.decide.command import option_words
from offsite.operator.decide.timetable import Timetable
from offsite.operator.resources.schedule import Action, Schedule
from offsite.services.jobs.status import JobState

LOOKED_MAX = 10_000
"""Times that one look goes through; behind a longer pause the next look goes on."""
AHEAD_MS = 5 * 60_000
"""Clocks of machines differ by less. A decision that lies further ahead was made by a clock that was wrong."""
_LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.CANCELLING})


class DecisionKind(StrEnum):
    """What was decided of a time."""

    FIRED = "fired"
    SKIPPED = "skipped"
    """The run before still runs, or nothing may run now."""
    MISSED = "missed"
    """It could not begin within its deadline."""
    STARTED = "started"
    """The schedule, or its timetable, begins here: nothing before is due."""
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    """What was due before is left out."""

    @property
    def is_run(self) -> bool:
        """Whether it is about a time of the schedule."""
        return self in {DecisionKind.FIRED, DecisionKind.SKIPPED, DecisionKind.MISSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeDecided:
    """What was decided of the time `time_ms`. `left_out`: how many times before it, since the decision before, are left
    out with it. `timetable`: by which it was decided, empty where that was not noted. `reason`: why it was skipped,
    empty for a run before that was not over."""

    time_ms: int
    kind: DecisionKind
    left_out: int = 0
    timetable: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWanted:
    """What a schedule asks for."""

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
class ScheduleSeen:
    """`newest`: the newest decision. `running`: the state of the newest job, None where there is none or it is not
    asked for yet; `is_unasked`: the newest time that fired has no job yet. `reason`: why nothing may run now, empty for
    nothing. `now_ms`: by the home's clock."""

    newest: TimeDecided | None
    running: JobState | None
    is_unasked: bool
    now_ms: int
    reason: str = ""


def schedule_wanted(schedule: Schedule) -> ScheduleWanted:
    """What `schedule` asks for. Raises `BadResource`."""
    spec = schedule.spec
    who = f"schedule {schedule.metadata.name}"
    if spec.action is Action.DRILL and not spec.topics:
        raise BadResource(f"{who}: it names no topics", hint="leave topics away for all of the backup")
    option_words(who, {"topics": spec.topics})
    return ScheduleWanted(
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


def decide_time(wanted: ScheduleWanted, seen: ScheduleSeen) -> TimeDecided | None:
    """What to decide now; None: nothing is due."""
    found = _decide(wanted, seen)
    return None if found is None else replace(found, timetable=str(wanted.timetable))


def is_ahead(time_ms: int, *, now_ms: int) -> bool:
    """Whether a time that was decided is one of a clock that was wrong."""
    return time_ms - now_ms > AHEAD_MS


def _decide(wanted: ScheduleWanted, seen: ScheduleSeen) -> TimeDecided | None:
    newest = seen.newest
    if newest is None or is_ahead(newest.time_ms, now_ms=seen.now_ms):
        return TimeDecided(time_ms=seen.now_ms, kind=DecisionKind.STARTED)
    if seen.now_ms <= newest.time_ms:
        return None
    is_suspended = newest.kind is DecisionKind.SUSPENDED
    if wanted.suspend:
        return None if is_suspended else TimeDecided(time_ms=seen.now_ms, kind=DecisionKind.SUSPENDED)
    if is_suspended:
        # how much of this was while nobody operated, nobody knows: so all of it is told
        left_out = len(_between(wanted, newest.time_ms, seen.now_ms))
        return TimeDecided(time_ms=seen.now_ms, kind=DecisionKind.RESUMED, left_out=left_out)
    if newest.timetable not in {"", str(wanted.timetable)}:
        return TimeDecided(time_ms=seen.now_ms, kind=DecisionKind.STARTED)
    due = _between(wanted, newest.time_ms, seen.now_ms)
    return _due(wanted, seen, due) if due else None


def _between(wanted: ScheduleWanted, start_ms: int, end_ms: int) -> Sequence[int]:
    return list(islice(wanted.timetable.after(start_ms, until_ms=end_ms), LOOKED_MAX))


def _due(wanted: ScheduleWanted, seen: ScheduleSeen, due: Sequence[int]) -> TimeDecided:
    """Of several that are due the newest one counts: a run of now makes up for those before."""
    time_ms = due[-1]
    if seen.now_ms - time_ms > wanted.deadline_ms:
        kind = DecisionKind.MISSED
    elif seen.reason:
        return TimeDecided(time_ms=time_ms, kind=DecisionKind.SKIPPED, left_out=len(due) - 1, reason=seen.reason)
    elif seen.is_unasked or seen.running in _LIVE:
        kind = DecisionKind.SKIPPED
    else:
        kind = DecisionKind.FIRED
    return TimeDecided(time_ms=time_ms, kind=kind, left_out=len(due) - 1)


def next_time(wanted: ScheduleWanted, seen: ScheduleSeen) -> int | None:
    """When it fires next; None: never, as it is."""
    newest_ms = seen.newest.time_ms if seen.newest else 0
    behind_ms = seen.now_ms if is_ahead(newest_ms, now_ms=seen.now_ms) else max(seen.now_ms, newest_ms)
    return None if wanted.suspend else wanted.timetable.next_after(behind_ms)


def command_of(wanted: ScheduleWanted, backup: str) -> tuple[str, ...]:
    """The command line of a run, about the low-level backup of that name."""
    match wanted.action:
        case Action.CHECKPOINT:
            return ("checkpoint", "take", *option_words(wanted.who, {"backup": backup}), "--wait")
        case Action.DRILL:
            words = option_words(wanted.who, {"backup": backup, "topics": wanted.topics})
            return ("restore", "drill", *words, *(() if wanted.cluster else ("--sandbox",)))
        case _:
            assert_never(wanted.action)
