"""Changes of accounts, places and topics: what goes on is not stopped for what cannot begin."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsite.model.errors import StoreDenied
from offsite.operator.core.monitor import HomeMonitor
from offsite.operator.folder.operator import FolderOperator
from offsite.operator.folder.views import describe
from offsite.repository.declared.history import BackupPhase
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.backups import SELECTION
from tests.processes import wait_until
from tests.unit.operator.folder.home import QUICK, Home, opened_home, resource, restore

SHOP = {"agents": {"replicas": 1}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def looked(home: Home, operator: FolderOperator, times: int = 5) -> None:
    for _ in range(times):
        operator.look()
        home.pass_s(11)


def running(home: Home, **spec: Any) -> tuple[FolderOperator, str]:
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(**{**SHOP, **spec}))
    looked(home, operator)
    uid = home.record(operator, "shop").uid
    home.copy(uid)
    looked(home, operator)
    assert home.conditions("shop") == {}
    return operator, uid


def put_accounts(home: Home, *accounts: tuple[str, Path | str], opens: Sequence[Path] = ()) -> None:
    """`opens`: by each of them, beside its endpoint."""
    entries = [{"name": name, "endpoint": str(endpoint), "opens": [*map(str, opens)]} for name, endpoint in accounts]
    home.layout.accounts.write_text(yaml.safe_dump(entries))


def phases(home: Home, uid: str) -> list[BackupPhase]:
    return [low.phase for low in home.lows(uid)]


def test_the_order_of_accounts_moves_no_backup_that_names_none(home: Home, tmp_path: Path) -> None:
    cellar = Repository.init(PosixStore(root=tmp_path / "cellar"))
    put_accounts(home, ("main", tmp_path / "backups"), ("cellar", tmp_path / "cellar"))
    operator, uid = running(home)
    put_accounts(home, ("cellar", tmp_path / "cellar"), ("main", tmp_path / "backups"))
    for each in (operator, home.operator()):
        looked(home, each)
        assert (phases(home, uid), home.conditions("shop")) == ([BackupPhase.RUNNING], {})
    assert cellar.backups() == ()
    home.put("shop.yaml", resource(destination={"account": "cellar"}, **SHOP))
    looked(home, operator)
    assert phases(home, uid) == [BackupPhase.STOPPED], "who names one moves it"
    home.put("shop.yaml", resource(**SHOP))
    looked(home, operator)
    assert [each["repository"] for each in home.status("shop")["status"]["backups"]][-1] == str(tmp_path / "cellar")


def test_a_destination_that_is_somebody_else_s_stops_nothing_and_keeps_no_slot(home: Home) -> None:
    home.repository.create_backup("manual", cluster_id="cluster", selection=SELECTION)
    destination = {"path": "shop", "timestampFormat": ""}
    operator, uid = running(home, destination=destination)
    home.put("shop.yaml", resource(destination={**destination, "path": "manual"}, **SHOP))
    looked(home, operator)

    assert phases(home, uid) == [BackupPhase.RUNNING]
    assert "was created by somebody else" in home.conditions("shop")["MisconfiguredBackup"]
    (home.root / "clusters" / "fair.properties").write_text("bootstrap.servers=localhost:9092\n")
    home.put("fair.yaml", resource("fair", **SHOP))
    looked(home, operator)
    assert phases(home, home.record(operator, "fair").uid) == [BackupPhase.RUNNING], "others may begin"
    home.put("shop.yaml", resource(destination=destination, **SHOP))
    looked(home, operator)
    assert (phases(home, uid), home.conditions("shop")) == ([BackupPhase.RUNNING], {})


def test_a_place_that_may_not_be_written_stops_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository.init(PosixStore(root=tmp_path / "cellar"))
    put_accounts(home, ("main", tmp_path / "backups"), opens=[tmp_path / "cellar"])
    operator, uid = running(home)
    put = PosixStore.put_if_absent

    def refused(store: PosixStore, key: str, data: Any) -> Any:
        if store.root.name == "cellar":
            raise StoreDenied("the cellar may not be written")
        return put(store, key, data)

    monkeypatch.setattr(PosixStore, "put_if_absent", refused)
    home.put("shop.yaml", resource(destination={"endpoint": str(tmp_path / "cellar")}, **SHOP))
    looked(home, operator)
    assert phases(home, uid) == [BackupPhase.RUNNING]
    assert "may not be written" in home.conditions("shop")["MisconfiguredBackup"]
    home.put("shop.yaml", resource(**SHOP))
    looked(home, operator)
    assert (phases(home, uid), home.conditions("shop")) == ([BackupPhase.RUNNING], {})


@pytest.mark.parametrize("spelling", ["link", "slash", "file"])
def test_another_spelling_of_a_repository_is_no_other_place(home: Home, tmp_path: Path, spelling: str) -> None:
    operator, uid = running(home, expiry={"maximumRetention": "7d"})
    (tmp_path / "link").symlink_to(tmp_path / "backups")
    names = {"link": tmp_path / "link", "slash": f"{tmp_path}/./backups", "file": f"file://{tmp_path}/link"}
    put_accounts(home, ("main", names[spelling]))
    looked(home, operator)

    assert (phases(home, uid), home.conditions("shop")) == ([BackupPhase.RUNNING], {})
    assert [each["repository"] for each in home.status("shop")["status"]["backups"]] == [str(names[spelling])]
    assert len(home.record(operator, "shop").places) == 1
    begun = [line for line in home.begun() if " expire " in line]
    assert all(line.count("--place") == 1 for line in begun), "a job would meet its own lease"
    assert not list((tmp_path / "backups" / "declared" / uid).glob("probe-*"))


def test_a_cluster_that_is_gone_takes_no_backup_with_it(home: Home) -> None:
    operator, uid = running(home, expiry={"maximumRetention": "7d"})
    (low,) = home.lows(uid)
    (home.root / "clusters" / "shop.properties").unlink()
    for _ in range(3):
        home.pass_s(8 * 3600)
        looked(home, operator)
    assert home.lows(uid) == (low,)
    assert home.repository.backup(low.beginning.backup).state().seq == 1
    assert "there is no cluster 'shop'" in home.conditions("shop")["MisconfiguredBackup"]
    assert [line for line in home.begun() if "--delete" in line] == []


def test_a_copy_of_a_repository_is_another_place(home: Home, tmp_path: Path) -> None:
    operator, uid = running(home)
    shutil.copytree(tmp_path / "backups", tmp_path / "copy")
    put_accounts(home, ("main", tmp_path / "copy"), opens=[tmp_path / "backups"])
    looked(home, operator, times=1)

    assert len(home.record(operator, "shop").places) == 2
    assert phases(home, uid) == [BackupPhase.STOPPED], "as to any other place"


def test_minimum_larger_than_maximum_is_refused_and_the_last_spec_stays(home: Home) -> None:
    operator, _ = running(home)
    home.put("shop.yaml", resource(expiry={"maximumRetention": "5s", "minimumRestorable": "1h"}, **SHOP))
    looked(home, operator)
    assert "minimumRestorable" in home.conditions("shop")["MisconfiguredBackup"]
    assert home.record(operator, "shop").generation == 1


def test_expiry_jobs_that_fail_again_and_again_are_told(home: Home) -> None:
    operator, uid = running(home, expiry={"maximumRetention": "7d"})
    ends = home.flag("ends", "error[OFF-1602]: the store may not be written\nhint: see its policy")

    def failures() -> int:
        operator.look()
        job = operator.jobs.job(uid)
        home.pass_s(61 if job is None or job.ended_ms else 1)
        return job.failures if job is not None else 0

    wait_until(lambda: failures() == 1, "one that fails")
    assert "ExpiryFailing" not in home.conditions("shop")
    wait_until(lambda: failures() >= 2, "another one")
    looked(home, operator, times=2)
    said = "error[OFF-1602]: the store may not be written; hint: see its policy"
    assert f"expiry jobs failed, so nothing of it is deleted: {said}" in home.conditions("shop")["ExpiryFailing"]
    found = describe(home.layout, kind="Backup", name="shop", clock=home.clock)
    assert said in found.line.message
    shown = HomeMonitor(home=operator, clock=home.clock).metrics("").text.decode()
    assert 'offsite_operator_failing_expiries{kind="Backup"} 1' in shown
    ends.unlink()
    wait_until(lambda: failures() == 0, "one that ends well")
    looked(home, operator, times=2)
    assert home.conditions("shop") == {}
    assert operator.rounds.failing == {}


def test_a_job_is_stopped_when_the_spec_changes_that_it_goes_by(home: Home) -> None:
    home.flag("hangs")
    operator, uid = running(home, expiry={"maximumRetention": "1d"})
    wait_until(lambda: any(" expire " in line for line in home.begun()), "a job")
    home.put("shop.yaml", resource(**SHOP, expiry={"maximumRetention": "30d"}))
    operator.look()
    job = operator.jobs.job(uid)
    assert job is not None
    assert job.ended_ms > 0


def test_the_order_of_accounts_gives_a_restore_that_began_no_other_credentials(home: Home, tmp_path: Path) -> None:
    put_accounts(home, ("main", tmp_path / "backups"), ("cellar", tmp_path / "backups"))
    operator = home.operator()
    home.put("back.yaml", restore(backupUrl=f"{tmp_path}/backups#shop"))
    operator.look()
    put_accounts(home, ("cellar", tmp_path / "backups"), ("main", tmp_path / "backups"))
    looked(home, operator, times=2)
    assert [place.account for place in home.record(operator, "back", "Restore").places] == ["main"]
