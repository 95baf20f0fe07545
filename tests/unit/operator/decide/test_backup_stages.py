"""What a stage does about what it sees. That all of them together come to rest is played in the world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.operator.decide.backup import (
    QUIET_MS,
    ChangePhase,
    ConditionType,
    ConfigureAgents,
    GiveSlot,
    Modify,
    SealStep,
    SlotAvailability,
    Start,
    Step,
    TakeSlot,
    check,
    configure_agents,
    decide,
    modify,
    seal,
    toggle,
)
from offsite.operator.decide.desired import Account, DesiredBackup, resolve_backup
from offsite.operator.decide.observed import ObservedAgents, ObservedBackup, ObservedLowLevel
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from tests.worlds.operator.world import new_backup

ACCOUNTS = (Account(name="main", endpoint="one"), Account(name="other", endpoint="two"))


def wanted(**spec: object) -> DesiredBackup:
    return resolve_backup(new_backup("aaaaaaaa", 1, **spec), ACCOUNTS)


AS_DECLARED = wanted()


def low(
    phase: BackupPhase = BackupPhase.RUNNING,
    *,
    of: DesiredBackup = AS_DECLARED,
    whole: bool = True,
    copied: bool = True,
) -> ObservedLowLevel:
    beginning = replace(of.beginning, backup="aaaa-1")
    made = LowLevelBackup(number=1, beginning=beginning, settings=of.settings, phase=phase, started_ms=1)
    return ObservedLowLevel(place=of.place, low=made, is_whole=whole, is_copied=copied)


def seen(*lows: ObservedLowLevel, of: DesiredBackup = AS_DECLARED, ready: int = 3) -> ObservedBackup:
    return ObservedBackup(backups=lows, agents=ObservedAgents(configured=of.agents, ready=ready))


def turn(phase: BackupPhase) -> ChangePhase:
    return ChangePhase(place=AS_DECLARED.place, number=1, to=phase)


MODIFIED = [ConditionType.MISCONFIGURED_BACKUP]
START = Start(place=AS_DECLARED.place, beginning=AS_DECLARED.beginning, settings=AS_DECLARED.settings)


@pytest.mark.parametrize(
    ("state", "look", "slot", "step"),
    [
        ("running", seen(), SlotAvailability.FREE, TakeSlot(then=START)),
        ("running", seen(), SlotAvailability.TAKEN, None),
        ("running", seen(), SlotAvailability.HELD, START),
        ("paused", seen(), SlotAvailability.HELD, START),
        ("stopped", seen(), SlotAvailability.FREE, None),
        ("stopped", seen(low(whole=False)), SlotAvailability.TAKEN, turn(BackupPhase.STOPPED)),
        ("running", seen(low(BackupPhase.PAUSED)), SlotAvailability.TAKEN, turn(BackupPhase.RUNNING)),
        ("running", seen(low(BackupPhase.PAUSED, whole=False)), SlotAvailability.TAKEN, None),
        ("running", seen(low(BackupPhase.PAUSED, whole=False)), SlotAvailability.HELD, turn(BackupPhase.RUNNING)),
        ("paused", seen(low()), SlotAvailability.FREE, turn(BackupPhase.PAUSED)),
        ("paused", seen(low(BackupPhase.PAUSED)), SlotAvailability.FREE, None),
        ("running", seen(low()), SlotAvailability.HELD, GiveSlot()),
        ("running", seen(low(whole=False)), SlotAvailability.TAKEN, turn(BackupPhase.PAUSED)),
        ("running", seen(low(whole=False)), SlotAvailability.HELD, None),
        ("stopped", seen(low(BackupPhase.STOPPED, whole=False)), SlotAvailability.HELD, None),
        ("stopped", seen(low(BackupPhase.STOPPED, whole=False, copied=False)), SlotAvailability.HELD, GiveSlot()),
    ],
)
def test_toggle_does_the_one_next_thing(
    state: str, look: ObservedBackup, slot: SlotAvailability, step: Step | None
) -> None:
    assert toggle(wanted(state=state), look, slot) == step


@pytest.mark.parametrize(
    "changed",
    [
        {"destination": {"account": "other"}},
        {"destination": {"endpoint": "elsewhere"}},
        {"destination": {"path": "aaa"}},
        {"tag": "new"},
    ],
)
def test_a_change_of_destination_or_tag_restarts(changed: dict[str, object]) -> None:
    asked = wanted(**changed)
    start = Start(place=asked.place, beginning=asked.beginning, settings=asked.settings)
    assert toggle(asked, seen(low()), SlotAvailability.FREE) == TakeSlot(then=start)
    assert toggle(asked, seen(low()), SlotAvailability.TAKEN) is None, "the old one goes on until the new one may begin"
    assert toggle(asked, seen(low()), SlotAvailability.HELD) == replace(turn(BackupPhase.STOPPED), then=start), (
        "it is tried first"
    )
    assert toggle(asked, seen(low(BackupPhase.STOPPED)), SlotAvailability.HELD) is None, "an agent has it in hand still"
    assert toggle(asked, seen(low(BackupPhase.STOPPED, copied=False)), SlotAvailability.HELD) == start
    assert modify(asked, seen(low())) is None


@pytest.mark.parametrize("changed", [{"topics": ["orders", "payments"]}, {"topics": ["orders"]}, {"exclude": ["x"]}])
def test_another_choice_of_topics_changes_in_place_and_waits_for_no_slot(changed: dict[str, object]) -> None:
    before, asked = wanted(topics=["orders", "fees"]), wanted(**{"topics": ["orders", "fees"], **changed})
    now = seen(low(of=before), of=before)
    topics, exclude = asked.beginning.topics, asked.beginning.exclude
    for slot in SlotAvailability:
        assert toggle(asked, now, slot) in {None, GiveSlot()}
    assert modify(asked, now) == Modify(
        place=asked.place, number=1, settings=asked.settings, topics=topics, exclude=exclude
    )
    assert modify(before, now) is None


def test_topics_that_were_added_are_told_until_a_restore_point_has_them() -> None:
    one = low()
    changed = replace(one, low=replace(one.low, chosen_ms=1000))
    for latest_ms, is_told in ((999, True), (1000, False)):
        (*told,) = check(AS_DECLARED, seen(replace(changed, latest_ms=latest_ms)), SlotAvailability.FREE)
        assert ("no restore point has all topics" in str(told)) is is_told


@pytest.mark.parametrize("changed", [{"snapshotDuration": "1d"}, {"parameters": {"interval": "5s"}}])
def test_parameters_and_snapshot_duration_change_in_place(changed: dict[str, object]) -> None:
    asked = wanted(**changed)
    assert toggle(asked, seen(low()), SlotAvailability.FREE) is None
    assert modify(asked, seen(low())) == Modify(place=asked.place, number=1, settings=asked.settings)


def test_agents_are_configured_and_those_of_an_old_place_stay_until_it_is_stopped() -> None:
    assert configure_agents(AS_DECLARED, ObservedBackup(), SlotAvailability.FREE) == ConfigureAgents(
        agents=AS_DECLARED.agents
    )
    assert configure_agents(AS_DECLARED, seen(low()), SlotAvailability.FREE) is None
    moved = wanted(destination={"account": "other"})
    assert configure_agents(moved, seen(low()), SlotAvailability.FREE) is None
    assert configure_agents(moved, seen(low(BackupPhase.STOPPED)), SlotAvailability.FREE) == ConfigureAgents(
        agents=moved.agents
    )


@pytest.mark.parametrize(
    ("asked", "look", "types"),
    [
        (AS_DECLARED, seen(low()), []),
        (AS_DECLARED, seen(low(whole=False)), [ConditionType.INCORRECT_BACKUP_STATE]),
        (AS_DECLARED, seen(low(), ready=2), [ConditionType.DEPLOYMENT_ROLLING_OUT]),
        (AS_DECLARED, ObservedBackup(backups=(low(),)), [ConditionType.INCORRECT_DEPLOYMENT]),
        (wanted(state="paused"), seen(low()), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(state="stopped"), seen(low()), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(state="stopped"), seen(low(BackupPhase.STOPPED)), []),
        (wanted(snapshotDuration="1d"), seen(low()), [ConditionType.MISCONFIGURED_BACKUP]),
        (wanted(tag="new"), seen(low()), [ConditionType.MISCONFIGURED_BACKUP]),
        (AS_DECLARED, seen(), [ConditionType.INCORRECT_BACKUP_STATE]),
        (AS_DECLARED, seen(replace(low(), quiet_ms=QUIET_MS)), []),
        (AS_DECLARED, seen(replace(low(), quiet_ms=QUIET_MS + 1)), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(parameters={"interval": "1h"}), seen(replace(low(), quiet_ms=QUIET_MS + 1), of=wanted()), MODIFIED),
        (wanted(state="paused"), seen(replace(low(BackupPhase.PAUSED), quiet_ms=QUIET_MS + 1)), []),
        (AS_DECLARED, seen(replace(low(), problem="OFF-1302: x")), [ConditionType.INCORRECT_BACKUP_STATE]),
    ],
)
def test_what_is_not_as_declared_is_told_by_its_condition(
    asked: DesiredBackup, look: ObservedBackup, types: list[ConditionType]
) -> None:
    assert [each.type for each in check(asked, look, SlotAvailability.FREE)] == types


def test_an_unreconciled_backup_goes_through_the_later_stages_all_the_same() -> None:
    asked = wanted(snapshotDuration="1d", agents={"replicas": 5})
    found = decide(asked, seen(low()), SlotAvailability.FREE)
    assert [type(each) for each in found.steps] == [ConfigureAgents, Modify]
    assert len(found.conditions) == 2


def test_two_that_are_live_become_one() -> None:
    other = replace(low(), low=replace(low().low, number=2, started_ms=2))
    assert toggle(AS_DECLARED, seen(low(), other), SlotAvailability.FREE) == turn(BackupPhase.STOPPED)


@pytest.mark.parametrize("whole", [True, False])
def test_a_backup_of_which_nothing_shows_that_it_goes_on_tells_since_when_and_why(whole: bool) -> None:
    quiet = replace(low(whole=whole), quiet_ms=QUIET_MS + 1, well_ms=1_700_000_000_000)
    (told,) = check(AS_DECLARED, seen(quiet), SlotAvailability.HELD)
    assert told.message.endswith(
        "aaaa-1 has shown no progress since 2023-11-14T22:13:20.000Z: its agents report nothing"
    )
    (told,) = check(AS_DECLARED, seen(replace(quiet, outage="OFF-0301: no broker")), SlotAvailability.HELD)
    assert told.message.endswith(": OFF-0301: no broker")
    (told,) = check(AS_DECLARED, seen(replace(quiet, well_ms=0)), SlotAvailability.HELD)
    assert told.message.endswith("aaaa-1 shows no progress: its agents report nothing")


def test_what_is_dated_in_the_future_is_told() -> None:
    (told,) = check(AS_DECLARED, seen(replace(low(), ahead="its newest commit is dated 2099")), SlotAvailability.HELD)
    assert told.message == "its newest commit is dated 2099, in the future, and proves no progress: a clock was wrong"


@pytest.mark.parametrize(
    ("look", "slot", "step"),
    [
        (seen(), SlotAvailability.FREE, None),
        (seen(), SlotAvailability.HELD, GiveSlot()),
        (seen(low(whole=False)), SlotAvailability.HELD, turn(BackupPhase.PAUSED)),
        (seen(low(BackupPhase.PAUSED, whole=False)), SlotAvailability.HELD, None),
        (seen(low(BackupPhase.PAUSED, whole=False, copied=False)), SlotAvailability.HELD, GiveSlot()),
        (seen(low(BackupPhase.PAUSED, whole=False, copied=False)), SlotAvailability.FREE, None),
        (seen(low()), SlotAvailability.FREE, None),
    ],
)
def test_a_backup_without_agents_keeps_no_slot_and_rests_before_it_gives_it(
    look: ObservedBackup, slot: SlotAvailability, step: Step | None
) -> None:
    asked = wanted(agents={"replicas": 0})
    assert toggle(asked, look, slot) == step
    assert slot is not SlotAvailability.FREE or look.live or "has no agents" in check(asked, look, slot)[-1].message


SILENT = replace(low(whole=False, copied=False), quiet_ms=QUIET_MS + 1)
RESTING = low(BackupPhase.PAUSED, whole=False, copied=False)


@pytest.mark.parametrize(
    ("look", "slot", "step"),
    [
        (seen(low(whole=False, copied=False), ready=0), SlotAvailability.HELD, None),
        (seen(SILENT, ready=0), SlotAvailability.HELD, turn(BackupPhase.PAUSED)),
        (seen(SILENT, ready=0), SlotAvailability.FREE, turn(BackupPhase.PAUSED)),
        (seen(SILENT, ready=1), SlotAvailability.HELD, None),
        (seen(replace(SILENT, is_copied=True), ready=0), SlotAvailability.HELD, None),
        (seen(RESTING, ready=0), SlotAvailability.HELD, GiveSlot()),
        (seen(RESTING, ready=0), SlotAvailability.FREE, None),
        (seen(RESTING, ready=1), SlotAvailability.FREE, TakeSlot()),
    ],
)
def test_an_initial_copy_whose_agents_never_run_rests_until_one_does(
    look: ObservedBackup, slot: SlotAvailability, step: Step | None
) -> None:
    assert toggle(AS_DECLARED, look, slot) == step


def test_why_it_rests_is_told() -> None:
    (_, told) = check(AS_DECLARED, seen(RESTING, ready=0), SlotAvailability.FREE)
    assert told.message == "aaaa-1 is paused, but should be running: none of its agents is running"


def test_no_agents_begin_for_an_initial_copy_that_has_lost_its_slot() -> None:
    look = ObservedBackup(backups=(low(whole=False, copied=False),))
    assert configure_agents(AS_DECLARED, look, SlotAvailability.TAKEN) is None
    assert configure_agents(AS_DECLARED, look, SlotAvailability.HELD) == ConfigureAgents(agents=AS_DECLARED.agents)


def test_what_was_stopped_and_not_sealed_is_sealed_unless_a_later_one_goes_on_under_its_name() -> None:
    stopped = low(BackupPhase.STOPPED)
    assert seal(seen(stopped)) == SealStep(place=stopped.place, number=1)
    assert seal(seen(replace(stopped, low=replace(stopped.low, is_sealed=True)))) is None
    later = replace(stopped, low=replace(stopped.low, number=2, phase=BackupPhase.RUNNING))
    assert seal(seen(stopped, later)) is None
    assert decide(wanted(state="stopped"), seen(stopped), SlotAvailability.FREE).steps[-1] == SealStep(
        place=stopped.place, number=1
    )


@pytest.mark.parametrize("part", ["left_behind", "missing"])
def test_what_is_not_backed_up_is_told_by_name(part: str) -> None:
    (told,) = check(AS_DECLARED, seen(replace(low(), **{part: "orders-1 (OFF-1203)"})), SlotAvailability.HELD)
    assert told.type is ConditionType.INCORRECT_BACKUP_STATE
    assert told.message.endswith(": orders-1 (OFF-1203)")
