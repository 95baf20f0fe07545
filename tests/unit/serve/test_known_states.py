"""What is known of a backup is as new as what is there."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import DamagedCommit, StoreUnreachable
from offsite.repository.catalog import Catalog
from offsite.repository.state import BackupState
from offsite.serve.site import CachedValue, StateCache
from tests.fake_cluster.site import BACKUP, Site


def test_it_is_folded_once_for_each_commit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    fold = Catalog.sound_state

    def counted(catalog: Catalog) -> object:
        folded.append(1)
        return fold(catalog)

    monkeypatch.setattr(Catalog, "sound_state", counted)
    backup = StateCache().of(site.backup)
    assert [backup.sound_state().seq, backup.state().seq, backup.sound_state().seq] == [1, 1, 1]
    assert len(folded) == 1
    for expected in (2, 3):
        site.source.write("orders", [b"more"])
        folded.clear()
        site.back_up()
        folded.clear()
        assert [backup.sound_state().seq, backup.state().seq] == [expected, expected]
        assert len(folded) == 1


def test_what_is_kept_of_earlier_commits_is_of_the_backup_that_is_there(site: Site) -> None:
    states = StateCache()
    for number in (2, 3):
        site.source.write("orders", [b"more"])
        site.back_up()
        backup, plain = states.of(site.backup), site.backup
        assert backup.state().seq == number
        for seq in (1, 2):
            for _ in range(2):
                assert backup.catalog.state(upto=seq) == plain.catalog.state(upto=seq)
                assert backup.log.get(seq) == plain.log.get(seq)
        assert backup.log.get(number + 1) is None
    assert len(states._commits) <= 4


def test_one_earlier_state_is_folded_at_a_time(site: Site) -> None:
    for _ in range(3):
        site.source.write("orders", [b"more"])
        site.back_up()
    states, plain = StateCache(), site.backup
    states.of(site.backup).state()
    inside, most, gate = [0], [0], threading.Event()

    def read(seq: int) -> BackupState:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        gate.wait(0.05)
        inside[0] -= 1
        return plain.catalog.state(upto=seq)

    asking = [threading.Thread(target=states.earlier, args=(BACKUP, seq, partial(read, seq))) for seq in (1, 2, 3)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert most == [1]


def test_what_is_to_go_on_from_is_never_a_damaged_one(site: Site) -> None:
    site.source.write("orders", [b"more"])
    site.back_up()
    site.repository.store.put_overwrite(site.backup.layout.commit_key(2), b"{}")
    backup = StateCache().of(site.backup)
    assert backup.sound_state().unreadable
    with pytest.raises(DamagedCommit):
        backup.state()


class Ticking(SystemClock):
    """A clock that somebody else sets."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def test_a_value_is_read_once_for_all_who_ask_soon() -> None:
    clock, read = Ticking(), iter(range(9))
    fresh = CachedValue(lambda: next(read) + 1, clock)
    assert [fresh.get(), fresh.get()] == [1, 1]
    clock.now_s = 1.0
    assert [fresh.get(), fresh.get()] == [2, 2]


def test_what_takes_long_to_read_is_read_less_often() -> None:
    clock, read = Ticking(), iter(range(9))

    def slow() -> int:
        clock.now_s += 0.3
        return next(read) + 1

    fresh = CachedValue(slow, clock)
    assert fresh.get() == 1
    clock.now_s += 2.9
    assert fresh.get() == 1
    clock.now_s += 0.2
    assert fresh.get() == 2


def test_who_comes_while_it_is_read_gets_the_one_before() -> None:
    clock, read = Ticking(), iter(range(9))
    inside: list[int] = []

    def again() -> int:
        if clock.now_s > 0:
            thread = threading.Thread(target=lambda: inside.append(fresh.get()))
            thread.start()
            thread.join(10)
        return next(read) + 1

    fresh = CachedValue(again, clock)
    assert fresh.get() == 1
    clock.now_s = 5.0
    assert fresh.get() == 2
    assert inside == [1]


def test_an_error_is_told_to_all_and_is_over_when_it_is_over() -> None:
    clock, errors = Ticking(), [StoreUnreachable("away")]

    def read() -> int:
        if errors:
            raise errors.pop()
        return 1

    fresh = CachedValue(read, clock)
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            fresh.get()
    clock.now_s = 1.0
    assert fresh.get() == 1
