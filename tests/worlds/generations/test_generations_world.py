"""Two instances in a world that kills, stops, forgets and lies: one complete generation always, one active at most."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from offsite.generations import comparison, decision, instance, removals
from offsite.generations.decision import AppendEntry, GenerationFacts, InstanceView, RemoveGeneration
from offsite.generations.message import Event
from offsite.model.errors import DamagedObject
from offsite.repository.generation_sets import generation_set, ledger
from offsite.repository.generation_sets.entry import (
    GENERATION_ENTRY,
    GenerationEntry,
    GenerationEntryKind,
    Instance,
)
from offsite.repository.generation_sets.generation_set import GenerationPhase, GenerationSet
from tests.worlds.generations import world
from tests.worlds.generations.judge import BrokenPromise
from tests.worlds.generations.play import Played, play, play_with_one_stop

HISTORIES, SOAK_HISTORIES = 10, 1500
BUG_HISTORIES = 80
"""A seeded bug must show within so many; most show in the first three."""

STRIDE = 31
"""Operations from one stop to the next."""


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("histories", [HISTORIES, pytest.param(SOAK_HISTORIES, marks=pytest.mark.soak)])
def test_whatever_happens_one_generation_is_complete_and_one_active(histories: int) -> None:
    played = play_many(histories)
    assert sum(each.switches for each in played) > 3 * histories
    assert sum(each.removals for each in played) > 2 * histories
    assert sum(each.kills for each in played) > 5 * histories


Patch = Callable[[pytest.MonkeyPatch], None]


def no_seal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(world.PausingTarget, "seal", lambda *_: None)


def no_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(instance.RunningInstance, "_guard", lambda *_: None)


def guard_before_the_log_is_read(patch: pytest.MonkeyPatch) -> None:
    right = world.PausingTarget.copy

    def copy(self: Any, generation: int, guard: Any) -> Any:
        guard()
        return right(self, generation, lambda: None)

    patch.setattr(world.PausingTarget, "copy", copy)


def ledger_is_overwritten(patch: pytest.MonkeyPatch) -> None:
    def append(self: ledger.SetLedger, entry: GenerationEntry, *, to: GenerationSet) -> GenerationSet:
        data = GENERATION_ENTRY.encode(entry)
        state = generation_set.apply_entry(to, entry, hashlib.sha256(data).hexdigest())
        self.store.delete(self.key(entry.seq))
        self.store.put_if_absent(self.key(entry.seq), data)
        return state

    patch.setattr(ledger.Ledger, "append", append)


def removed_before_it_is_entered(patch: pytest.MonkeyPatch) -> None:
    right = instance.RunningInstance._append

    def append(self: Any, effect: AppendEntry) -> None:
        if effect.kind is GenerationEntryKind.REMOVING:
            self._with.target.remove(effect.generation, lambda _: None)
        right(self, effect)

    patch.setattr(instance.RunningInstance, "_append", append)


def removed_because_a_message_says_so(patch: pytest.MonkeyPatch) -> None:
    right = decision.decide

    def decide(state: GenerationSet, me: InstanceView, facts: GenerationFacts) -> Any:
        effect, active = right(state, me, facts), state.active_generation
        told = facts.announcements or ()
        if active is not None and active.instance is me.instance and active.phase is GenerationPhase.COMPLETE:
            if facts.announcements is None:
                return decision.ReadTopic()
            if any(each.to is me.instance and each.event is Event.PASSIVATE for each in told):
                return RemoveGeneration(generation=active.number)
        return effect

    patch.setattr(instance, "decide", decide)


def silence_is_the_end(patch: pytest.MonkeyPatch) -> None:
    right = world.PausingTarget.copy

    def copy(self: Any, generation: int, guard: Any) -> Any:
        return replace(right(self, generation, guard), at_end=True)

    patch.setattr(world.PausingTarget, "copy", copy)
    patch.setattr(comparison, "lacking", lambda *_: ())


def a_switch_removes_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(comparison, "lacking", lambda *_: ())


def ends_are_all_that_is_compared(patch: pytest.MonkeyPatch) -> None:
    """A source that was emptied reaches as far as it ever did."""
    patch.setattr(world.PausingTarget, "lost", lambda *_: ())


def removed_without_a_line(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(removals, "note_deletions", lambda *_, **__: None)


BUGS: tuple[Patch, ...] = (
    no_seal,
    no_guard,
    guard_before_the_log_is_read,
    ledger_is_overwritten,
    removed_before_it_is_entered,
    removed_because_a_message_says_so,
    silence_is_the_end,
    a_switch_removes_at_once,
    ends_are_all_that_is_compared,
    removed_without_a_line,
)
SLOW_BUGS = (no_seal, a_switch_removes_at_once)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.__name__, marks=pytest.mark.soak if bug in SLOW_BUGS else ()) for bug in BUGS],
)
def test_a_seeded_bug_breaks_a_promise(bug: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises((BrokenPromise, DamagedObject)):  # a broken ledger also stops who reads it
        play_many(BUG_HISTORIES)


def play_many(histories: int) -> list[Played]:
    return [play(seed) for seed in range(histories)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wakes_up", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("instance", list(Instance))
@pytest.mark.parametrize("stride", [STRIDE, pytest.param(1, marks=pytest.mark.soak)])
def test_stopped_in_front_of_any_operation_of_a_cycle(stride: int, instance: Instance, wakes_up: bool) -> None:
    operations = count(step=stride)
    while play_with_one_stop(instance, at := next(operations), wakes_up=wakes_up):
        pass
    assert at > 10 * stride


@pytest.mark.timeout(600)
@pytest.mark.parametrize("instance", list(Instance))
def test_who_wakes_up_after_another_began_is_told_of_nothing_foreign(instance: Instance) -> None:
    """What lies in the generation's place by then is the other process's; strides are too wide to meet it."""
    assert all(play_with_one_stop(instance, at, wakes_up=True) for at in range(12, 24))
