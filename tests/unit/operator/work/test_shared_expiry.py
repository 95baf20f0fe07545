"""An expiry job of a backup that several resources share: nothing whole goes while one of them is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, ExpiryNotDone
from offsite.operator.decide.desired import expiry_fields
from offsite.operator.work import expire as expiry
from offsite.operator.work.expire import expire, make_expiry_request
from offsite.operator.world.membership import dismiss, list_members
from offsite.repository import local_memory
from offsite.repository.declared.entry import DeclaredEntryKind, MemberStatement
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.members import member_id
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder
from tests.backups import SELECTION, run_once
from tests.unit.operator.work.declared import Declared

LEDGER = "shop-everywhere"
ONE, TWO = "11111111-aaaa", "22222222-bbbb"


class Shared:
    """A backup that ONE and TWO share."""

    def __init__(self, folder: Path) -> None:
        self.repository = Repository.init(open_folder(folder))
        self.declared = Declared(self.repository.store, uid=LEDGER)
        self.says(DeclaredEntryKind.JOINED, ONE)
        self.declared.start("b")
        run_once(self.repository.create_backup("b", cluster_id="cluster", selection=SELECTION, declared_by=LEDGER))
        self.says(DeclaredEntryKind.JOINED, TWO, generation=1, fields=expiry_fields("30d", "7d"))

    def says(self, kind: DeclaredEntryKind, uid: str, **more: Any) -> None:
        generation = self.declared.history.generation + 1
        word = MemberStatement(id=member_id(LEDGER, uid), name=f"shops/{uid[:1]}", **more)
        self.declared.decide(kind, generation=generation, member=word, by="an operator")

    def leaves(self, uid: str) -> None:
        self.says(DeclaredEntryKind.LEFT, uid, proof=uid)

    def delete(self, member: str) -> tuple[str, ...]:
        asked = make_expiry_request(
            LEDGER,
            [self.repository],
            maximum_retention=None,
            minimum_restorable=None,
            is_deletion=True,
            member=member,
        )
        return expire(asked, clock=SystemClock()).removed

    @property
    def phases(self) -> list[BackupPhase]:
        return [low.phase for low in self.declared.history.backups]


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path / "repository")


def test_all_goes_with_the_last_one(shared: Shared) -> None:
    shared.leaves(ONE)
    with pytest.raises(ExpiryNotDone, match="1 other shares shop-everywhere, as shops/2"):
        shared.delete(ONE)
    assert shared.phases == [BackupPhase.RUNNING]
    shared.leaves(TWO)
    assert shared.delete(TWO) == ("b",)
    assert shared.phases == [BackupPhase.REMOVED]


def test_who_has_not_let_go_itself_or_never_joined_deletes_nothing(shared: Shared) -> None:
    shared.leaves(ONE)
    for member in (TWO, "33333333-cccc"):
        with pytest.raises(ExpiryNotDone, match="has not left the shared backup"):
            shared.delete(member)
    assert shared.phases == [BackupPhase.RUNNING]


def test_one_that_joins_in_the_middle_ends_the_deletion(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.leaves(ONE)
    shared.leaves(TWO)
    begin = expiry.begin_removal

    def joins(*args: object, **more: object) -> bool:
        shared.says(DeclaredEntryKind.JOINED, "33333333-cccc")
        return begin(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(expiry, "begin_removal", joins)
    with pytest.raises(ExpiryNotDone, match="1 other shares"):
        shared.delete(TWO)
    assert shared.phases == [BackupPhase.STOPPED]
    assert shared.repository.backup("b").state().seq


def test_that_the_other_one_is_gone_is_believed_of_itself_alone(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may create objects can write that a resource let go; not with its uid, which he does not know."""
    shared.says(DeclaredEntryKind.LEFT, TWO, proof="")
    shared.leaves(ONE)
    with pytest.raises(ExpiryNotDone, match="1 other shares"):
        shared.delete(ONE)
    (mine, theirs) = list_members(shared.repository.store, LEDGER).members
    assert (mine.gone, theirs.gone, theirs.dismissed, theirs.believed) == (True, False, "somebody said so", False)

    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)  # three days later
    assert shared.delete(ONE) == ("b",)


def test_a_person_says_on_this_machine_that_the_other_one_is_gone(shared: Shared) -> None:
    shared.leaves(ONE)
    store, theirs = shared.repository.store, member_id(LEDGER, TWO)
    with pytest.raises(BadOption):
        dismiss(store, LEDGER, theirs, reason=" ")
    with pytest.raises(BadOption):
        dismiss(store, LEDGER, "ffff", reason="burnt down")
    dismiss(store, LEDGER, theirs[:8], reason="burnt down")
    (_, told) = list_members(store, LEDGER).members
    assert (told.dismissed, told.believed) == ("burnt down", True)
    assert shared.delete(ONE) == ("b",)


def test_a_person_refuses_what_somebody_said_in_the_name_of_another(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, theirs = shared.repository.store, member_id(LEDGER, TWO)
    with pytest.raises(BadOption, match="nobody said"):
        dismiss(store, LEDGER, theirs, reason="", refuse=True)
    shared.says(DeclaredEntryKind.LEFT, TWO, proof="")
    dismiss(store, LEDGER, theirs, reason="", refuse=True)
    shared.leaves(ONE)
    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)
    with pytest.raises(ExpiryNotDone, match="1 other shares"):
        shared.delete(ONE)


@pytest.mark.parametrize("told", ["1d", "", "30d"])
def test_a_job_goes_by_what_all_declare_by_now(shared: Shared, told: str) -> None:
    """Its operator may sleep, or be dead, when somebody changes that."""
    asked = make_expiry_request(
        LEDGER, [shared.repository], maximum_retention="30d", minimum_restorable=None, is_deletion=False
    )
    shared.says(DeclaredEntryKind.DECLARED, TWO, generation=2, fields=expiry_fields(told, ""))
    if told == "30d":
        assert expire(asked, clock=SystemClock()).removed == ()
        return
    with pytest.raises(ExpiryNotDone, match="declares another expiry"):
        expire(asked, clock=SystemClock())


def test_a_job_that_is_told_of_another_expiry_deletes_no_older_backup(shared: Shared) -> None:
    asked = make_expiry_request(
        LEDGER, [shared.repository], maximum_retention="30d", minimum_restorable="7d", is_deletion=False
    )
    (low,) = expiry._lows(asked)
    shared.declared.decide(DeclaredEntryKind.STOPPED)
    shared.says(DeclaredEntryKind.DECLARED, TWO, generation=2, fields=expiry_fields("30d", "30d"))
    with pytest.raises(ExpiryNotDone, match="another expiry"):
        expiry._decide(asked, low, DeclaredEntryKind.REMOVING)
    assert shared.phases == [BackupPhase.STOPPED]
