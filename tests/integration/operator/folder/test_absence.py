"""What operators conclude from files that are away, cut, or half of a save: nothing at one look, nothing by clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from offsite.operator.folder.edits import apply, plan_removal, remove
from offsite.operator.folder.operator import FolderOperator
from offsite.repository.declared.history import BackupPhase
from tests.unit.operator.folder.home import Home, opened_home, resource

SHOP = {"agents": {"replicas": 1}}
HOUR = {"absent_after_s": 3600.0}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


@dataclass
class SetClock:
    """A clock of another machine: its wall clock was set, and it began at another time."""

    home: Home
    ahead_ms: int

    def now_ms(self) -> int:
        return self.home.clock.now_ms() + self.ahead_ms

    def monotonic_s(self) -> float:
        return self.home.clock.monotonic_s() + 12345.0

    def sleep(self, duration_s: float) -> None:
        self.home.clock.sleep(duration_s)


def looked(home: Home, *operators: FolderOperator, for_s: float, every_s: float = 500.0) -> None:
    for _ in range(int(for_s / every_s)):
        for operator in operators:
            operator.look()
        home.pass_s(every_s)
    for operator in operators:
        operator.look()


def is_asked_to_go(home: Home, operator: FolderOperator, name: str = "shop") -> bool:
    return home.record(operator, name).is_deleted


def test_a_file_that_is_away_is_told_for_an_hour_and_then_its_resource_is_deleted(home: Home) -> None:
    operator = home.operator(**HOUR)
    path = home.put("shop.yaml", resource(**SHOP))
    operator.look()
    path.unlink()
    looked(home, operator, for_s=3000)

    assert not is_asked_to_go(home, operator)
    told = home.conditions("shop")["DeclarationMissing"]
    assert "shop.yaml, which declared Backup shop, is missing since" in told
    assert "offsite operator delete backup shop" in told
    looked(home, operator, for_s=1000)
    assert is_asked_to_go(home, operator)


def test_a_file_that_is_back_ends_it_and_the_next_absence_is_counted_anew(home: Home) -> None:
    operator = home.operator(**HOUR)
    path = home.put("shop.yaml", resource(**SHOP))
    operator.look()
    uid = home.record(operator, "shop").uid
    for _ in range(3):
        path.unlink()
        looked(home, operator, for_s=3000)
        home.put("shop.yaml", resource(**SHOP))
        looked(home, operator, for_s=20, every_s=10)
        assert "DeclarationMissing" not in home.conditions("shop")
    assert (home.record(operator, "shop").uid, is_asked_to_go(home, operator)) == (uid, False)


def test_two_operators_whose_clocks_differ_by_hours_delete_nothing_that_was_away_for_a_moment(home: Home) -> None:
    one = home.operator(**HOUR)
    other = home.operator(**HOUR, clock=SetClock(home, ahead_ms=5 * 3_600_000))
    path = home.put("shop.yaml", resource(**SHOP))
    looked(home, one, other, for_s=4, every_s=2)
    path.unlink()
    looked(home, one, other, for_s=4, every_s=2)
    home.put("shop.yaml", resource(**SHOP))
    looked(home, one, other, for_s=4000)
    assert not is_asked_to_go(home, one)
    assert home.conditions("shop").keys() <= {"IncorrectBackupState", "DeploymentRollingOut"}


def test_an_operator_that_begins_anew_counts_anew(home: Home) -> None:
    path = home.put("shop.yaml", resource(**SHOP))
    home.operator(**HOUR).look()
    path.unlink()
    for _ in range(5):
        operator = home.operator(**HOUR)
        looked(home, operator, for_s=3000)
        assert not is_asked_to_go(home, operator)


def test_what_is_deleted_by_command_goes_at_once(home: Home) -> None:
    operator = home.operator(**HOUR)
    home.put("shop.yaml", resource(**SHOP))
    operator.look()
    remove(home.layout, plan_removal(home.layout, ("Backup", "shop"), (), keeps_backups=False), now_ms=1)
    assert is_asked_to_go(home, operator)


def test_a_resource_that_is_renamed_is_another_one_and_the_former_stays_for_an_hour(home: Home) -> None:
    operator = home.operator(**HOUR, initial_copies=2)
    home.put("shop.yaml", resource(cluster="shop", **SHOP))
    looked(home, operator, for_s=8, every_s=2)
    uid = home.record(operator, "shop").uid
    home.put("shop.yaml", resource("other", cluster="shop", **SHOP))
    looked(home, operator, for_s=60, every_s=2)

    assert "no longer declares Backup shop since" in home.conditions("shop")["DeclarationMissing"]
    assert [low.phase for low in home.lows(uid)] == [BackupPhase.RUNNING]
    assert [low.phase for low in home.lows(home.record(operator, "other").uid)] == [BackupPhase.RUNNING]


def test_a_file_counts_once_it_was_the_same_for_a_moment(home: Home) -> None:
    operator = home.operator(settle_s=10.0)
    home.put("shop.yaml", resource(topics=["orders", "payments"], **SHOP))
    operator.look()
    assert "was changed" in home.conditions("shop")["DeclarationSettling"]
    assert operator.records.find("Backup", "shop") is None
    looked(home, operator, for_s=10, every_s=2)
    assert home.record(operator, "shop").generation == 1
    for number in range(9):  # a save that goes on and on
        home.put("shop.yaml", resource(topics=["orders", "payments", f"t{number}"], **SHOP))
        looked(home, operator, for_s=6, every_s=2)
        assert home.record(operator, "shop").generation == 1
    looked(home, operator, for_s=10, every_s=2)
    assert home.record(operator, "shop").generation == 2
    assert "DeclarationSettling" not in home.conditions("shop")


def test_a_file_that_is_cut_and_mended_within_the_moment_changed_nothing(home: Home) -> None:
    operator = home.operator(settle_s=10.0, **HOUR)
    text = yaml.safe_dump_all([resource("aaa", topics=["orders", "payments"], cluster="shop"), resource("zzz")])
    (home.root / "all.yaml").write_text(text)
    looked(home, operator, for_s=12, every_s=2)
    for end in range(0, len(text), 31):
        (home.root / "all.yaml").write_text(text[:end])
        looked(home, operator, for_s=6, every_s=2)
        (home.root / "all.yaml").write_text(text)
        looked(home, operator, for_s=2, every_s=2)
    for name in ("aaa", "zzz"):
        record = home.record(operator, name)
        assert (record.generation, record.is_deleted) == (1, False)


def test_what_apply_wrote_is_whole_and_counts_at_once(home: Home) -> None:
    operator = home.operator(settle_s=10.0)
    apply(home.layout, yaml.safe_dump(resource(**SHOP)), source="x.yaml")
    operator.look()
    assert home.record(operator, "shop").generation == 1
    apply(home.layout, yaml.safe_dump(resource(state="paused", **SHOP)), source="x.yaml")
    operator.look()
    assert home.record(operator, "shop").generation == 2
    text = (home.root / "backup-shop.yaml").read_text()
    (home.root / "backup-shop.yaml").write_text(text.replace("state: paused\n", ""))
    operator.look()
    assert home.record(operator, "shop").generation == 2, "what somebody else did to it may be half of a save"


def test_who_applies_what_is_there_says_that_it_is_whole(home: Home) -> None:
    operator = home.operator(settle_s=10.0)
    home.put("shop.yaml", resource(**SHOP))
    operator.look()
    apply(home.layout, yaml.safe_dump(resource(**SHOP)), source="x.yaml")
    operator.look()
    assert home.record(operator, "shop").generation == 1


def test_accounts_that_change_count_once_they_were_the_same_for_a_moment(home: Home) -> None:
    operator = home.operator(settle_s=10.0)
    operator.look()
    text = home.layout.accounts.read_text()
    home.layout.accounts.write_text(text.replace("AWS_SECRET_ACCESS_KEY: s3", "AWS_SECRET_ACCESS_KEY: s"))
    assert {each.name for each in operator.look().waiting} == {"accounts.yaml"}
    looked(home, operator, for_s=12, every_s=2)
    assert operator.look().waiting == ()


def test_who_looks_once_and_ends_looks_at_files_for_that_moment(home: Home) -> None:
    operator = home.operator(settle_s=10.0)
    home.put("shop.yaml", resource(**SHOP))
    operator.settle()
    operator.look()
    assert home.record(operator, "shop").generation == 1


def test_a_file_that_stays_cut_stops_and_deletes_nothing_and_mending_it_is_free(home: Home) -> None:
    operator = home.operator(**HOUR, initial_copies=2)
    spec = {"cluster": "shop", "topics": ["orders", "payments"], "agents": {"replicas": 1}}
    expiry = {"maximumRetention": "30d", "minimumRestorable": "7d"}
    text = yaml.safe_dump_all([resource("aaa", expiry=expiry, **spec), resource("zzz", **spec)], sort_keys=False)
    (home.root / "all.yaml").write_text(text)
    looked(home, operator, for_s=8, every_s=2)
    uids = {name: home.record(operator, name).uid for name in ("aaa", "zzz")}
    for uid in uids.values():
        home.copy(uid)
    for end in range(60, len(text), 41):
        (home.root / "all.yaml").write_text(text[:end])
        looked(home, operator, for_s=20, every_s=10)
    (home.root / "all.yaml").write_text(text)
    looked(home, operator, for_s=20, every_s=10)
    for name, uid in uids.items():
        record = home.record(operator, name)
        assert (record.uid, record.is_deleted) == (uid, False)
        ((low, *others), topics) = home.lows(uid), ("orders", "payments")
        assert (low.phase, low.beginning.topics, others) == (BackupPhase.RUNNING, topics, [])
