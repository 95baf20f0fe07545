"""A store whose requests are timed: each is told once, by its outcome, and workers get the plain store."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from offsite.follow.watch import counted
from offsite.model.errors import StoreUnreachable
from offsite.monitor.view import Durations
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.store import PutResult
from offsite.stores.wrapped_store import TimedStore
from tests.backups import new_backup, run_once
from tests.faulty_store import FaultyStore
from tests.unit.monitor.views import request_counts


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repository")
    store.prepare()
    return store


def test_each_request_is_told_with_its_outcome(store: PosixStore) -> None:
    told: list[tuple[str, str]] = []
    timed = TimedStore(store, lambda operation, outcome, _: told.append((operation, outcome)))
    assert timed.put_if_absent("a", b"1") is PutResult.CREATED
    writer = timed.open_write("b")
    writer.write(b"2")
    assert writer.close() is PutResult.CREATED
    timed.open_write("c").abort()
    assert (timed.get("a"), timed.get_range("b", 0, 1), timed.get("none")) == (b"1", b"2", None)
    assert timed.head("a") is not None
    assert [each.key for each in timed.list("")] == ["a", "b"]
    next(timed.list(""))
    assert timed.now_ms() > 0
    timed.delete("a")
    names = ["put", "write", "get", "get", "get", "head", "list", "list", "clock", "delete"]
    assert told == [(name, "ok") for name in names]
    assert (timed.url, timed.sends_at_close) == (store.url, store.sends_at_close)


def test_a_request_that_fails_is_told_as_such(store: PosixStore) -> None:
    durations = Durations()
    broken = FaultyStore(store, fails_at=0, error=lambda: StoreUnreachable("gone", hint=""))
    with pytest.raises(StoreUnreachable):
        TimedStore(broken, durations.note_request).put_if_absent("a", b"1")
    assert [*request_counts(durations)] == [("put", "failed")]


def test_workers_get_the_plain_store(store: PosixStore) -> None:
    arrived = pickle.loads(pickle.dumps(TimedStore(store, Durations().note_request)))  # ours
    assert isinstance(arrived, PosixStore)
    assert arrived.url == store.url


def test_a_backup_is_written_and_read_through_it(tmp_path: Path) -> None:
    plain, durations = new_backup(open_folder(tmp_path / "other")), Durations()
    run_once(plain)
    repository = counted(Repository.open(plain.store), durations)
    (name,) = repository.backups()
    assert repository.backup(name).state() == plain.state()
    found = request_counts(durations)
    assert {operation for operation, _ in found} >= {"get", "list"}
    assert {outcome for _, outcome in found} == {"ok"}
    assert found["get", "ok"] > 0
