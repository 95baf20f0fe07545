"""Who holds a lease: told to the second one, void when its process is gone or silent, lost when taken over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject, LeaseHeld, LeaseTakenOver, RestoreRunning, RestoreTakenOver
from offsite.repository.checkpoint_records import CheckpointRecords
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.job import JobLayout
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import _CLAIM, TTL_S, Lease, LeaseRenewal, ProcessIdentity
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from tests.backups import new_backup
from tests.processes import wait_until

MINE = ProcessIdentity.current()
ELSEWHERE = replace(MINE, host="elsewhere", pid="7", user="ann")


class LaterStore:
    """Its clock is `later_s` ahead of what its objects say."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.later_s = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def now_ms(self) -> int:
        return self._inner.now_ms() + round(self.later_s * 1000)


@pytest.fixture
def store(tmp_path: Path) -> LaterStore:
    return LaterStore(open_store(str(tmp_path / "repository")))


@pytest.fixture
def terms(store: LaterStore) -> Lease:
    backup = new_backup(store)  # type: ignore[arg-type]
    return RestoreLayout(backup=backup.layout, restore="r").lease(store)  # type: ignore[arg-type]


def test_a_second_one_is_told_who_has_it_and_how_to_go_on(terms: Lease) -> None:
    terms.claim(ELSEWHERE, "a", take_over=False)
    with pytest.raises(RestoreRunning, match="process 7 of ann on elsewhere") as refusal:
        terms.claim(MINE, "b", take_over=False)
    assert "--take-over" in refusal.value.hint
    assert refusal.value.exit_code == 11


DECLARED = DeclaredLayout(uid="00000000-0000-4000-8000-000000000001")
NO_RESTORES: dict[str, tuple[Callable[[Store], Lease], str]] = {
    "job": (JobLayout(job="20261127-070000-0123abcd").lease, "jobs cancel"),
    "operator": (DECLARED.lock, "try again"),
    "agent": (DECLARED.agent, "one agent copies"),
    "expiry": (DECLARED.expiry, "the operator tries again"),
    "checkpoints": (
        lambda store: CheckpointRecords(store=store, layout=BackupLayout(backup="b")).lease,
        "one process takes the checkpoints",
    ),
}


@pytest.mark.parametrize("role", NO_RESTORES)
def test_who_is_no_restore_is_not_sent_to_the_command_of_restores(role: str, store: LaterStore) -> None:
    new_backup(store)  # type: ignore[arg-type]
    lease_in, hint = NO_RESTORES[role]
    lease = lease_in(store)  # type: ignore[arg-type]
    lease.claim(ELSEWHERE, "a", take_over=False)
    with pytest.raises(LeaseHeld, match="process 7 of ann on elsewhere") as refusal:
        lease.claim(MINE, "b", take_over=False)
    assert (type(refusal.value), refusal.value.id, refusal.value.exit_code) == (LeaseHeld, "OFF-1139", 11)
    assert hint in refusal.value.hint
    assert "restore" not in refusal.value.hint


@pytest.mark.parametrize("role", NO_RESTORES)
def test_who_is_no_restore_is_not_told_that_a_restore_was_taken_over(role: str, store: LaterStore) -> None:
    new_backup(store)  # type: ignore[arg-type]
    lease = NO_RESTORES[role][0](store)  # type: ignore[arg-type]
    claim = lease.claim(ELSEWHERE, "a", take_over=False)
    lease.claim(MINE, "b", take_over=True)
    with pytest.raises(LeaseTakenOver, match="this process has stopped") as end:
        lease.check(claim)
    assert (type(end.value), end.value.id, end.value.exit_code) == (LeaseTakenOver, "OFF-1140", 11)
    assert "restore" not in f"{end.value.message} {end.value.hint}"


