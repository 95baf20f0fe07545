"""Schedules: random courses of two operators, and single promises."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from offsite.operator.decide.schedule import DecisionKind
from offsite.operator.world.schedules import ScheduleStatus
from offsite.operator.world.timeline import KEPT, Recorded, Timeline
from tests.unit.operator.world.schedule_world import TARGET, UID, ScheduleWorld

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000")) // 5
STEPS = 60
MINUTE = 60_000


def play(seed: int) -> None:
    world = ScheduleWorld(seed, startingDeadline=("4m", "12m")[seed % 2], history=3)
    decided: dict[int, Recorded] = {}
    for _ in range(STEPS):
        event = world.rng.random()
        if event < 0.7:
            world.operate(world.rng.choice("xy"), faults=True)
        elif event < 0.75 and world.processes:
            world.processes.remove(world.rng.choice(world.processes))
        elif event < 0.8 and world.processes:
            world.rng.choice(world.processes).frozen = world.rng.randint(1, 12)
        elif event < 0.84:
            world.wanted = replace(world.wanted, suspend=not world.wanted.suspend)
        world.now_ms += world.rng.choice([5000, 20_000, 20_000, 70_000, 1_000_000])
        world.run_processes()
        for each in line(world):
            assert decided.setdefault(each.seq, each) == each
    runs = [each for each in decided.values() if each.decided.kind.is_run]
    assert len({each.decided.time_ms for each in runs}) == len(runs), "a time was decided twice"
    times = [each.decided.time_ms for each in sorted(decided.values(), key=lambda each: each.seq)]
    assert times == sorted(times)
    assert len(world.begun) <= sum(each.decided.kind is DecisionKind.FIRED for each in runs)
    fires_again(world)


def fires_again(world: ScheduleWorld) -> None:
    """Without faults it fires again, whatever was."""
    world.is_calm, world.wanted, world.work_max = True, replace(world.wanted, suspend=False), 2
    before = len(world.begun)
    for _ in range(150):
        world.operate("x", faults=False)
        world.operate("y", faults=False)
        world.now_ms += 20_000
        world.run_processes()
        if len(world.begun) > before + 1:
            return
    raise AssertionError("it does not fire any more")


def line(world: ScheduleWorld) -> list[Recorded]:
    return list(Timeline(store=world.home, uid=UID).newest_first())


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_each_time_fires_once_and_one_run_at_a_time_whoever_operates(first: int) -> None:
    for seed in range(first, first + 20):
        played(seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_time_fires_once_in_many_courses() -> None:
    for seed in range(SEEDS):
        played(seed)


def played(seed: int) -> None:
    try:
        play(seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


def quiet(**spec: object) -> ScheduleWorld:
    """A world without faults, whose schedule was looked at once, on an hour."""
    world = ScheduleWorld(1, **spec)
    world.is_calm, world.work_max = True, 1
    world.now_ms -= world.now_ms % (60 * MINUTE)
    look(world)
    return world


def look(world: ScheduleWorld, *, after_ms: int = 0) -> ScheduleStatus:
    world.now_ms += after_ms
    found = world.operate("x", faults=False)
    assert found is not None
    return found


def test_a_schedule_tells_what_ran_when_it_ran_last_and_when_it_runs_next() -> None:
    world = quiet()
    first = world.now_ms + 5 * MINUTE
    status = look(world, after_ms=5 * MINUTE + 1)
    assert (status.last_ms, status.next_ms, status.problem) == (first, first + 5 * MINUTE, "")
    assert [each.state for each in status.runs] == ["starting"]
    world.run_processes()
    status = look(world)
    assert [(each.time_ms, each.state, each.job) for each in status.runs] == [(first, "succeeded", world.begun[0])]
    assert world.commands == [("checkpoint", "take", "--backup=shop-1", "--wait")]


def test_the_next_run_is_skipped_and_told_while_one_runs() -> None:
    world = quiet()
    look(world, after_ms=5 * MINUTE)
    world.processes[0].left = 10**6
    for _ in range(20):
        world.now_ms += 15_000
        world.run_processes()
    status = look(world)
    assert [each.state for each in status.runs] == ["skipped", "running"]
    assert len(world.begun) == 1


def test_what_cannot_begin_within_its_deadline_is_told() -> None:
    world = quiet()
    world.target = None
    assert look(world, after_ms=5 * MINUTE).problem
    assert not line(world)[0].decided.kind.is_run
    status = look(world, after_ms=4 * MINUTE + 30_000)
    assert [each.state for each in status.runs] == ["missed"]
    assert not world.begun


def test_a_time_that_fired_for_another_backup_is_not_begun_for_this_one() -> None:
    world = quiet()
    timeline = Timeline(store=world.home, uid=UID)
    newest = next(timeline.newest_first())
    due = replace(newest.decided, time_ms=newest.decided.time_ms + 5 * MINUTE, kind=DecisionKind.FIRED)
    timeline.append(due, replace(TARGET, backup="shop-0"), behind=newest.seq)
    assert [each.state for each in look(world, after_ms=5 * MINUTE).runs] == ["waiting"]
    assert [each.state for each in look(world, after_ms=4 * MINUTE + 1).runs] == ["missed"]
    assert not world.begun


def test_only_so_many_runs_are_told_and_old_decisions_are_deleted() -> None:
    world = quiet(history=3)
    for _ in range(KEPT + 20):
        status = look(world, after_ms=5 * MINUTE)
        world.run_processes()
    assert len(status.runs) == 3
    assert len(line(world)) <= KEPT + 1
    assert len(world.begun) == KEPT + 20


def test_one_decision_follows_another_and_an_old_look_decides_nothing() -> None:
    world = quiet()
    timeline = Timeline(store=world.home, uid=UID)
    newest = next(timeline.newest_first())
    later = replace(newest.decided, time_ms=newest.decided.time_ms + 1)
    assert timeline.append(later, None, behind=newest.seq)
    assert not timeline.append(replace(later, left_out=1), None, behind=newest.seq)
