"""The stages of a declared backup: check, agents, seal, toggle, modify. Every stage is small, and returns one step or
none.

Stages use observations, never earlier decisions: an operator that dies between two stages, or decides on an old
observation, leaves a state that the next observation shows. So a stage may be repeated, and the world moves by one step
at a time towards the spec.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from offsite.model.units import format_time
from offsite.operator.decide.desired import DesiredAgents, DesiredBackup, RepositoryPlace
from offsite.operator.decide.observed import ObservedBackup, ObservedLowLevel
from offsite.operator.decide.options import parse_parameters
from offsite.operator.resources.backup import DesiredBackupState
from offsite.repository.declared.entry import BackupSettings, BackupStart
from offsite.repository.declared.history import BackupPhase

QUIET_MS = 15 * 60_000
QUIET_ROUNDS = 3


class ConditionType(StrEnum):
    """Why a backup differs from its spec. No condition: the backup is reconciled."""

    INCORRECT_DEPLOYMENT = "IncorrectDeployment"
    """No agents run, or the agents run for another spec, or on an earlier way to their cluster."""
    DEPLOYMENT_ROLLING_OUT = "DeploymentRollingOut"
    """Some agents do not run yet."""
    INCORRECT_BACKUP_STATE = "IncorrectBackupState"
    """The backup does not run, pause or stop as declared, or has no complete copy of all topics yet."""
    MISCONFIGURED_BACKUP = "MisconfiguredBackup"
    """The backup runs with other settings than declared, or cannot run with the declared settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupCondition:
    type: ConditionType
    message: str


class SlotAvailability(StrEnum):
    """Whether this backup may make its initial copy: the number of initial copies at a time is limited."""

    HELD = "held"
    FREE = "free"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureAgents:
    """Run agents for this spec only."""

    agents: DesiredAgents


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a new low-level backup. Its name gets a timestamp by the store's clock."""

    place: RepositoryPlace
    beginning: BackupStart
    settings: BackupSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSlot:
    """`then`: the backup to start with the slot. The start is tested before the slot is taken: no slot is blocked by an
    impossible start."""

    then: Start | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveSlot:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePhase:
    """Stop, pause or resume a low-level backup. `then`: the backup to start in its place. The start is tested before
    the stop: no running backup is stopped for an impossible start."""

    place: RepositoryPlace
    number: int
    to: BackupPhase
    then: Start | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealStep:
    """Seal a stopped backup: no process can add a commit any more. Needed if the operator died after the stop."""

    place: RepositoryPlace
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Modify:
    """Change the settings. `topics` and `exclude`: the new choice of topics; empty: no change of topics."""

    place: RepositoryPlace
    number: int
    settings: BackupSettings
    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


