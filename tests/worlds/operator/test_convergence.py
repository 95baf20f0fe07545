"""Random courses of edits, crashes, lost updates, two operators and slow agents: what is declared comes about."""

from __future__ import annotations

import os

import pytest

from offsite.operator.decide.backup import SlotAvailability, needs_restart
from offsite.operator.decide.desired import DesiredBackup
from offsite.operator.resources.backup import DesiredBackupState
from offsite.operator.world.claims import Slots
from offsite.repository.declared.history import BackupPhase
from tests.worlds.operator.world import LIMIT, UIDS, World, newest

SEEDS = int(os.environ.get("OFFSITE_OPERATOR_SEEDS", "10000"))
STEPS, CALM_MAX = 40, 80


def play(seed: int) -> World:
    """A course of events under faults, then calm."""
    world = World(seed)
    known: set[tuple[str, str, int]] = set()
    for _ in range(STEPS):
        event = world.rng.random()
        if event < 0.2:
            world.edit()
        elif event < 0.6:
            world.operate(world.rng.choice(world.operators), faults=True)
        elif event < 0.67:
            world.freeze()
        elif event < 0.73:
            world.kill()
        elif event < 0.75:
            world.delete()
        elif event < 0.83:
            world.is_down = not world.is_down
        world.pass_time()
        world.run_agents()
        world.check()
        now = {(uid, place.repository, low.number) for uid, place, low in world.lows()}
        assert known <= now, "a backup was forgotten"
        known = now
    calm(world)
    return world


def calm(world: World) -> None:
    """No faults any more: how many rounds until nothing is left to do."""
    world.is_down = False
    for _ in range(CALM_MAX):
        found = {}
        for operator in world.operators:
            found = world.operate(operator, faults=False)
        world.now_ms += 20_000
        for agent in world.agents:
            agent.frozen = 0
        world.run_agents()
        world.check()
        if not world.deleted_ms.keys() & world.backups.keys() and found.keys() == world.backups.keys():
            is_rest = all(not each.conditions or rests(world, uid) for uid, each in found.items())
            if is_rest and is_idle(world) and is_sealed(world):
                return
    raise AssertionError({uid: each.conditions for uid, each in found.items()})


def rests(world: World, uid: str) -> bool:
    """Whether nobody is to copy for it: then it waits, and says so."""
    return not world.wanted(world.backups[uid]).agents.replicas


def is_sealed(world: World) -> bool:
    """Whether nothing can be added to what was stopped; what a resource left in a hurry is not looked after."""
    return all(low.is_sealed for uid, _, low in world.lows() if low.stopped_ms and uid in world.backups)


def is_idle(world: World) -> bool:
    slots = Slots(world.home, limit=LIMIT)  # type: ignore[arg-type]
    return all(slots.availability(uid) is not SlotAvailability.HELD for uid in UIDS)


def as_declared(world: World, wanted: DesiredBackup) -> None:
    live = [(place, low) for uid, place, low in world.lows() if uid == wanted.uid and low.phase.is_live]
    if wanted.state is DesiredBackupState.STOPPED:
        assert not live
        return
    if not wanted.agents.replicas:  # what began before may rest
        return
    ((place, low),) = live
    assert (place, low.settings) == (wanted.place, wanted.settings)
    assert low.phase is (BackupPhase.PAUSED if wanted.state is DesiredBackupState.PAUSED else BackupPhase.RUNNING)
    assert (low.beginning.tag, low.beginning.topics) == (wanted.beginning.tag, wanted.beginning.topics)


@pytest.mark.parametrize("first", range(0, 50, 25))
def test_what_is_declared_comes_about(first: int) -> None:
    for seed in range(first, first + 25):
        played(seed)


@pytest.mark.soak
@pytest.mark.usefixtures("unheard")
@pytest.mark.timeout(3600)
def test_what_is_declared_comes_about_in_many_courses() -> None:
    for seed in range(SEEDS):
        played(seed)


def played(seed: int) -> None:
    try:
        world = play(seed)
        for backup in world.backups.values():
            as_declared(world, world.wanted(backup))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error


__all__ = ["needs_restart", "newest"]
