"""The stages of a declared backup: check, agents, seal, toggle, modify. Every stage is small, and returns one step or
none.

Stages use observations, never earlier decisions: an operator that dies between two stages, or decides on an old
observation, leaves a state that the next observation shows. So a stage may be repeated, and the world moves by one step
at a time towards the spec.

A restart (another destination or tag) first stops the old backup, and starts the new backup when no agent holds the old
one any more. Before the stop, the operator waits for a slot of the throttle, and tests whether the new backup can
start. A changed choice of topics is no restart: copied topics stay as they are, added topics are copied from now on,
and removed topics get no new records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from offsite.model.time import format_time
from offsite.operator.decide.parameters import parse_parameters
from offsite.operator.decide.seen import BackupSeen, LowLevelSeen
from offsite.operator.decide.wanted import AgentsWanted, Place, Wanted
from offsite.operator.resources.backup import BackupState
from offsite.repository.declared.entry import Beginning, Settings
from offsite.repository.declared.history import Phase

QUIET_MS = 15 * 60_000
QUIET_ROUNDS = 3


class ConditionType(StrEnum):
    """Why a backup differs from its spec. No condition: the backup is reconciled."""

    INCORRECT_DEPLOYMENT = "IncorrectDeployment"
    """No agents run, or the agents run for another spec."""
    DEPLOYMENT_ROLLING_OUT = "DeploymentRollingOut"
    """Some agents do not run yet."""
    INCORRECT_BACKUP_STATE = "IncorrectBackupState"
    """The backup does not run, pause or stop as declared, or has no complete copy of all topics yet."""
    MISCONFIGURED_BACKUP = "MisconfiguredBackup"
    """The backup runs with other settings than declared, or cannot run with the declared settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    type: ConditionType
    message: str


class Slot(StrEnum):
    """Whether this backup may make its initial copy: the number of initial copies at a time is limited."""

    HELD = "held"
    FREE = "free"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureAgents:
    """Run agents for this spec only."""

    agents: AgentsWanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a new low-level backup. Its name gets a timestamp by the store's clock."""

    place: Place
    beginning: Beginning
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSlot:
    """`then`: the backup to start with the slot. The start is tested before the slot is taken: no slot is blocked by an
    impossible start."""

    then: Start | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSlot:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Stop, pause or resume a low-level backup. `then`: the backup to start in its place. The start is tested before
    the stop: no running backup is stopped for an impossible start."""

    place: Place
    number: int
    to: Phase
    then: Start | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Seal a stopped backup: no process can add a commit any more. Needed if the operator died after the stop."""

    place: Place
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Modify:
    """Change the settings. `topics` and `exclude`: the new choice of topics; empty: no change of topics."""

    place: Place
    number: int
    settings: Settings
    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


