"""What holds a slot, a lock or a seal that it cannot use: nobody waits for it for ever."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.operator.core.backup_keeper import LEAVE_MAX_MS, STUCK_MS
from offsite.operator.decide.backup import SlotAvailability
from offsite.operator.folder.operator import FolderOperator
from offsite.operator.world.backups import BackupExecutor
from offsite.operator.world.claims import Slots
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import get_note
from offsite.stores.posix_store import PosixStore
from tests.processes import wait_until
from tests.unit.operator.folder.home import QUICK, Home, opened_home, resource
from tests.worlds.operator.world import identity


class Died(BaseException):
    """The operator dies here."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def begun(home: Home, **spec: object) -> tuple[FolderOperator, str]:
    """A backup in its initial copy, and its uid."""
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(agents={"replicas": 1}, **spec))
    for _ in range(3):
        operator.look()
        home.pass_s(4)
    home.wait_for_begun(1)
    return operator, home.record(operator, "shop").uid


def slot_of(home: Home, uid: str) -> SlotAvailability:
    return Slots(PosixStore(root=home.layout.store), limit=1).availability(uid)


def looked_until(home: Home, operator: FolderOperator, is_so: object, what: str) -> None:
    def is_done() -> bool:
        operator.look()
        home.pass_s(4)
        return bool(is_so())  # type: ignore[operator]

    wait_until(is_done, what)


def test_a_place_that_is_gone_gives_its_slot_once_no_agent_of_it_is_left(home: Home) -> None:
    operator, uid = begun(home)
    backups = home.root.parent / "backups"
    backups.rename(backups.with_name("away"))
    operator.look()
    home.pass_s(STUCK_MS / 2000)
    operator.look()
    assert (slot_of(home, uid), operator.agents.alive(uid)) == (SlotAvailability.HELD, 1), "it may come back"
    home.pass_s(STUCK_MS / 2000)
    looked_until(home, operator, lambda: slot_of(home, uid) is SlotAvailability.FREE, "the slot")
    assert operator.agents.alive(uid) == 0
    backups.with_name("away").rename(backups)
    looked_until(home, operator, lambda: operator.agents.alive(uid) == 1, "an agent")
    assert slot_of(home, uid) is SlotAvailability.HELD


def test_an_agent_of_another_machine_that_shares_the_folder_counts_as_copying(home: Home) -> None:
    operator, uid = begun(home)
    (noted,) = operator.agents.processes(uid)
    elsewhere = replace(noted.identity, host="elsewhere", boot="another")
    operator.agents._noted(uid, replace(noted, identity=elsewhere))
    folder = home.layout.agents / uid
    shutil.copytree(folder, home.layout.agents.with_name("elsewhere") / uid)
    operator.agents._noted(uid, noted)
    (home.root.parent / "backups").rename(home.root.parent / "away")
    operator.look()
    home.pass_s(STUCK_MS / 1000)
    looked_until(home, operator, lambda: operator.agents.alive(uid) == 0, "the end of its agents here")
    operator.look()
    assert slot_of(home, uid) is SlotAvailability.HELD


def test_without_agents_the_initial_copy_rests_and_gives_its_slot(home: Home) -> None:
    operator, uid = begun(home)
    home.put("shop.yaml", resource(agents={"replicas": 0}))
    looked_until(home, operator, lambda: slot_of(home, uid) is SlotAvailability.FREE, "the slot")
    assert home.lows(uid)[-1].phase is BackupPhase.PAUSED
    assert "has no agents" in home.conditions("shop")["IncorrectBackupState"]
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked_until(home, operator, lambda: home.lows(uid)[-1].phase is BackupPhase.RUNNING, "it goes on")
    assert len(home.lows(uid)) == 1


def test_who_dies_between_stop_and_seal_leaves_it_to_the_next_look(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, uid = begun(home)
    home.copy(uid)
    home.put("shop.yaml", resource(agents={"replicas": 1}, state="stopped"))

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(BackupExecutor, "_seal", die)
        with pytest.raises(Died):
            operator.look()
    (low,) = home.lows(uid)
    assert (low.phase, low.is_sealed) == (BackupPhase.STOPPED, False)
    before = home.repository.backup(low.beginning.backup).state().seq
    home.operator(queue=QUICK).look()
    assert home.lows(uid)[0].is_sealed
    home.pass_s(20)
    home.operator(queue=QUICK).look()
    assert home.repository.backup(low.beginning.backup).state().seq == before + 1, "it is sealed once"


@pytest.mark.parametrize("ends", [True, False])
def test_a_lock_that_another_one_holds_delays_who_leaves_its_backups_and_keeps_it_not_for_ever(
    home: Home, ends: bool
) -> None:
    operator, uid = begun(home, expiry={"deletionFinalizer": False})
    layout, store = DeclaredLayout(uid=uid), home.repository.store
    terms = layout.lock(store)
    claim = terms.claim(identity("other"), "word", take_over=False)
    (home.root / "shop.yaml").unlink()
    operator.look()
    home.pass_s(11)
    operator.look()
    assert home.record(operator, "shop").is_deleted
    operator.look()
    assert operator.records.find("Backup", "shop") is not None
    assert home.lows(uid)[0].phase is BackupPhase.RUNNING
    if ends:
        terms.end(claim)
    else:
        home.pass_s(LEAVE_MAX_MS / 1000)
    operator.look()
    assert operator.records.find("Backup", "shop") is None
    assert home.lows(uid)[0].phase is (BackupPhase.STOPPED if ends else BackupPhase.RUNNING)
    told = get_note(store, layout)
    assert told is not None
    assert ends or "the backup was not stopped" in dict(told.conditions)["IncorrectBackupState"]
    looked_until(home, operator, lambda: operator.agents.alive(uid) == 0, "the end of its agents")
