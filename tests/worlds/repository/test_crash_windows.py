"""Every effect of a backup is tried as the last one of a process, before and after it happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.model.errors import PutOutcomeUnknown, RepositoryExists, StoreFull, StoreUnreachable
from offsite.repository import catalog
from offsite.repository.fold import fold
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store
from tests.backups import PARTITIONS, SELECTION, STEP, commit_next, content, run_once
from tests.batches import make_log
from tests.faulty_store import Crash, FaultyStore

RUNS = 3


@pytest.fixture(autouse=True)
def _frequent_catalogs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 2)


def open_or_init(store: Store) -> Repository:
    try:
        return Repository.init(store)
    except RepositoryExists:
        return Repository.open(store)


def whole_life(store: Store, *, runs: int) -> BackupState:
    """What a user does: make the repository, run the backup again and again."""
    backup = open_or_init(store).create_backup("b", cluster_id="c", selection=SELECTION)
    while (state := backup.state()).seq < runs:
        run_once(backup)
    return state


def follow(store: Store, *, runs: int) -> BackupState:
    """The same by one process that goes on from its own state."""
    backup = open_or_init(store).create_backup("b", cluster_id="c", selection=SELECTION)
    state = backup.state()
    while state.seq < runs:
        state = commit_next(backup, state)
    return state


def count_effects(folder: Path) -> int:
    store = FaultyStore(open_folder(folder))
    whole_life(store, runs=RUNS)
    return store.effects


@pytest.mark.parametrize(
    ("after", "error"),
    [
        pytest.param(False, Crash, id="killed before"),
        pytest.param(True, Crash, id="killed after"),
        pytest.param(False, lambda: StoreFull("full"), id="disk full"),
        pytest.param(True, lambda: StoreUnreachable("gone"), id="answer lost"),
    ],
)
def test_after_a_failure_at_any_effect_history_is_unchanged_and_the_next_run_resumes(
    tmp_path: Path, after: bool, error: Callable[[], BaseException]
) -> None:
    effects = count_effects(tmp_path / "counted")
    assert effects > 4 * RUNS
    for number in range(effects):
        plain = open_folder(tmp_path / f"{number}")
        with pytest.raises((Crash, StoreFull, StoreUnreachable, PutOutcomeUnknown)):
            whole_life(FaultyStore(plain, fails_at=number, after=after, error=error), runs=RUNS)
        committed = len(list(plain.list("backups/b/commits/")))
        if committed:
            state = Repository.open(plain).backup("b").state()
            assert content(plain, state) == dict.fromkeys(PARTITIONS, make_log(0, committed * STEP))
        end = whole_life(plain, runs=RUNS)
        assert content(plain, end) == dict.fromkeys(PARTITIONS, make_log(0, RUNS * STEP))
        for seq in range(1, RUNS + 1):
            point = Repository.open(plain).backup("b").state_at(seq)
            assert content(plain, point) == dict.fromkeys(PARTITIONS, make_log(0, seq * STEP))


def test_nothing_a_commit_lists_is_ever_missing_and_a_process_that_goes_on_says_what_is_stored(tmp_path: Path) -> None:
    counted = FaultyStore(open_folder(tmp_path / "counted"))
    assert follow(counted, runs=RUNS) == Repository.open(counted.inner).backup("b").state()
    for number in range(counted.effects):
        plain = open_folder(tmp_path / f"{number}")
        with pytest.raises(Crash):
            follow(FaultyStore(plain, fails_at=number), runs=RUNS)
        if not list(plain.list("backups/b/commits/")):
            continue
        for segment in Repository.open(plain).backup("b").state().all_segments():
            found = plain.head(segment.key)
            assert found is not None
            assert found.size_bytes == segment.stored_bytes
        end = follow(plain, runs=RUNS + 2)
        backup = Repository.open(plain).backup("b")
        assert backup.state() == end == fold(BackupState(backup="b"), backup.log.read(after=0))
