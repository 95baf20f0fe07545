"""What a stage does about what it sees. That all of them together come to rest is played in the world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.operator.decide.backup import (
    QUIET_MS,
    ConditionType,
    ConfigureAgents,
    GiveSlot,
    Modify,
    Seal,
    Slot,
    Start,
    Step,
    TakeSlot,
    Turn,
    check,
    configure_agents,
    decide,
    modify,
    seal,
    toggle,
)
from offsite.operator.decide.seen import AgentsSeen, BackupSeen, LowLevelSeen
from offsite.operator.decide.wanted import Account, Wanted, wanted_of
from offsite.repository.declared.history import LowLevel, Phase
from tests.unit.operator.world.world import new_backup

ACCOUNTS = (Account(name="main", endpoint="one"), Account(name="other", endpoint="two"))


def wanted(**spec: object) -> Wanted:
    return wanted_of(new_backup("aaaaaaaa", 1, **spec), ACCOUNTS)


AS_DECLARED = wanted()


def low(
    phase: Phase = Phase.RUNNING, *, of: Wanted = AS_DECLARED, whole: bool = True, copied: bool = True
) -> LowLevelSeen:
    beginning = replace(of.beginning, backup="aaaa-1")
    made = LowLevel(number=1, beginning=beginning, settings=of.settings, phase=phase, started_ms=1)
    return LowLevelSeen(place=of.place, low=made, is_whole=whole, is_copied=copied)


def seen(*lows: LowLevelSeen, of: Wanted = AS_DECLARED, ready: int = 3) -> BackupSeen:
    return BackupSeen(backups=lows, agents=AgentsSeen(configured=of.agents, ready=ready))


def turn(phase: Phase) -> Turn:
    return Turn(place=AS_DECLARED.place, number=1, to=phase)


MODIFIED = [ConditionType.MISCONFIGURED_BACKUP]
START = Start(place=AS_DECLARED.place, beginning=AS_DECLARED.beginning, settings=AS_DECLARED.settings)


@pytest.mark.parametrize(
    ("state", "look", "slot", "step"),
    [
        ("running", seen(), Slot.FREE, TakeSlot(then=START)),
        ("running", seen(), Slot.TAKEN, None),
        ("running", seen(), Slot.HELD, START),
        ("paused", seen(), Slot.HELD, START),
        ("stopped", seen(), Slot.FREE, None),
        ("stopped", seen(low(whole=False)), Slot.TAKEN, turn(Phase.STOPPED)),
        ("running", seen(low(Phase.PAUSED)), Slot.TAKEN, turn(Phase.RUNNING)),
        ("running", seen(low(Phase.PAUSED, whole=False)), Slot.TAKEN, None),
        ("running", seen(low(Phase.PAUSED, whole=False)), Slot.HELD, turn(Phase.RUNNING)),
        ("paused", seen(low()), Slot.FREE, turn(Phase.PAUSED)),
        ("paused", seen(low(Phase.PAUSED)), Slot.FREE, None),
        ("running", seen(low()), Slot.HELD, GiveSlot()),
        ("running", seen(low(whole=False)), Slot.TAKEN, turn(Phase.PAUSED)),
        ("running", seen(low(whole=False)), Slot.HELD, None),
        ("stopped", seen(low(Phase.STOPPED, whole=False)), Slot.HELD, None),
        ("stopped", seen(low(Phase.STOPPED, whole=False, copied=False)), Slot.HELD, GiveSlot()),
    ],
)
def test_toggle_does_the_one_next_thing(state: str, look: BackupSeen, slot: Slot, step: Step | None) -> None:
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
    assert toggle(asked, seen(low()), Slot.FREE) == TakeSlot(then=start)
    assert toggle(asked, seen(low()), Slot.TAKEN) is None, "the old one goes on until the new one may begin"
    assert toggle(asked, seen(low()), Slot.HELD) == replace(turn(Phase.STOPPED), then=start), "it is tried first"
    assert toggle(asked, seen(low(Phase.STOPPED)), Slot.HELD) is None, "an agent has it in hand still"
    assert toggle(asked, seen(low(Phase.STOPPED, copied=False)), Slot.HELD) == start
    assert modify(asked, seen(low())) is None


@pytest.mark.parametrize("changed", [{"topics": ["orders", "payments"]}, {"topics": ["orders"]}, {"exclude": ["x"]}])
def test_another_choice_of_topics_changes_in_place_and_waits_for_no_slot(changed: dict[str, object]) -> None:
    before, asked = wanted(topics=["orders", "fees"]), wanted(**{"topics": ["orders", "fees"], **changed})
    now = seen(low(of=before), of=before)
    topics, exclude = asked.beginning.topics, asked.beginning.exclude
    for slot in Slot:
        assert toggle(asked, now, slot) in {None, GiveSlot()}
    assert modify(asked, now) == Modify(
        place=asked.place, number=1, settings=asked.settings, topics=topics, exclude=exclude
    )
    assert modify(before, now) is None


def test_topics_that_were_added_are_told_until_a_restore_point_has_them() -> None:
    one = low()
    changed = replace(one, low=replace(one.low, chosen_ms=1000))
    for latest_ms, is_told in ((999, True), (1000, False)):
        (*told,) = check(AS_DECLARED, seen(replace(changed, latest_ms=latest_ms)), Slot.FREE)
        assert ("no restore point has all of them" in str(told)) is is_told


@pytest.mark.parametrize("changed", [{"snapshotDuration": "1d"}, {"parameters": {"interval": "5s"}}])
def test_parameters_and_snapshot_duration_change_in_place(changed: dict[str, object]) -> None:
    asked = wanted(**changed)
    assert toggle(asked, seen(low()), Slot.FREE) is None
    assert modify(asked, seen(low())) == Modify(place=asked.place, number=1, settings=asked.settings)


def test_agents_are_configured_and_those_of_an_old_place_stay_until_it_is_stopped() -> None:
    assert configure_agents(AS_DECLARED, BackupSeen(), Slot.FREE) == ConfigureAgents(agents=AS_DECLARED.agents)
    assert configure_agents(AS_DECLARED, seen(low()), Slot.FREE) is None
    moved = wanted(destination={"account": "other"})
    assert configure_agents(moved, seen(low()), Slot.FREE) is None
    assert configure_agents(moved, seen(low(Phase.STOPPED)), Slot.FREE) == ConfigureAgents(agents=moved.agents)


@pytest.mark.parametrize(
    ("asked", "look", "types"),
    [
        (AS_DECLARED, seen(low()), []),
        (AS_DECLARED, seen(low(whole=False)), [ConditionType.INCORRECT_BACKUP_STATE]),
        (AS_DECLARED, seen(low(), ready=2), [ConditionType.DEPLOYMENT_ROLLING_OUT]),
        (AS_DECLARED, BackupSeen(backups=(low(),)), [ConditionType.INCORRECT_DEPLOYMENT]),
        (wanted(state="paused"), seen(low()), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(state="stopped"), seen(low()), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(state="stopped"), seen(low(Phase.STOPPED)), []),
        (wanted(snapshotDuration="1d"), seen(low()), [ConditionType.MISCONFIGURED_BACKUP]),
        (wanted(tag="new"), seen(low()), [ConditionType.MISCONFIGURED_BACKUP]),
        (AS_DECLARED, seen(), [ConditionType.INCORRECT_BACKUP_STATE]),
        (AS_DECLARED, seen(replace(low(), quiet_ms=QUIET_MS)), []),
        (AS_DECLARED, seen(replace(low(), quiet_ms=QUIET_MS + 1)), [ConditionType.INCORRECT_BACKUP_STATE]),
        (wanted(parameters={"interval": "1h"}), seen(replace(low(), quiet_ms=QUIET_MS + 1), of=wanted()), MODIFIED),
        (wanted(state="paused"), seen(replace(low(Phase.PAUSED), quiet_ms=QUIET_MS + 1)), []),
        (AS_DECLARED, seen(replace(low(), problem="OFF-1302: x")), [ConditionType.INCORRECT_BACKUP_STATE]),
    ],
)
def test_what_is_not_as_declared_is_told_by_its_condition(
    asked: Wanted, look: BackupSeen, types: list[ConditionType]
) -> None:
    assert [each.type for each in check(asked, look, Slot.FREE)] == types


def test_an_unreconciled_backup_goes_through_the_later_stages_all_the_same() -> None:
    asked = wanted(snapshotDuration="1d", agents={"replicas": 5})
    found = decide(asked, seen(low()), Slot.FREE)
    assert [type(each) for each in found.steps] == [ConfigureAgents, Modify]
    assert len(found.conditions) == 2


def test_two_that_are_live_become_one() -> None:
    other = replace(low(), low=replace(low().low, number=2, started_ms=2))
    assert toggle(AS_DECLARED, seen(low(), other), Slot.FREE) == turn(Phase.STOPPED)


@pytest.mark.parametrize("whole", [True, False])
def test_a_backup_of_which_nothing_shows_that_it_goes_on_tells_since_when_and_why(whole: bool) -> None:
    quiet = replace(low(whole=whole), quiet_ms=QUIET_MS + 1, well_ms=1_700_000_000_000)
    (told,) = check(AS_DECLARED, seen(quiet), Slot.HELD)
    assert told.message.endswith("aaaa-1 went on since 2023-11-14T22:13:20.000Z: its agents say nothing")
    (told,) = check(AS_DECLARED, seen(replace(quiet, outage="OFF-0301: no broker")), Slot.HELD)
    assert told.message.endswith(": OFF-0301: no broker")
    (told,) = check(AS_DECLARED, seen(replace(quiet, well_ms=0)), Slot.HELD)
    assert told.message.endswith("nothing shows that aaaa-1 goes on: its agents say nothing")


def test_what_is_dated_in_the_future_is_told() -> None:
    (told,) = check(AS_DECLARED, seen(replace(low(), ahead="its newest commit is dated 2099")), Slot.HELD)
    assert told.message == "its newest commit is dated 2099, in the future, and shows nothing: a clock was wrong"


@pytest.mark.parametrize(
    ("look", "slot", "step"),
    [
        (seen(), Slot.FREE, None),
        (seen(), Slot.HELD, GiveSlot()),
        (seen(low(whole=False)), Slot.HELD, turn(Phase.PAUSED)),
        (seen(low(Phase.PAUSED, whole=False)), Slot.HELD, None),
        (seen(low(Phase.PAUSED, whole=False, copied=False)), Slot.HELD, GiveSlot()),
        (seen(low(Phase.PAUSED, whole=False, copied=False)), Slot.FREE, None),
        (seen(low()), Slot.FREE, None),
    ],
)
def test_a_backup_without_agents_keeps_no_slot_and_rests_before_it_gives_it(
    look: BackupSeen, slot: Slot, step: Step | None
) -> None:
    asked = wanted(agents={"replicas": 0})
    assert toggle(asked, look, slot) == step
    assert slot is not Slot.FREE or look.live or "asks for no agents" in check(asked, look, slot)[-1].message


SILENT = replace(low(whole=False, copied=False), quiet_ms=QUIET_MS + 1)
RESTING = low(Phase.PAUSED, whole=False, copied=False)


@pytest.mark.parametrize(
    ("look", "slot", "step"),
    [
        (seen(low(whole=False, copied=False), ready=0), Slot.HELD, None),
        (seen(SILENT, ready=0), Slot.HELD, turn(Phase.PAUSED)),
        (seen(SILENT, ready=0), Slot.FREE, turn(Phase.PAUSED)),
        (seen(SILENT, ready=1), Slot.HELD, None),
        (seen(replace(SILENT, is_copied=True), ready=0), Slot.HELD, None),
        (seen(RESTING, ready=0), Slot.HELD, GiveSlot()),
        (seen(RESTING, ready=0), Slot.FREE, None),
        (seen(RESTING, ready=1), Slot.FREE, TakeSlot()),
    ],
)
def test_an_initial_copy_whose_agents_never_run_rests_until_one_does(
    look: BackupSeen, slot: Slot, step: Step | None
) -> None:
    assert toggle(AS_DECLARED, look, slot) == step


def test_why_it_rests_is_told() -> None:
    (_, told) = check(AS_DECLARED, seen(RESTING, ready=0), Slot.FREE)
    assert told.message == "aaaa-1 is paused, and is to be running: none of its agents runs"


def test_no_agents_begin_for_an_initial_copy_that_has_lost_its_slot() -> None:
    look = BackupSeen(backups=(low(whole=False, copied=False),))
    assert configure_agents(AS_DECLARED, look, Slot.TAKEN) is None
    assert configure_agents(AS_DECLARED, look, Slot.HELD) == ConfigureAgents(agents=AS_DECLARED.agents)


def test_what_was_stopped_and_not_sealed_is_sealed_unless_a_later_one_goes_on_under_its_name() -> None:
    stopped = low(Phase.STOPPED)
    assert seal(seen(stopped)) == Seal(place=stopped.place, number=1)
    assert seal(seen(replace(stopped, low=replace(stopped.low, is_sealed=True)))) is None
    later = replace(stopped, low=replace(stopped.low, number=2, phase=Phase.RUNNING))
    assert seal(seen(stopped, later)) is None
    assert decide(wanted(state="stopped"), seen(stopped), Slot.FREE).steps[-1] == Seal(place=stopped.place, number=1)


@pytest.mark.parametrize("part", ["left_behind", "missing"])
def test_what_is_not_backed_up_is_told_by_name(part: str) -> None:
    (told,) = check(AS_DECLARED, seen(replace(low(), **{part: "orders-1 (OFF-1203)"})), Slot.HELD)
    assert told.type is ConditionType.INCORRECT_BACKUP_STATE
    assert told.message.endswith(": orders-1 (OFF-1203)")
