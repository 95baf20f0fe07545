"""Histories of a set at random, and an orderly end: afterwards the cycle must go on."""

from __future__ import annotations

import random
from dataclasses import dataclass

from offsite.generations.message import encode_message
from offsite.repository.generation_sets.entry import Instance
from tests.worlds.generations.judge import Judge
from tests.worlds.generations.world import PARTITIONS, Death, World, forged

_EMPTIED_WORLDS = 3
"""In one of so many worlds the source is emptied now and then."""
_EMPTIED, _RELEASED = 0.001, 0.003
"""How often, at each turn."""


@dataclass
class Played:
    switches: int
    removals: int
    kills: int
    operations: int


def play(seed: int, *, operations: int = 900) -> Played:
    """Raises `BrokenPromise` for a promise that did not hold, and what a process ended by that it should not."""
    chance, emptying = random.Random(seed), random.Random(f"emptying {seed}")
    world = World(chance)
    judge = Judge(world)
    both_first = chance.random() < 0.3
    world.start(Instance.A, is_first=True)
    world.start(Instance.B, is_first=both_first)
    kills = 0
    try:
        for _ in range(operations):
            kills += _something(world, chance)
            if seed % _EMPTIED_WORLDS == 0:
                _source(world, emptying)
            _check(world)
        before = judge.switches
        _calm(world)
        for _ in range(6000):
            _turn(world, chance)
            if seed % _EMPTIED_WORLDS == 0 and emptying.random() < _RELEASED:
                world.release()
            _check(world)
            if judge.switches >= before + 2 and judge.removals >= before + 1:
                break
        else:
            raise AssertionError(f"seed {seed}: the cycle did not go on after {before} switches: {world.state}")
    finally:
        for each in world.processes:
            each.kill()
    return Played(judge.switches, judge.removals, kills, operations)


def _source(world: World, emptying: random.Random) -> None:
    """Somebody empties the source now and then, and somebody agrees to what that means, or does not."""
    lot = emptying.random()
    if lot < _EMPTIED:
        world.starts = list(world.ends)
    elif lot < _EMPTIED + _RELEASED:
        world.release()


def _something(world: World, chance: random.Random) -> int:
    """One event of the world; how many processes it killed."""
    lot = chance.random()
    if lot < 0.01:
        victim = chance.choice(list(Instance))
        for each in [each for each in world.processes if each.instance is victim and chance.random() < 0.8]:
            each.kill()
        world.start(victim, is_first=chance.random() < 0.5)
        return 1
    if lot < 0.014:  # a second process beside one that may be stopped
        world.start(chance.choice(list(Instance)))
    elif lot < 0.02:  # SIGSTOP, in front of whatever comes next
        chance.choice(world.processes).sleeps = chance.choice([20, 100, 400])
    elif lot < 0.06:
        world.ends[chance.randrange(len(world.ends))] += chance.choice([1, 3, 10])
    elif lot < 0.07 and world.records:
        world.records.append(chance.choice(world.records))  # an old one once more
    elif lot < 0.08:
        message = forged(world)
        world.records.append((message.key, encode_message(message)))
    elif lot < 0.083:
        del world.records[chance.randint(0, len(world.records)) :]  # an unclean election
    elif lot < 0.085:
        world.store.clock.pass_ms(chance.choice([-3_600_000, 3_600_000, 60_000]))
    else:
        _turn(world, chance)
    return 0


def _turn(world: World, chance: random.Random) -> None:
    """Some turns of one process: the others are stopped meanwhile."""
    living = [each for each in world.processes if not each.is_over]
    awake = [each for each in living if not each.sleeps]
    for each in living:
        each.sleeps = max(0, each.sleeps - 1)
    if not awake:
        return
    process = chance.choice(awake)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        if not process.is_over:
            process.go_on()


def _calm(world: World) -> None:
    """The newest process of each instance stays, or a new one comes; others may wake up, too."""
    world.is_calm = True
    world.store.clock.pass_ms(20 * 3_600_000)  # a clock that was put back has come forward again
    for instance in Instance:
        if not any(each.instance is instance and not each.is_over for each in world.processes):
            world.start(instance)
    world.start(Instance.A, is_first=True)
    world.start(Instance.B)


def _check(world: World) -> None:
    for each in world.processes:
        if each.ended_by is not None and not isinstance(each.ended_by, Death):
            error, each.ended_by = each.ended_by, None
            if not _is_taken_over(error):
                raise error


def _is_taken_over(error: BaseException) -> bool:
    from offsite.model.errors import GenerationTakenOver

    return isinstance(error, GenerationTakenOver)


def play_with_one_stop(instance: Instance, at: int, *, wakes_up: bool) -> bool:
    """A life without accidents but one: the process of `instance` is stopped in front of its operation number `at`. It
    dies there, or another one is started in its place and it wakes up later. Whether it came to that operation before
    the second switch and removal. Raises as `play`."""
    world = World(random.Random(at))
    world.is_calm = True
    judge = Judge(world)
    running = {each: world.start(each) for each in Instance}
    done, stopped = 0, None
    try:
        for turn in range(8000):
            for each, process in running.items():
                if each is instance and done == at and stopped is None:
                    stopped = process
                    if not wakes_up:
                        process.kill()
                    running = {**running, each: world.start(each)}
                    break
                done += each is instance
                if not process.is_over:  # one that had not begun takes the place of the other when it wakes up
                    process.go_on()
            if stopped is not None and not stopped.is_over and turn > 2 * at + 40:
                stopped.go_on()
            world.ends[turn % PARTITIONS] += turn % 40 == 0
            _check(world)
            if judge.switches >= 2 and judge.removals >= 2:
                return stopped is not None
        raise AssertionError(f"{instance} stopped at {at}: the cycle did not go on: {world.state}")
    finally:
        for process in world.processes:
            process.kill()