def test_a_renewed_lease_gives_signs_of_life_until_it_is_taken_over(
    terms: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsite.repository.lease.BEAT_S", 0.01)
    renewal = LeaseRenewal(terms, terms.claim(MINE, "a", take_over=False))
    wait_until(lambda: terms.store.head(terms.key(1, "beat")) is not None, "a beat")
    assert not renewal.is_lost
    terms.claim(ELSEWHERE, "b", take_over=True)
    wait_until(lambda: renewal.is_lost, "the loss")
    assert isinstance(renewal.lost, RestoreTakenOver)
    renewal.give_up()
    assert terms.holder(asking=MINE) is not None


def test_a_renewed_lease_is_free_after_its_block(terms: Lease) -> None:
    with terms.renewed(MINE):
        assert terms.holder(asking=ELSEWHERE) is not None
    assert terms.holder(asking=ELSEWHERE) is None


def test_a_process_number_that_is_none_proves_nothing() -> None:
    for pid in ("abc", "", "-1", "\u0663"):
        assert not replace(MINE, pid=pid).is_gone(seen_from=MINE)


def test_who_takes_over_has_it_and_the_first_one_learns_of_it(terms: Lease) -> None:
    first = terms.claim(ELSEWHERE, "a", take_over=False)
    terms.beat(first)
    second = terms.claim(MINE, "b", take_over=True)
    assert second.term == first.term + 1
    terms.check(second)
    with pytest.raises(RestoreTakenOver, match="this process has stopped"):
        terms.beat(first)
    with pytest.raises(RestoreRunning):
        terms.claim(ELSEWHERE, "c", take_over=False)


def test_who_is_silent_for_too_long_is_not_waited_for(terms: Lease, store: LaterStore) -> None:
    terms.claim(ELSEWHERE, "a", take_over=False)
    store.later_s = TTL_S - 5
    with pytest.raises(RestoreRunning):
        terms.claim(MINE, "b", take_over=False)
    store.later_s = TTL_S + 5
    assert terms.claim(MINE, "b", take_over=False).term == 2


def test_an_ended_term_is_free_at_once(terms: Lease) -> None:
    terms.end(terms.claim(ELSEWHERE, "a", take_over=False))
    assert terms.holder(asking=MINE) is None
    assert terms.claim(MINE, "b", take_over=False).term == 2


@pytest.mark.slow
def test_a_process_of_this_machine_that_is_gone_holds_nothing(terms: Lease) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        there = replace(MINE, pid=str(process.pid), started=started(process.pid))
        terms.claim(there, "a", take_over=False)
        with pytest.raises(RestoreRunning):
            terms.claim(MINE, "b", take_over=False)
    assert terms.claim(MINE, "b", take_over=False).term == 2


@pytest.mark.timeout(20)
def test_a_claim_that_no_process_of_ours_wrote_is_told_and_nobody_asks_for_a_number_for_ever(
    terms: Lease, store: LaterStore
) -> None:
    terms.end(terms.claim(MINE, "a", take_over=False))
    claim = store.get(terms.key(1, "claim"))  # type: ignore[operator]
    store.put_if_absent(terms.key(5, "claim"), claim)  # type: ignore[operator]
    store.later_s = TTL_S + 1
    with pytest.raises(DamagedObject, match="5") as refusal:
        terms.claim(MINE, "b", take_over=False)
    assert "delete it" in refusal.value.hint


@pytest.mark.timeout(20)
def test_a_claim_to_the_last_number_of_eight_digits_stops_nobody(terms: Lease, store: LaterStore) -> None:
    first = terms.claim(MINE, "a", take_over=False)
    claim = _CLAIM.encode(replace(first, term=99_999_999))
    store.put_if_absent(terms.key(99_999_999, "claim"), claim)  # type: ignore[operator]
    store.later_s = TTL_S + 1
    for term in (100_000_000, 100_000_001):
        claimed = terms.claim(MINE, "b", take_over=False)
        assert claimed.term == term
        terms.end(claimed)


def test_no_number_can_follow_the_last_one_and_nobody_asks_for_ever(terms: Lease, store: LaterStore) -> None:
    first, last = terms.claim(MINE, "a", take_over=False), 999_999_999_999
    store.put_if_absent(terms.key(last, "claim"), _CLAIM.encode(replace(first, term=last)))  # type: ignore[operator]
    store.later_s = TTL_S + 1
    for _ in range(2):
        with pytest.raises(DamagedObject, match="no term can follow") as refusal:
            terms.claim(MINE, "b", take_over=False)
    assert "delete it" in refusal.value.hint


def test_who_slept_while_its_term_was_swept_learns_of_it(terms: Lease, store: LaterStore) -> None:
    """The third one deletes the claim of the second one, by which the first one would have learned of it."""
    first = terms.claim(MINE, "a", take_over=False)
    terms.check(first)
    for term in (2, 3):
        terms.claim(MINE, "b", take_over=True)
        for part in ("beat", "end", "claim"):
            store.delete(terms.key(term - 1, part))  # type: ignore[operator]
    with pytest.raises(RestoreTakenOver, match="another process"):
        terms.beat(first)
    assert store.head(terms.key(1, "beat")) is None  # type: ignore[operator]


def test_a_process_that_cannot_be_looked_at_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.repository.lease._stat", lambda _: None)  # hidepid, or too many open files
    assert not MINE.is_gone(seen_from=MINE)
    assert not MINE.is_running(seen_from=MINE)
    assert replace(MINE, pid="4194305").is_gone(seen_from=MINE)


@pytest.mark.parametrize("pid", ["9" * 18, "9" * 5000, "-1", "\u0663", ""])
def test_a_number_that_no_process_can_have_is_no_error(pid: str) -> None:
    assert replace(MINE, pid=pid).is_gone(seen_from=MINE) is (pid == "9" * 18)
    assert not replace(MINE, pid=pid).is_running(seen_from=MINE)


def test_a_process_whose_start_was_not_readable_is_not_gone() -> None:
    unread = replace(MINE, started="")
    assert not unread.is_gone(seen_from=MINE)
    assert not unread.is_running(seen_from=MINE)


def test_a_name_of_a_user_that_is_no_text_closes_no_lease(terms: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", os.fsdecode(b"\xffnn"))
    terms.claim(ProcessIdentity.current(), "a", take_over=False)
    with pytest.raises(RestoreRunning, match=r"of \\udcffnn on"):
        terms.claim(MINE, "b", take_over=False)


def test_a_number_that_another_process_has_now_is_no_sign_of_life() -> None:
    assert replace(MINE, started="1").is_gone(seen_from=MINE)
    assert not MINE.is_gone(seen_from=MINE)


@pytest.mark.parametrize("field", ["host", "boot", "namespace"])
def test_what_cannot_be_seen_from_here_is_never_said_to_be_gone(field: str) -> None:
    gone = replace(MINE, pid="4194305", started="1")
    assert gone.is_gone(seen_from=MINE)
    assert not replace(gone, **{field: "another"}).is_gone(seen_from=MINE)


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_this_process_is_described_as_the_system_knows_it() -> None:
    assert (MINE.pid, MINE.started) == (str(os.getpid()), started(os.getpid()))
    assert ProcessIdentity.of(MINE.fields) == MINE