Step = ConfigureAgents | TakeSlot | GiveSlot | Start | Turn | Seal | Modify


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps of now, in order, and the differences from the spec."""

    steps: tuple[Step, ...]
    conditions: tuple[Condition, ...]


def decide(wanted: Wanted, seen: BackupSeen, slot: Slot) -> Decision:
    """Run all stages on one observation. A resource on stand-by manages its own agents and slot, and decides nothing
    about the backup."""
    if wanted.stands_by:
        own = (configure_agents(wanted, seen, slot), _give_when_idle(seen, slot))
        return Decision(steps=tuple(filter(None, own)), conditions=check(wanted, seen, slot))
    stages = (configure_agents(wanted, seen, slot), seal(seen), toggle(wanted, seen, slot), modify(wanted, seen))
    return Decision(steps=tuple(step for step in stages if step is not None), conditions=check(wanted, seen, slot))


def check(wanted: Wanted, seen: BackupSeen, slot: Slot) -> tuple[Condition, ...]:
    """Return the differences from the spec. An error in reading a backup is a difference."""
    found: list[Condition] = []
    if seen.agents.configured != wanted.agents:
        found.append(_condition(ConditionType.INCORRECT_DEPLOYMENT, "the agents do not run for what is declared"))
    elif seen.agents.ready < wanted.agents.replicas:
        said = f"{seen.agents.ready} of {wanted.agents.replicas} agents run"
        found.append(_condition(ConditionType.DEPLOYMENT_ROLLING_OUT, said))
    if wanted.stands_by:
        live = seen.live
        running = live if live is not None and live.low.phase is Phase.RUNNING else None
        wrong = (running.problem or _lacking(wanted, running)) if running is not None else ""
        return (*found, *([_condition(ConditionType.INCORRECT_BACKUP_STATE, wrong)] if wrong else []))
    if wrong := _wrong_state(wanted, seen, slot):
        found.append(_condition(ConditionType.INCORRECT_BACKUP_STATE, wrong))
    if wrong := _wrong_settings(wanted, seen):
        found.append(_condition(ConditionType.MISCONFIGURED_BACKUP, wrong))
    return tuple(found)


def configure_agents(wanted: Wanted, seen: BackupSeen, slot: Slot) -> ConfigureAgents | None:
    """Agents of an old destination run until the live backup at the old destination is stopped: agents confirm the
    stop. No agents start for an initial copy without its slot."""
    live, configured = seen.live, seen.agents.configured
    are_there = configured is not None and configured.replicas != 0
    if live is not None and live.copies_first and slot is not Slot.HELD and not are_there:
        return None
    if live is not None and live.place != wanted.place and seen.agents.configured is not None:
        return None
    return ConfigureAgents(agents=wanted.agents) if seen.agents.configured != wanted.agents else None


def seal(seen: BackupSeen) -> Seal | None:
    """Seal a stopped backup without a seal, unless a later backup continues under the same name: then the commits
    belong to the later backup."""
    newest = {(each.place, each.low.beginning.backup): each for each in seen.backups}
    found = next((each for each in newest.values() if each.low.phase is Phase.STOPPED and not each.low.is_sealed), None)
    return Seal(place=found.place, number=found.low.number) if found is not None else None


def toggle(wanted: Wanted, seen: BackupSeen, slot: Slot) -> Step | None:
    """Start, stop, pause or resume. A stop waits for nothing."""
    live = seen.live
    if superfluous := next((each for each in seen.backups if each.is_live and each is not live), None):
        return _turn(superfluous, Phase.STOPPED)
    if wanted.state is BackupState.STOPPED:
        return _turn(live, Phase.STOPPED) if live is not None else _give_when_idle(seen, slot)
    if live is None or needs_restart(wanted, live):
        return _begin(wanted, seen, slot)
    return _go_on(wanted, seen, live, slot)


def _go_on(wanted: Wanted, seen: BackupSeen, live: LowLevelSeen, slot: Slot) -> Step | None:
    """The step of a live backup that matches the spec."""
    phase = _phase(wanted.state)
    if phase is Phase.RUNNING and live.is_initial:
        return _copy_first(wanted, seen, live, slot)
    return _turn(live, phase) if phase is not live.low.phase else _give_when_idle(seen, slot)


def _copy_first(wanted: Wanted, seen: BackupSeen, live: LowLevelSeen, slot: Slot) -> Step | None:
    """Of an initial copy. One that nobody carries out, or whose slot was lost, rests, and lets others copy. If it is
    shared it goes on: others may carry it out, and have a slot of their own."""
    is_running, is_carried_out = live.low.phase is Phase.RUNNING, _is_carried_out(wanted, seen, live)
    if wanted.identity and is_running and not (is_carried_out and slot is Slot.FREE):
        return None if is_carried_out else _give(slot)
    if is_carried_out and slot is not Slot.TAKEN:
        if slot is Slot.FREE:
            return TakeSlot()
        return None if is_running else _turn(live, Phase.RUNNING)
    return _turn(live, Phase.PAUSED) if is_running else _give_when_idle(seen, slot)


def _is_carried_out(wanted: Wanted, seen: BackupSeen, live: LowLevelSeen) -> bool:
    """Whether there are agents for an initial copy. They get a while to begin: pods that no node takes, and processes
    that end again and again, may never run."""
    may_begin = live.low.phase is Phase.RUNNING and live.quiet_ms <= quiet_max_ms(wanted.settings)
    return wanted.agents.replicas > 0 and (may_begin or live.is_copied or seen.agents.ready > 0)


def modify(wanted: Wanted, seen: BackupSeen) -> Modify | None:
    """Change settings or topics in place."""
    live = seen.live
    if live is None or wanted.state is BackupState.STOPPED or needs_restart(wanted, live):
        return None
    is_chosen = _chosen(live.low.beginning) == _chosen(wanted.beginning)
    if is_chosen and live.low.settings == wanted.settings:
        return None
    topics, exclude = ((), ()) if is_chosen else _chosen(wanted.beginning)
    return Modify(place=live.place, number=live.low.number, settings=wanted.settings, topics=topics, exclude=exclude)


def needs_restart(wanted: Wanted, live: LowLevelSeen) -> bool:
    """Whether the spec declares another backup: destination, tag or source changed."""
    begun, asked = live.low.beginning, wanted.beginning
    return live.place != wanted.place or (begun.path, begun.tag, begun.cluster) != (
        asked.path,
        asked.tag,
        asked.cluster,
    )


def _chosen(beginning: Beginning) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return beginning.topics, beginning.exclude


def _begin(wanted: Wanted, seen: BackupSeen, slot: Slot) -> Step | None:
    """Take a slot, stop the live backup, wait for its agents, start. All steps but the last test whether the start is
    possible."""
    start = Start(place=wanted.place, beginning=wanted.beginning, settings=wanted.settings)
    if not wanted.agents.replicas:  # nobody is to copy
        if wanted.identity:
            return _give(slot)
        live = seen.live
        rests = live is None or live.is_whole or live.low.phase is Phase.PAUSED
        return _give_when_idle(seen, slot) if live is None or rests else _turn(live, Phase.PAUSED)
    if slot is not Slot.HELD:
        return TakeSlot(then=start) if slot is Slot.FREE else None
    if (live := seen.live) is not None:
        return replace(_turn(live, Phase.STOPPED), then=start)
    return start if not any(each.is_copied for each in seen.backups) else None


def _give_when_idle(seen: BackupSeen, slot: Slot) -> GiveSlot | None:
    is_busy = any(each.copies_first for each in seen.backups)
    return None if is_busy else _give(slot)


def _give(slot: Slot) -> GiveSlot | None:
    return GiveSlot() if slot is Slot.HELD else None


def _turn(seen: LowLevelSeen, to: Phase) -> Turn:
    return Turn(place=seen.place, number=seen.low.number, to=to)


def _phase(state: BackupState) -> Phase:
    match state:
        case BackupState.RUNNING:
            return Phase.RUNNING
        case BackupState.PAUSED:
            return Phase.PAUSED
        case BackupState.STOPPED:
            return Phase.STOPPED
        case _:
            assert_never(state)


def _condition(kind: ConditionType, message: str) -> Condition:
    return Condition(type=kind, message=message)


def _wrong_state(wanted: Wanted, seen: BackupSeen, slot: Slot) -> str:
    live = seen.live
    if wanted.state is BackupState.STOPPED:
        return "" if live is None else f"{live.low.beginning.backup} is {live.low.phase}, and is to be stopped"
    if live is None:
        return f"no backup runs{_why_not(wanted, slot)}"
    if live.problem:
        return live.problem
    if live.low.phase is not _phase(wanted.state):
        why = _why_not(wanted, slot) if live.is_initial else ""
        if not why and live.is_initial and live.low.phase is Phase.PAUSED and not seen.agents.ready:
            why = ": none of its agents runs"
        return f"{live.low.beginning.backup} is {live.low.phase}, and is to be {wanted.state}{why}"
    if wanted.state is not BackupState.RUNNING:
        return ""
    return _lacking(wanted, live)


def _lacking(wanted: Wanted, live: LowLevelSeen) -> str:
    """Return the defects of a running backup, and a lack of signs of progress."""
    first = f"{live.low.beginning.backup} has not copied everything once" if live.is_initial else ""
    ahead = f"{live.ahead}, in the future, and shows nothing: a clock was wrong" if live.ahead else ""
    left = f"its newest commit lacks what could not be read: {live.left_behind}" if live.left_behind else ""
    missing = f"topics that are declared do not exist: {live.missing}" if live.missing else ""
    is_behind = live.is_whole and live.low.chosen_ms > max(0, live.latest_ms)
    behind = "since its topics were changed no restore point has all of them" if is_behind else ""
    return "; ".join(filter(None, (first, behind, _silence(wanted, live), ahead, left, missing)))


def _why_not(wanted: Wanted, slot: Slot) -> str:
    """Return why an initial copy does not start or continue."""
    if not wanted.agents.replicas:
        return ": its spec asks for no agents"
    return ": it waits for the initial copy of others" if slot is Slot.TAKEN else ""


def _silence(wanted: Wanted, live: LowLevelSeen) -> str:
    """Return how long a backup has shown no sign of progress, and a known reason; empty: progress is shown."""
    if live.quiet_ms <= quiet_max_ms(wanted.settings):
        return ""
    why = live.outage or ("its agents say nothing" if wanted.agents.replicas else "its spec asks for no agents")
    since = f"went on since {format_time(live.well_ms)}" if live.well_ms else "goes on"
    return f"nothing shows that {live.low.beginning.backup} {since}: {why}"


def quiet_max_ms(settings: Settings) -> int:
    """Return how long a running backup may show no sign: a commit comes every five minutes, and the report of the agent
    every minute, but not more often than once a round."""
    interval_s = parse_parameters(dict(settings.parameters)).interval_s
    return max(QUIET_MS, int(QUIET_ROUNDS * interval_s * 1000))


def _wrong_settings(wanted: Wanted, seen: BackupSeen) -> str:
    live = seen.live
    if live is None or wanted.state is BackupState.STOPPED:
        return ""
    if needs_restart(wanted, live):
        return f"{live.low.beginning.backup} is of another destination or tag"
    return "its settings or topics are not those declared" if modify(wanted, seen) is not None else ""