Step = ConfigureAgents | TakeSlot | GiveSlot | Start | ChangePhase | SealStep | Modify


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps of now, in order, and the differences from the spec."""

    steps: tuple[Step, ...]
    conditions: tuple[BackupCondition, ...]


def decide(desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability) -> Decision:
    """Run all stages on one observation. A resource on stand-by manages its own agents and slot, and decides nothing
    about the backup."""
    if desired.stands_by:
        steps = (configure_agents(desired, observed, slot), _give_when_idle(observed, slot))
        return Decision(steps=tuple(filter(None, steps)), conditions=check(desired, observed, slot))
    stages = (
        configure_agents(desired, observed, slot),
        seal(observed),
        toggle(desired, observed, slot),
        modify(desired, observed),
    )
    return Decision(steps=tuple(step for step in stages if step is not None), conditions=check(desired, observed, slot))


def check(desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability) -> tuple[BackupCondition, ...]:
    """Return the differences from the spec. An error in reading a backup is a difference."""
    conditions: list[BackupCondition] = []
    if observed.agents.configured != desired.agents:
        conditions.append(
            _condition(ConditionType.INCORRECT_DEPLOYMENT, "the agents do not run with the declared spec yet")
        )
    elif observed.agents.problem:
        conditions.append(_condition(ConditionType.INCORRECT_DEPLOYMENT, observed.agents.problem))
    elif observed.agents.ready < desired.agents.replicas:
        said = f"{observed.agents.ready} of {desired.agents.replicas} agents run"
        conditions.append(_condition(ConditionType.DEPLOYMENT_ROLLING_OUT, said))
    if desired.stands_by:
        live = observed.live
        running = live if live is not None and live.low.phase is BackupPhase.RUNNING else None
        wrong = (running.problem or _lacking(desired, running)) if running is not None else ""
        return (*conditions, *([_condition(ConditionType.INCORRECT_BACKUP_STATE, wrong)] if wrong else []))
    if wrong := _wrong_state(desired, observed, slot):
        conditions.append(_condition(ConditionType.INCORRECT_BACKUP_STATE, wrong))
    if wrong := _wrong_settings(desired, observed):
        conditions.append(_condition(ConditionType.MISCONFIGURED_BACKUP, wrong))
    return tuple(conditions)


def configure_agents(
    desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability
) -> ConfigureAgents | None:
    """Agents of an old destination run until the live backup at the old destination is stopped: agents confirm the
    stop. No agents start for an initial copy without its slot."""
    live, configured = observed.live, observed.agents.configured
    are_there = configured is not None and configured.replicas != 0
    if live is not None and live.copies_first and slot is not SlotAvailability.HELD and not are_there:
        return None
    if live is not None and live.place != desired.place and observed.agents.configured is not None:
        return None
    return ConfigureAgents(agents=desired.agents) if observed.agents.configured != desired.agents else None


def seal(observed: ObservedBackup) -> SealStep | None:
    """Seal a stopped backup without a seal, unless a later backup continues under the same name: then the commits
    belong to the later backup."""
    newest = {(backup.place, backup.low.beginning.backup): backup for backup in observed.backups}
    unsealed = next(
        (backup for backup in newest.values() if backup.low.phase is BackupPhase.STOPPED and not backup.low.is_sealed),
        None,
    )
    return SealStep(place=unsealed.place, number=unsealed.low.number) if unsealed is not None else None


def toggle(desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability) -> Step | None:
    """Start, stop, pause or resume. A stop waits for nothing."""
    live = observed.live
    if superfluous := next((backup for backup in observed.backups if backup.is_live and backup is not live), None):
        return _turn(superfluous, BackupPhase.STOPPED)
    if desired.state is DesiredBackupState.STOPPED:
        return _turn(live, BackupPhase.STOPPED) if live is not None else _give_when_idle(observed, slot)
    if live is None or needs_restart(desired, live):
        return _begin(desired, observed, slot)
    return _go_on(desired, observed, live, slot)


def _go_on(
    desired: DesiredBackup, observed: ObservedBackup, live: ObservedLowLevel, slot: SlotAvailability
) -> Step | None:
    """The step of a live backup that matches the spec."""
    phase = _phase(desired.state)
    if phase is BackupPhase.RUNNING and live.is_initial:
        return _copy_first(desired, observed, live, slot)
    return _turn(live, phase) if phase is not live.low.phase else _give_when_idle(observed, slot)


def _copy_first(
    desired: DesiredBackup, observed: ObservedBackup, live: ObservedLowLevel, slot: SlotAvailability
) -> Step | None:
    """The step of an initial copy. An initial copy without agents, or with a lost slot, is paused, and other backups
    copy. The initial copy of a shared backup continues: agents of other members may do it, with their own slot."""
    is_running, is_carried_out = live.low.phase is BackupPhase.RUNNING, _is_carried_out(desired, observed, live)
    if desired.identity and is_running and not (is_carried_out and slot is SlotAvailability.FREE):
        return None if is_carried_out else _give(slot)
    if is_carried_out and slot is not SlotAvailability.TAKEN:
        if slot is SlotAvailability.FREE:
            return TakeSlot()
        return None if is_running else _turn(live, BackupPhase.RUNNING)
    return _turn(live, BackupPhase.PAUSED) if is_running else _give_when_idle(observed, slot)


def _is_carried_out(wanted: DesiredBackup, seen: ObservedBackup, live: ObservedLowLevel) -> bool:
    """Whether there are agents for an initial copy. They get a while to begin: pods that no node takes, and processes
    that end again and again, may never run."""
    may_begin = live.low.phase is BackupPhase.RUNNING and live.quiet_ms <= quiet_max_ms(wanted.settings)
    return wanted.agents.replicas > 0 and (may_begin or live.is_copied or seen.agents.ready > 0)


def modify(desired: DesiredBackup, observed: ObservedBackup) -> Modify | None:
    """Change settings or topics in place."""
    live = observed.live
    if live is None or desired.state is DesiredBackupState.STOPPED or needs_restart(desired, live):
        return None
    is_chosen = _chosen(live.low.beginning) == _chosen(desired.beginning)
    if is_chosen and live.low.settings == desired.settings:
        return None
    topics, exclude = ((), ()) if is_chosen else _chosen(desired.beginning)
    return Modify(place=live.place, number=live.low.number, settings=desired.settings, topics=topics, exclude=exclude)


def needs_restart(desired: DesiredBackup, live: ObservedLowLevel) -> bool:
    """Whether the spec declares another backup: destination, tag or source changed.

    A restart (another destination or tag) first stops the old backup, and starts the new backup when no agent holds the
    old one any more. Before the stop, the operator waits for a slot of the throttle, and tests whether the new backup
    can start. A changed choice of topics is no restart: copied topics stay as they are, added topics are copied from
    now on, and removed topics get no new records.
    """
    current, declared = live.low.beginning, desired.beginning
    return live.place != desired.place or (current.path, current.tag, current.cluster) != (
        declared.path,
        declared.tag,
        declared.cluster,
    )


def _chosen(beginning: BackupStart) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return beginning.topics, beginning.exclude


def _begin(desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability) -> Step | None:
    """Take a slot, stop the live backup, wait for its agents, start. All steps but the last test whether the start is
    possible."""
    start = Start(place=desired.place, beginning=desired.beginning, settings=desired.settings)
    if not desired.agents.replicas:  # nobody is to copy
        if desired.identity:
            return _give(slot)
        live = observed.live
        rests = live is None or live.is_whole or live.low.phase is BackupPhase.PAUSED
        return _give_when_idle(observed, slot) if live is None or rests else _turn(live, BackupPhase.PAUSED)
    if slot is not SlotAvailability.HELD:
        return TakeSlot(then=start) if slot is SlotAvailability.FREE else None
    if (live := observed.live) is not None:
        return replace(_turn(live, BackupPhase.STOPPED), then=start)
    return start if not any(backup.is_copied for backup in observed.backups) else None


def _give_when_idle(observed: ObservedBackup, slot: SlotAvailability) -> GiveSlot | None:
    is_busy = any(backup.copies_first for backup in observed.backups)
    return None if is_busy else _give(slot)


def _give(slot: SlotAvailability) -> GiveSlot | None:
    return GiveSlot() if slot is SlotAvailability.HELD else None


def _turn(backup: ObservedLowLevel, to: BackupPhase) -> ChangePhase:
    return ChangePhase(place=backup.place, number=backup.low.number, to=to)


def _phase(state: DesiredBackupState) -> BackupPhase:
    match state:
        case DesiredBackupState.RUNNING:
            return BackupPhase.RUNNING
        case DesiredBackupState.PAUSED:
            return BackupPhase.PAUSED
        case DesiredBackupState.STOPPED:
            return BackupPhase.STOPPED
        case _:
            assert_never(state)


def _condition(kind: ConditionType, message: str) -> BackupCondition:
    return BackupCondition(type=kind, message=message)


def _wrong_state(desired: DesiredBackup, observed: ObservedBackup, slot: SlotAvailability) -> str:
    live = observed.live
    if desired.state is DesiredBackupState.STOPPED:
        return "" if live is None else f"{live.low.beginning.backup} is {live.low.phase}, but should be stopped"
    if live is None:
        return f"no backup runs{_why_not(desired, slot)}"
    if live.problem:
        return live.problem
    if live.low.phase is not _phase(desired.state):
        why = _why_not(desired, slot) if live.is_initial else ""
        if not why and live.is_initial and live.low.phase is BackupPhase.PAUSED and not observed.agents.ready:
            why = ": none of its agents is running"
        return f"{live.low.beginning.backup} is {live.low.phase}, but should be {desired.state}{why}"
    if desired.state is not DesiredBackupState.RUNNING:
        return ""
    return _lacking(desired, live)


def _lacking(desired: DesiredBackup, live: ObservedLowLevel) -> str:
    """Return the defects of a running backup, and a lack of signs of progress."""
    first = f"{live.low.beginning.backup} has not completed its first full copy" if live.is_initial else ""
    ahead = f"{live.ahead}, in the future, and proves no progress: a clock was wrong" if live.ahead else ""
    unread = (
        f"its newest commit does not have partitions that could not be read: {live.left_behind}"
        if live.left_behind
        else ""
    )
    missing = f"declared topics do not exist: {live.missing}" if live.missing else ""
    is_behind = live.is_whole and live.low.chosen_ms > max(0, live.latest_ms)
    behind = "no restore point has all topics since the declared topics changed" if is_behind else ""
    return "; ".join(filter(None, (first, behind, _silence(desired, live), ahead, unread, missing)))


def _why_not(desired: DesiredBackup, slot: SlotAvailability) -> str:
    """Return why an initial copy does not start or continue."""
    if not desired.agents.replicas:
        return ": its spec has no agents"
    return ": it waits for the initial copy of other backups" if slot is SlotAvailability.TAKEN else ""


def _silence(desired: DesiredBackup, live: ObservedLowLevel) -> str:
    """Return how long a backup has shown no sign of progress, and a known reason; empty: progress is shown."""
    if live.quiet_ms <= quiet_max_ms(desired.settings):
        return ""
    why = live.outage or ("its agents report nothing" if desired.agents.replicas else "its spec has no agents")
    since = f"has shown no progress since {format_time(live.well_ms)}" if live.well_ms else "shows no progress"
    return f"{live.low.beginning.backup} {since}: {why}"


def quiet_max_ms(settings: BackupSettings) -> int:
    """Return how long a running backup may show no sign: a commit comes every five minutes, and the report of the agent
    every minute, but not more often than once a round."""
    interval_s = parse_parameters(dict(settings.parameters)).interval_s
    return max(QUIET_MS, int(QUIET_ROUNDS * interval_s * 1000))


def _wrong_settings(desired: DesiredBackup, observed: ObservedBackup) -> str:
    live = observed.live
    if live is None or desired.state is DesiredBackupState.STOPPED:
        return ""
    if needs_restart(desired, live):
        return f"{live.low.beginning.backup} has another destination or tag"
    return "its settings or topics differ from the declared ones" if modify(desired, observed) is not None else ""
