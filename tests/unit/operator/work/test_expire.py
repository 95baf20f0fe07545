"""What an expiry job lets go: of the last backup by its retention, and older ones whole once nothing needs them."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BackupExists, BackupNotFound, CommitsGone, ExpiryNotDone, LeaseHeld
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.work.expire import ExpiryResult, expire, make_expiry_request
from offsite.operator.world.observe import RepositoryFacts
from offsite.repository.backup import seal_backup
from offsite.repository.commit import CommitChanges
from offsite.repository.declared.entry import DeclaredEntryKind
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.ledger import claim_name
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import SETTLED_MS, begin_removal
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from offsite.upkeep.retention.pins import pin_point
from tests.backups import SELECTION, run_once
from tests.faulty_store import Crash, FaultyStore
from tests.processes import wait_until
from tests.unit.operator.work.declared import BEGINNING, SETTINGS, UID, Declared
from tests.worlds.operator.world import identity

RETURNED = "offsite.operator.work.removed_backups"


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = Repository.init(open_folder(folder))
        self.declared = Declared(self.repository.store)

    def begun(self, name: str, *, commits: int = 1, live: bool = False) -> None:
        self.declared.start(name)
        backup = self.repository.create_backup(name, cluster_id="cluster", selection=SELECTION, declared_by=UID)
        for _ in range(commits):
            run_once(backup)
        if not live:
            self.declared.decide(DeclaredEntryKind.STOPPED)

    def expire(self, *, minimum_ms: int = 1, retention: str = "", delete: bool = False) -> ExpiryResult:
        asked = make_expiry_request(
            UID, [self.repository], maximum_retention=retention, minimum_restorable="", is_deletion=delete
        )
        return expire(replace(asked, minimum_ms=minimum_ms), clock=SystemClock())

    def kept(self, *, minimum_ms: int = 1) -> tuple[str, ...]:
        """What a job kept, and why."""
        return tuple(map(str, self.expire(minimum_ms=minimum_ms).kept))

    def expire_another(self) -> None:
        """A job of another resource."""
        asked = make_expiry_request(
            "4567abcd-0002", [self.repository], maximum_retention="", minimum_restorable="", is_deletion=False
        )
        expire(asked, clock=SystemClock())

    def left(self) -> list[str]:
        return [info.key for info in self.repository.store.list("backups/")]

    def phases(self) -> list[BackupPhase]:
        return [each.phase for each in self.declared.history.backups]

    def is_there(self, name: str) -> bool:
        try:
            self.repository.backup(name)
        except BackupNotFound:
            return False
        return True


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "repository")


def test_older_backups_go_once_the_last_one_is_whole(site: Site) -> None:
    site.begun("a")
    site.begun("b")
    site.begun("c", commits=0, live=True)
    why = "c has not completed a full copy since it began"
    assert site.kept() == (f"a: {why}", f"b: {why}")
    run_once(site.repository.backup("c"))
    run_once(site.repository.backup("c"))
    assert site.expire().removed == ("a", "b")
    assert site.phases() == [BackupPhase.REMOVED, BackupPhase.REMOVED, BackupPhase.RUNNING]
    assert (site.is_there("a"), site.is_there("b"), site.is_there("c")) == (False, False, True)
    assert site.expire() == ExpiryResult(uid=UID)


def test_older_backups_stay_until_the_last_one_reaches_back_far_enough(site: Site) -> None:
    site.begun("a")
    site.begun("b", live=True)
    assert site.kept(minimum_ms=7 * 86_400_000) == ("a: b does not reach back far enough yet: 0 ms of 7 d 0 h",)
    assert site.is_there("a")


def test_without_a_minimum_nothing_whole_goes_by_itself(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=2, live=True)
    why = "b may not replace another backup: the resource has no minimumRestorable"
    assert site.kept(minimum_ms=0) == (f"a: {why}",)
    assert site.is_there("a")


def test_what_a_deleted_resource_had_goes_with_it(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=2, live=True)
    assert site.expire(delete=True).removed == ("a", "b")
    assert site.phases() == [BackupPhase.REMOVED, BackupPhase.REMOVED]
    left = {info.key for info in site.repository.store.list("backups/")}
    assert {key.rpartition("/")[2] for key in left} == {"removed.json"}
    assert site.expire(delete=True).removed == (), "once more does nothing"


def test_nothing_goes_while_an_agent_has_it_in_hand(site: Site) -> None:
    site.begun("a", live=True)
    terms = site.declared.layout.agent(site.repository.store)
    claim = terms.claim(identity("agent"), "word", take_over=False)
    with pytest.raises(ExpiryNotDone, match="still works on"):
        site.expire(delete=True)
    assert site.is_there("a")
    assert site.phases() == [BackupPhase.STOPPED], "the agent hears of it"
    terms.end(claim)
    assert site.expire(delete=True).removed == ("a",)


def test_one_job_of_a_backup_runs_at_a_time(site: Site) -> None:
    site.begun("a")
    terms = site.declared.layout.expiry(site.repository.store)
    terms.claim(identity("other"), "word", take_over=False)
    assert "process 1 of test on other" in site.expire().left_to, "no failure of this one"
    with pytest.raises(LeaseHeld):
        site.expire(delete=True)


def test_a_job_that_died_midway_is_finished_by_the_next_one(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=2, live=True)
    assert begin_removal(site.repository.store, BackupLayout(backup="a"), is_read=lambda: False)
    site.declared.decide(DeclaredEntryKind.REMOVING, number=1)
    assert site.expire().removed == ("a",)
    assert site.phases()[0] is BackupPhase.REMOVED


def test_nothing_expires_in_a_store_that_was_put_back(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=4, live=True)
    assert site.expire(retention="100d", minimum_ms=7 * 86_400_000).removed == ()
    backup = site.repository.backup("b")
    site.repository.store.delete(backup.layout.commit_key(backup.state().seq))
    with pytest.raises(CommitsGone, match="existed and is missing now"):
        site.expire(retention="0s")
    assert site.is_there("a")


def test_a_ledger_alone_removes_no_backup(site: Site) -> None:
    """Whoever may create objects can write that it was stopped and goes, its mark, and another one as the last."""
    site.begun("a", commits=2)
    site.declared.decide(DeclaredEntryKind.REMOVING)
    assert begin_removal(site.repository.store, BackupLayout(backup="a"), is_read=lambda: False)
    site.begun("b", commits=0, live=True)
    for _ in range(2):
        assert site.kept() == ("a: b has not completed a full copy since it began",)
    assert len(site.repository.backup("a").sound_state().history) == 2


def test_of_the_last_backup_goes_what_is_older_than_the_retention_and_nothing_younger(site: Site) -> None:
    site.begun("a", commits=3, live=True)
    for younger in ("", "1h"):
        assert site.expire(retention=younger) == ExpiryResult(uid=UID)
    assert len(site.repository.backup("a").sound_state().history) == 3
    assert site.expire(retention="0s").points == 2


def test_the_retention_keeps_to_its_guards(site: Site) -> None:
    site.begun("a", commits=3, live=True)
    assert site.expire(retention="0s").points == 2
    assert len(site.repository.backup("a").sound_state().history) == 2, "the newest one, and the commit that let go"


def test_a_backup_that_was_stopped_in_front_of_its_first_commit_takes_no_place(site: Site) -> None:
    site.begun("a", commits=2)
    site.begun("b", commits=0)
    seal_backup(site.repository.backup("b"))
    assert not RepositoryFacts().read(RepositoryPlace(account="", repository=""), site.repository.store, "b").is_whole
    assert site.kept()[0] == "a: b has not completed a full copy since it began"
    assert site.is_there("a")


def test_what_began_again_under_its_name_loses_nothing(site: Site) -> None:
    site.begun("shop", commits=2)
    site.declared.start("shop")
    run_once(site.repository.backup("shop"))
    assert site.expire() == ExpiryResult(uid=UID)
    assert site.phases() == [BackupPhase.REMOVED, BackupPhase.RUNNING]
    assert len(site.repository.backup("shop").sound_state().history) == 3
    site.declared.decide(DeclaredEntryKind.STOPPED)
    site.declared.start("shop")
    assert site.expire(delete=True).removed == ("shop", "shop")
    assert site.phases() == [BackupPhase.REMOVED] * 3
    assert not site.is_there("shop")


def test_what_is_live_is_the_last_one_whatever_clocks_say(site: Site, tmp_path: Path) -> None:
    other = Site(tmp_path / "other")
    site.begun("new", commits=0, live=True)
    other.begun("old")  # its store's clock is ahead
    asked = make_expiry_request(
        UID,
        [site.repository, other.repository],
        maximum_retention="",
        minimum_restorable="",
        is_deletion=False,
    )
    (kept,) = expire(asked, clock=SystemClock()).kept
    assert str(kept) == "old: no ledger shows whether it is older than new"
    assert (site.phases(), site.is_there("new"), other.is_there("old")) == ([BackupPhase.RUNNING], True, True)


def test_a_pinned_backup_stays(site: Site) -> None:
    site.begun("a")
    pin_point(site.repository.backup("a"), 1, reason="the audit")
    site.begun("b", commits=2, live=True)
    assert site.kept() == ("a: its commit 1 is pinned: the audit",)
    assert site.is_there("a")


def test_a_backup_that_holds_nothing_takes_no_place(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=0, live=True)
    backup = site.repository.backup("b")
    for _ in range(2):
        backup.commit(CommitChanges(), base=backup.state(), writer="w")
    (kept,) = site.kept()
    assert kept.startswith("a: b has no topics")
    assert site.is_there("a")


def test_a_seal_is_no_sign_that_the_source_was_read(site: Site) -> None:
    site.begun("a", commits=2)
    backup = site.repository.backup("a")
    completed_ms = backup.state().completed_at_ms
    seal_backup(backup)
    sealed = backup.state()
    assert (sealed.seq, sealed.completed_at_ms, sealed.incomplete) == (3, completed_ms, False)


def settled(site: Site, key: str) -> str:
    """As if it had lain there for long."""
    then = time.time() - SETTLED_MS / 1000 - 60
    for mark in site.folder.glob("backups/*/removed.json"):
        os.utime(mark, (then - 1, then - 1))
    os.utime(site.folder / key, (then, then))
    return key


def returned(site: Site, name: str) -> str:
    """An object that an agent put which slept while the backup was removed."""
    key = f"{BackupLayout(backup=name).topics_prefix}t/partition=0/t+0-{7:020}-0123abcd.log"
    site.repository.store.put_overwrite(key, b"late")
    return settled(site, key)


def removed_with_a_return(site: Site) -> str:
    site.begun("a")
    site.expire(delete=True)
    return returned(site, "a")


def test_what_comes_back_into_a_removed_backup_goes_with_the_next_job(site: Site) -> None:
    site.begun("a")
    site.begun("b", commits=2, live=True)
    assert site.expire().removed == ("a",)
    key = returned(site, "a")
    site.expire()
    assert site.repository.store.get(key) is None
    assert site.is_there("b")


def test_what_comes_back_after_a_deletion_goes_with_a_job_of_another_resource(site: Site) -> None:
    site.begun("a")
    site.expire(delete=True)
    key = returned(site, "a")
    site.expire_another()
    assert site.repository.store.get(key) is None
    lines = [site.repository.store.get(info.key) or b"" for info in site.repository.store.list("declared/")]
    assert any(b"it came back" in line for line in lines), "it is written down before"


def test_what_goes_on_under_the_name_of_a_removed_backup_is_not_swept(site: Site) -> None:
    site.begun("shop", commits=2)
    site.declared.start("shop")
    site.expire()
    assert site.phases() == [BackupPhase.REMOVED, BackupPhase.RUNNING]
    site.expire()
    assert len(site.repository.backup("shop").sound_state().history) == 2


@pytest.mark.parametrize("has_mark", [False, True])
def test_a_backup_that_was_brought_back_from_a_copy_is_left_alone(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, has_mark: bool
) -> None:
    site.begun("a", commits=2)
    place, copy = site.folder / "backups" / "a", tmp_path / "copy"
    shutil.copytree(place, copy)
    site.expire(delete=True)
    if not has_mark:
        shutil.rmtree(place)
    shutil.copytree(copy, place, dirs_exist_ok=True)
    before = [settled(site, key) for key in site.left()]
    caplog.clear()
    site.expire_another()
    assert site.left() == before
    assert len(site.repository.backup("a").sound_state().history) == 2
    told = [each for each in caplog.messages if each.startswith("left_alone")]
    assert len(told) == 1
    assert "backup=a" in told[0]


@pytest.mark.slow
def test_what_was_brought_back_stays_wherever_its_removal_was_broken_off(tmp_path: Path) -> None:
    begun_at = None
    for fails_at in count():
        site = Site(tmp_path / f"{fails_at}")
        site.begun("a", commits=2)
        place, copy = site.folder / "backups" / "a", tmp_path / f"copy-{fails_at}"
        shutil.copytree(place, copy)
        broken = Repository(
            store=FaultyStore(site.repository.store, fails_at=fails_at), descriptor=site.repository.descriptor
        )
        asked = make_expiry_request(UID, [broken], maximum_retention="", minimum_restorable="", is_deletion=True)
        try:
            expire(asked, clock=SystemClock())
        except Crash:
            pass
        else:
            break
        if site.is_there("a"):
            continue
        begun_at = fails_at if begun_at is None else begun_at
        shutil.copytree(copy, place, dirs_exist_ok=True)
        with suppress(ExpiryNotDone, LeaseHeld):  # the lease may be what was not given back
            site.expire(delete=True)
        assert len(site.repository.backup("a").sound_state().history) >= 2, fails_at  # its seal may be left of it
    assert begun_at is not None
    assert fails_at > begun_at + 5


def test_what_lies_at_the_name_without_a_mark_is_left_alone(site: Site) -> None:
    key = removed_with_a_return(site)
    site.repository.store.delete(BackupLayout(backup="a").removed_key)
    site.expire_another()
    assert site.left() == [key]


def test_no_backup_is_made_by_hand_under_the_name_of_one_that_was_removed_lately(site: Site) -> None:
    site.begun("shop")
    site.expire(delete=True)
    with pytest.raises(BackupExists, match="was removed recently"):
        site.repository.create_backup("shop", cluster_id="cluster", selection=SELECTION)


def forged(site: Site, name: str) -> None:
    """A ledger that a stranger has put who may create objects: of a backup that was never of this resource."""
    stranger = Declared(site.repository.store, uid="dead0000-0001")
    stranger.decide(
        DeclaredEntryKind.STARTED,
        number=len(stranger.history.backups) + 1,
        beginning=replace(BEGINNING, backup=name),
        settings=SETTINGS,
    )
    for kind in (DeclaredEntryKind.STOPPED, DeclaredEntryKind.REMOVING, DeclaredEntryKind.REMOVED):
        stranger.decide(kind)


def test_a_forged_ledger_deletes_no_backup(site: Site) -> None:
    backup = site.repository.create_backup("prod", cluster_id="cluster", selection=SELECTION)
    run_once(backup)
    pin_point(backup, 1, reason="legal hold")
    site.begun("owned")
    forged(site, "prod")
    forged(site, "owned")
    before = [settled(site, key) for key in site.left()]
    site.expire_another()
    assert site.left() == before


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_ledger_is_not_believed_about_names_of_others(site: Site, *, is_claimed: bool) -> None:
    store, layout = site.repository.store, BackupLayout(backup="prod")
    if is_claimed:
        claim_name(store, "prod", "aaaa0000-0001")
    forged(site, "prod")
    store.put_if_absent(layout.removed_key, b"{}")
    key = returned(site, "prod")
    site.expire_another()
    assert site.left() == [layout.removed_key, key]


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_history_is_left_alone_though_its_descriptor_is_gone(site: Site, *, is_pinned: bool) -> None:
    store, layout = site.repository.store, BackupLayout(backup="prod")
    backup = site.repository.create_backup("prod", cluster_id="cluster", selection=SELECTION)
    run_once(backup)
    if is_pinned:
        pin_point(backup, 1, reason="legal hold")
    claim_name(store, "prod", "dead0000-0001")
    forged(site, "prod")
    store.delete(layout.descriptor_key)
    store.put_if_absent(layout.removed_key, b"{}")
    before = [settled(site, key) for key in site.left()]
    site.expire_another()
    assert site.left() == before


def test_a_sweep_whose_lock_was_taken_over_deletes_nothing_more(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = removed_with_a_return(site)
    terms = site.declared.layout.lock(site.repository.store)

    def slept(*_: object, **__: object) -> None:
        terms.claim(identity("operator"), "word", take_over=True)

    monkeypatch.setattr(RETURNED + ".note_deletions", slept)
    site.expire_another()
    assert site.repository.store.get(key) is not None
    assert any(each.startswith("sweep_failed") for each in caplog.messages)


def test_a_sweep_gives_signs_of_life(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    key = removed_with_a_return(site)
    terms = site.declared.layout.lock(site.repository.store)
    beat = terms.key(terms.newest_term() + 1, "beat")
    monkeypatch.setattr("offsite.repository.lease.BEAT_S", 0.01)
    monkeypatch.setattr(
        RETURNED + ".note_deletions",
        lambda *_, **__: wait_until(lambda: site.repository.store.head(beat) is not None, "a beat"),
    )
    site.expire_another()
    assert site.repository.store.get(key) is None


def test_what_was_begun_between_the_look_and_the_lock_is_not_swept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    key = removed_with_a_return(site)

    def due(*_: object) -> bool:
        site.declared.start("a")
        return True

    monkeypatch.setattr(RETURNED + "._is_due", due)
    site.expire_another()
    assert site.phases() == [BackupPhase.REMOVED, BackupPhase.RUNNING]
    assert site.repository.store.get(key) is not None
