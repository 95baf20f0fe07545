"""Neither an empty answer, nor a clock, nor what a stranger wrote shows that a backup may go."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offsite.model.errors import ExpiryNotDone
from offsite.operator.work import expire as job
from offsite.operator.work.release import plan_release
from offsite.repository import removal
from offsite.repository.commit import CommitChanges
from offsite.repository.declared.entry import (
    OWNER,
    DeclaredEntryKind,
    Owner,
)
from offsite.repository.declared.layout import later_owner_key, owner_key
from offsite.repository.declared.ledger import claim_name
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import KEPT_MS, SETTLED_MS
from offsite.repository.removed_backup import find_removal
from offsite.stores.posix_store import PosixStore
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.policy import parse_policy
from tests.backups import SELECTION, run_once
from tests.unit.operator.work.declared import UID, Declared
from tests.unit.operator.work.test_letting_go import BOTH, ORDERS, USERS, Place, begun_restore, run, why

DAY_MS = 86_400_000


def stopped_and_followed(folder: Path, *, is_named: bool) -> Place:
    """`old`, stopped, and `new` behind it, which holds all that `old` does."""
    place = Place(folder, "a")
    place.begin("old")
    place.copy("old", BOTH)
    place.stop("old")
    place.begin("new", *([(place, "old")] if is_named else []))
    place.copy("new", {ORDERS: ((0, 60), (0, 60)), USERS: ((0, 60),)})
    return place


@pytest.mark.parametrize(
    ("away", "is_named", "told"),
    [
        (("commits",), True, "its commit 3 is missing"),
        (("commits",), False, "its commits are missing, but backups/old/topics/"),
        (("backup.json", "commits"), True, "its commit 3 is missing"),
        (("backup.json", "commits"), False, "its commits are missing, but backups/old/topics/"),
        (("backup.json", "commits", "topics"), True, "its commit 3 is missing"),
    ],
)
def test_a_backup_whose_commits_are_away_is_not_taken_for_empty(
    tmp_path: Path, *, away: tuple[str, ...], is_named: bool, told: str
) -> None:
    """Somebody copies it back just now, or a folder of it is on another disk."""
    place = stopped_and_followed(tmp_path / "A", is_named=is_named)
    old = place.folder / "backups" / "old"
    for name in away:
        shutil.move(old / name, tmp_path / name)
    assert why(run(place)).startswith(f"old: {told}")
    for name in away:
        shutil.move(tmp_path / name, old / name)
    assert run(place).removed == ("old",), "it was judged by what it holds"


@pytest.mark.parametrize("is_behind_first", [False, True])
def test_a_clock_that_is_set_makes_no_backup_reach_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_behind_first: bool
) -> None:
    """The records that `old` alone has are a month of history, and `new` is some seconds old."""
    right, apart = PosixStore.now_ms, [-366 * DAY_MS if is_behind_first else 0]
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: right(store) + apart[0])
    place = Place(tmp_path / "A", "a")
    place.begin("old")
    place.copy("old", BOTH)
    place.stop("old")
    place.begin("new", (place, "old"))
    place.copy("new", {ORDERS: ((20, 60), (20, 60)), USERS: ((0, 60),)})
    apart[0] += 366 * DAY_MS
    new = place.repository.backup("new")
    new.commit(CommitChanges(), base=new.state(), writer="w")
    assert "old: new may not reach back as far as its clock says: between commits 2 and 3" in why(
        run(place, minimum_ms=30 * DAY_MS)
    )
    assert place.is_there("old")


@pytest.mark.parametrize("claimed", ["by nobody", "of a plain run", "of another resource"])
@pytest.mark.parametrize("is_deletion", [False, True])
def test_what_a_ledger_names_is_not_of_the_resource(tmp_path: Path, *, is_deletion: bool, claimed: str) -> None:
    """Whoever can create objects wrote that the backup of somebody else is the resource's, and the last one; and he
    claimed its name."""
    place = stopped_and_followed(tmp_path / "A", is_named=True)
    owner = "4567abcd-0002" if claimed == "of another resource" else ""
    if owner:
        claim_name(place.repository.store, "nightly", owner)
    for _ in range(2):
        run_once(
            place.repository.create_backup("nightly", cluster_id="cluster", selection=SELECTION, declared_by=owner)
        )
    key = later_owner_key("nightly", 1) if owner else owner_key("nightly")
    if claimed != "by nobody":
        place.repository.store.put_if_absent(key, OWNER.encode(Owner(uid=UID)))
    place.stop("new")
    new = place.declared.history.backups[-1]
    beginning = replace(new.beginning, backup="nightly")
    place.declared.decide(DeclaredEntryKind.STARTED, number=3, beginning=beginning, settings=new.settings)
    place.declared.decide(DeclaredEntryKind.STOPPED)
    done = run(place, is_deletion=is_deletion, policy=parse_policy(keep_age="0s"))
    if is_deletion:
        assert done.removed == ("old", "new")
    else:
        assert "nightly: the ledger names the backup, but it does not belong to this resource" in str(done.kept[0])
    assert len(place.repository.backup("nightly").state().history) == 2


def test_who_has_a_name_now_is_who_releases_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, ahead = PosixStore.now_ms, [0]
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: right(store) + ahead[0])
    place = Place(tmp_path / "A", "a")
    place.begin("old")
    place.copy("old", BOTH)
    place.stop("old")
    assert run(place, is_deletion=True).removed == ("old",)
    ahead[0] += 2 * KEPT_MS
    place.declared = Declared(place.repository.store, uid="4567abcd-0002")
    place.begin("old")
    place.copy("old", BOTH)
    place.stop("old")
    assert plan_release(place.repository, "old").uid == "4567abcd-0002"


def test_a_removal_that_meets_a_reader_was_not_brought_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger says that it goes; then a restore enters itself, which is refused or killed."""
    place = stopped_and_followed(tmp_path / "A", is_named=True)
    removed, layout = removal.remove_backup, BackupLayout(backup="old")

    def late(*args: Any, **kwargs: Any) -> bool:
        begun_restore(place, "old")
        return removed(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(job, "remove_backup", late)
        assert why(run(place)).startswith("old: restore ")
    assert place.repository.store.head(layout.removing_key) is not None, "no other one can begin"
    assert run(place).removed == ("old",), "and it is no backup that somebody brought back"


def test_a_pin_counts_though_the_descriptor_is_gone(tmp_path: Path) -> None:
    place = stopped_and_followed(tmp_path / "A", is_named=True)
    pin_point(place.repository.backup("old"), 1, reason="the audit")
    (place.folder / "backups/old/backup.json").unlink()
    with pytest.raises(ExpiryNotDone, match="old: its commit 1 is pinned: the audit"):
        run(place, is_deletion=True)
    assert len(list((place.folder / "backups/old/commits").iterdir())) == 4


def test_what_was_brought_back_is_not_swept_because_one_file_of_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = stopped_and_followed(tmp_path / "A", is_named=True)
    old = place.folder / "backups" / "old"
    shutil.copytree(old, tmp_path / "copy")
    assert run(place).removed == ("old",)
    shutil.copytree(tmp_path / "copy", old, dirs_exist_ok=True)
    right = PosixStore.now_ms
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: right(store) + 2 * SETTLED_MS)
    run(place)
    assert find_removal(place.repository.store, "old") is None
    (old / "backup.json").unlink()
    run(place)
    assert find_removal(place.repository.store, "old") is None, "that was no removal"
    assert len(list((old / "commits").iterdir())) == 3
    assert list((old / "topics").rglob("*.log*"))


def test_a_topic_that_came_late_does_not_reach_back_as_far_as_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was added in place, or could not be read for a month: its first records are in the older one alone."""
    right, ahead = PosixStore.now_ms, [0]
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: right(store) + ahead[0])
    place = Place(tmp_path / "A", "a")
    place.begin("old")
    place.copy("old", BOTH)
    place.stop("old")
    place.begin("new", (place, "old"))
    for day in range(5):
        place.copy("new", {ORDERS: ((20 * day, 20 * day + 20), (20 * day, 20 * day + 20))}, passes=1)
        ahead[0] += 10 * DAY_MS
    for day in range(3):
        place.copy("new", {USERS: ((20 + 20 * day, 40 + 20 * day),)}, passes=1)
        ahead[0] += 10 * DAY_MS
    assert (
        why(run(place, minimum_ms=30 * DAY_MS)) == "old: new does not reach back far enough yet: 20 d 0 h of 30 d 0 h"
    )
    place.copy("new", {USERS: ((80, 100),)}, passes=1)
    assert run(place, minimum_ms=30 * DAY_MS).removed == ("old",)
