"""Leftovers that a run which follows deletes: once a day, only where it was asked to let go, and it ends no round."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.follow.chores import TIDYING_REST_S, Chore, tidying
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from tests.backups import PARTITIONS, new_backup, run_once, write_segment
from tests.memory_store import MemoryStore
from tests.virtual_time import VirtualClock


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def backup(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Backup:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    made = new_backup(store)  # type: ignore[arg-type]
    run_once(made)
    return made


def left(backup: Backup, clock: VirtualClock) -> str:
    """The key of a segment that a run wrote and never committed, before a later run that ended."""
    key = write_segment(backup.store, backup, PARTITIONS[0], 20, 30).key
    clock.sleep(3600)
    run_once(backup)
    return key


def pass_all(chore: Chore, backup: Backup, state: BackupState) -> None:
    for _ in range(100):
        chore.step(backup, state)


def test_leftovers_go_after_a_day(backup: Backup, store: MemoryStore) -> None:
    clock = store.clock
    chore = tidying(clock=clock)
    key, state = left(backup, clock), backup.state()
    pass_all(chore, backup, state)
    assert key in store.objects, "it was not time for it"
    clock.sleep(2 * TIDYING_REST_S)
    pass_all(chore, backup, state)
    assert key not in store.objects


def test_damage_is_told_and_it_rests(backup: Backup, store: MemoryStore) -> None:
    clock = store.clock
    chore = tidying(clock=clock)
    key, state = left(backup, clock), backup.state()
    clock.sleep(2 * TIDYING_REST_S)
    commit = backup.layout.commit_key(1)
    sound, store.objects[commit] = store.objects[commit], b"{}"
    pass_all(chore, backup, state)
    store.objects[commit] = sound
    pass_all(chore, backup, state)
    assert key in store.objects, "it rests for a day"
    clock.sleep(2 * TIDYING_REST_S)
    pass_all(chore, backup, state)
    assert key not in store.objects
