"""The compaction of a run that follows: only where it was asked to let go, some at a time, and it ends no round."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsite.follow import chores
from offsite.follow.chores import RETRY_S, Chore, compacting
from offsite.repository.backup import Backup, seal_backup
from offsite.upkeep.compaction import run
from tests.backups import new_backup
from tests.compacted_logs import TOPIC, CompactedLog, commit_log, compacted_shape, forget, read_state
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore
from tests.virtual_time import VirtualClock

EVERY_S = 3600.0


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CompactedLog:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return CompactedLog(random.Random(1))


@pytest.fixture
def backup(log: CompactedLog) -> Backup:
    """Eight commits of a compacted topic, of which the last is kept."""
    made = new_backup(MemoryStore())  # type: ignore[arg-type]
    for _ in range(8):
        state = commit_log(made, log.grow(40), log.end, compacted_shape("compact"))
    forget(made, range(1, state.seq))
    return made


def compacting_of(clock: VirtualClock, guard: Callable[[], None] = lambda: None) -> Chore:
    return compacting(runner=InlineRunner(), clock=clock, every_s=EVERY_S, guard=guard)


class StoppedError(Exception):
    """As an agent is told."""


@pytest.mark.parametrize("at_commit", [False, True])
def test_nothing_is_compacted_behind_a_seal(
    backup: Backup, monkeypatch: pytest.MonkeyPatch, *, at_commit: bool
) -> None:
    """It was stopped while the compaction read, or between the look at the ledger and the commit."""
    clock, is_stopped = VirtualClock(), False

    def stop() -> None:
        nonlocal is_stopped
        if not is_stopped:
            is_stopped = True
            seal_backup(backup)

    def guard() -> None:
        if is_stopped:
            raise StoppedError
        if at_commit:
            stop()

    compact = run._committed

    def slow(*words: Any, **more: Any) -> Any:
        if not at_commit:
            stop()
        return compact(*words, **more)

    monkeypatch.setattr(run, "_committed", slow)
    step, state = compacting_of(clock, guard), backup.state()
    clock.sleep(EVERY_S)
    with pytest.raises(StoppedError):
        step.step(backup, state)
    assert backup.state().seq == state.seq + 1, "the seal"


def test_nothing_is_compacted_before_its_time(backup: Backup) -> None:
    clock = VirtualClock()
    step = compacting_of(clock)
    clock.sleep(EVERY_S - 1)
    assert step.step(backup, backup.state()) is None
    assert backup.state().compacted == {}


def test_what_is_due_is_compacted_and_then_it_rests(backup: Backup, log: CompactedLog) -> None:
    clock, seq = VirtualClock(), backup.state().seq
    step, end, segments = compacting_of(clock), log.end, len(list(backup.state().all_segments()))
    clock.sleep(EVERY_S)
    state = step.step(backup, backup.state())
    assert state is not None
    assert state == backup.state()
    assert (state.seq, len(list(state.all_segments())) < segments) == (seq + 1, True)
    found, keyless, _ = read_state(backup, state.seq)
    assert (found, keyless) == log.state_at(end)
    clock.sleep(EVERY_S - 1)
    assert step.step(backup, state) is None


def test_a_region_that_would_hold_up_rounds_is_left_and_named(
    backup: Backup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chores, "STEP_BYTES", 10)
    caplog.set_level("INFO", logger="offsite")
    clock = VirtualClock()
    step = compacting_of(clock)
    clock.sleep(EVERY_S)
    assert step.step(backup, backup.state()) is None
    assert "region_too_large" in caplog.text
    assert str(TOPIC) in caplog.text


def test_damage_is_told_and_ends_no_round(backup: Backup) -> None:
    clock, state = VirtualClock(), backup.state()
    step = compacting_of(clock)
    for key in list(backup.store.objects):  # type: ignore[attr-defined]
        if "/commits/" in key:
            backup.store.objects[key] = b"{}"  # type: ignore[attr-defined]
    clock.sleep(EVERY_S)
    assert step.step(backup, state) is None
    clock.sleep(RETRY_S - 1)
    assert step.step(backup, state) is None
