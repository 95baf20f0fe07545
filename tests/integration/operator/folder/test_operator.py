from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.operator.decide.backup import ChangePhase
from offsite.operator.decide.desired import DesiredBackup
from offsite.operator.folder.operator import FolderOperator, LookResult, run
from offsite.operator.folder.views import describe
from offsite.operator.world.backups import BackupExecutor
from offsite.overview.declared import read_declared_status
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import KeptBackup, put_kept_backups
from offsite.repository.layout import BackupLayout
from offsite.sandbox.settings import free_ports
from tests.backups import SELECTION
from tests.processes import wait_until
from tests.unit.operator.folder.home import QUICK, Home, opened_home, resource, restore
from tests.virtual_time import Script


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def looked(home: Home, operator: FolderOperator, times: int = 3, apart_s: float = 4.0) -> None:
    for _ in range(times):
        operator.look()
        home.pass_s(apart_s)


def running(home: Home, *, replicas: int = 1) -> tuple[FolderOperator, str]:
    """A backup that is as declared, and its uid."""
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(agents={"replicas": replicas}))
    looked(home, operator)
    uid = home.record(operator, "shop").uid
    home.wait_for_begun(replicas)
    home.copy(uid)
    home.pass_s(11)
    operator.look()
    assert home.conditions("shop") == {}
    return operator, uid


def test_a_declared_backup_runs_and_its_status_tells_what_one_can_restore_to(home: Home) -> None:
    _, uid = running(home)

    document = home.status("shop")
    (low,) = document["status"]["backups"]
    assert document["metadata"]["uid"] == uid
    assert document["status"]["reconciled"] is True
    assert document["status"]["observedGeneration"] == 1
    assert low["backup"].startswith("shop-20")
    assert low["latestRestorable"]["commit"] == low["oldestData"]["commit"] == 1


def test_until_it_has_copied_everything_once_its_status_says_so(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator)

    assert "has not completed its first full copy" in home.conditions("shop")["IncorrectBackupState"]


def test_agents_get_secrets_by_their_environment_and_never_by_their_arguments(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1, "template": {"sparkMaster": "local[1]"}}))
    looked(home, operator)

    (line,) = home.wait_for_begun(1)
    words, _, _ = line.partition(" secret=")
    uid = home.record(operator, "shop").uid
    assert words.split()[1:] == ["operator", "agent", "--repo", home.repository.store.url, "--uid", uid]
    assert " secret=s3 spark=local[1]" in line
    assert line.endswith("clusters/shop.properties")
    assert not any("s3" in path.read_text() for path in home.layout.own.rglob("*.json"))


def test_a_status_is_written_only_when_it_changed(home: Home) -> None:
    operator, _ = running(home)
    before = (home.root / "backup-shop.status.yaml").stat()
    home.pass_s(11)
    operator.look()

    assert (home.root / "backup-shop.status.yaml").stat().st_ino == before.st_ino


def test_the_time_of_a_condition_is_that_of_its_begin(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator, times=2)
    (before,) = [c for c in home.status("shop")["status"]["conditions"] if c["type"] == "IncorrectBackupState"]
    looked(home, operator, times=2)
    (after,) = [c for c in home.status("shop")["status"]["conditions"] if c["type"] == "IncorrectBackupState"]

    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert (after["status"], after["reason"]) == ("True", "IncorrectBackupState")


def test_a_changed_spec_is_another_generation_and_the_same_uid(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(agents={"replicas": 1}, state="paused"))
    looked(home, operator)

    record = home.record(operator, "shop")
    assert (record.uid, record.generation) == (uid, 2)
    assert home.lows(uid)[0].phase is BackupPhase.PAUSED


def test_a_field_that_there_is_not_is_told_and_the_last_good_spec_stays_in_force(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(stat="stopped"))
    looked(home, operator)

    assert "did you mean state?" in home.conditions("shop")["MisconfiguredBackup"]
    assert home.record(operator, "shop").generation == 1
    assert home.lows(uid)[0].phase is BackupPhase.RUNNING


def test_the_cluster_of_a_backup_cannot_be_changed(home: Home) -> None:
    operator, _ = running(home)
    home.put("shop.yaml", resource(cluster="other"))
    looked(home, operator)

    assert "spec.cluster is immutable" in home.conditions("shop")["MisconfiguredBackup"]


def test_a_file_that_is_empty_or_no_yaml_takes_nothing_away(home: Home) -> None:
    operator, uid = running(home)
    for text in ("", "{", "kind: [", "apiVersion: x\nkind: Nothing\n"):
        (home.root / "shop.yaml").write_text(text)
        looked(home, operator, times=3, apart_s=20.0)

        assert not home.record(operator, "shop").is_deleted
        assert home.conditions("shop")["MisconfiguredBackup"]
    assert home.lows(uid)[0].phase is BackupPhase.RUNNING


def test_a_file_that_was_renamed_and_cannot_be_read_takes_nothing_away(home: Home) -> None:
    operator, uid = running(home)
    (home.root / "shop.yaml").rename(home.root / "shops.yaml")
    whole = (home.root / "shops.yaml").read_text()
    (home.root / "shops.yaml").write_text(whole[: len(whole) // 2] + "\n  - {")
    looked(home, operator, times=8)
    assert (home.record(operator, "shop").uid, home.record(operator, "shop").is_deleted) == (uid, False)
    assert (
        "shops.yaml, which may declare the resource, cannot be read" in home.conditions("shop")["MisconfiguredBackup"]
    )
    (home.root / "shops.yaml").write_text(whole)
    looked(home, operator)
    assert home.status("shop")["status"]["reconciled"]


@pytest.mark.parametrize("text", ["[" * 3000, "a: " + "1" * 5000, "a: !!int x", "a: !!map [b]", "a: !!bool x"])
def test_whatever_a_file_holds_the_others_are_looked_after(home: Home, text: str) -> None:
    operator, _ = running(home)
    (home.root / "strange.yaml").write_text(text)
    os.mkfifo(home.root / "pipe.yaml")
    assert {each.name for each in operator.look().waiting} == {"strange.yaml", "pipe.yaml"}
    (home.root / "accounts.yaml").write_text(text)
    assert {each.name for each in operator.look().waiting} == {"strange.yaml", "pipe.yaml", "accounts.yaml"}


@pytest.mark.parametrize("text", ["[" * 3000, "status: {conditions: [{type: [a]}]}"])
def test_a_status_that_somebody_else_wrote_is_written_over(home: Home, text: str) -> None:
    operator, _ = running(home)
    (home.root / "backup-shop.status.yaml").write_text(text)
    operator.look()
    assert home.status("shop")["metadata"]["name"] == "shop"


def test_two_documents_of_one_name_are_an_error_for_both(home: Home) -> None:
    operator = home.operator()
    home.put("one.yaml", resource(), resource("other", agents={"replicas": 1}))
    home.put("two.yaml", resource(state="paused"))
    looked(home, operator)

    assert "in one.yaml and two.yaml" in home.conditions("shop")["MisconfiguredBackup"]
    assert operator.records.find("Backup", "shop") is None
    assert operator.records.find("Backup", "other") is not None


def test_an_error_in_one_resource_stops_no_other(home: Home) -> None:
    operator = home.operator(initial_copies=9)
    home.put("a.yaml", resource("aaa", destination={"account": "nobody"}))
    home.put("b.yaml", resource("bbb", destination={"endpoint": str(home.root / "nothing")}))
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator)

    assert "nobody" in home.conditions("aaa")["MisconfiguredBackup"]
    assert "no cluster" in home.conditions("bbb")["MisconfiguredBackup"]
    assert home.lows(home.record(operator, "shop").uid)


def test_a_repository_that_there_is_not_is_told_with_what_to_do(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(destination={"endpoint": str(home.repository.store.root / "nothing")}))
    looked(home, operator)

    told = home.conditions("shop")["MisconfiguredBackup"]
    assert f"it is inside repository {home.repository.store.root}: use that address" in told


def test_what_is_wrong_with_a_restore_is_told_as_its_phase(home: Home) -> None:
    operator = home.operator()
    home.put("back.yaml", restore())
    operator.look()
    home.put("back.yaml", restore(topics=["orders"]))
    operator.look()

    status = home.status("back", "restore")["status"]
    assert status["phase"] == "FailedValidation"
    assert "immutable" in status["conditions"][0]["message"]


def test_one_that_was_stored_before_there_were_limits_opens_and_is_what_its_file_says(home: Home) -> None:
    operator = home.operator()
    home.put("back.yaml", restore())
    operator.look()
    new = {"repartition", "keyless", "batchBytes", "writeLimit"}
    earlier = {name: value for name, value in home.record(operator, "back", "Restore").spec.items() if name not in new}
    operator.records.change("Restore", "back", lambda record: record and replace(record, spec=earlier))
    operator = home.operator()
    operator.look()
    assert home.record(operator, "back", "Restore").generation == 1
    assert home.status("back", "restore")["status"].get("phase") != "FailedValidation"
    home.put("back.yaml", restore(writeLimit="1MB"))
    operator.look()
    assert "immutable" in home.status("back", "restore")["status"]["conditions"][0]["message"]


def test_a_restore_may_be_stopped_and_never_run_again(home: Home) -> None:
    operator = home.operator()
    home.put("back.yaml", restore())
    operator.look()
    home.put("back.yaml", restore(state="stopped"))
    operator.look()
    assert home.status("back", "restore")["status"].get("phase") != "FailedValidation"
    home.put("back.yaml", restore(state="running"))
    operator.look()

    assert "a stopped restore cannot run again" in home.status("back", "restore")["status"]["conditions"][0]["message"]


def test_a_deleted_backup_is_stopped_and_deleted_through_the_queue_before_its_record_goes(home: Home) -> None:
    operator, uid = running(home)
    (home.root / "shop.yaml").unlink()
    operator.look()
    home.pass_s(11)
    (agent,) = home.begun()

    def is_gone() -> bool:
        operator.look()
        home.pass_s(1)
        return operator.records.find("Backup", "shop") is None

    wait_until(is_gone, "the end of the record")
    job = home.begun()[-1]
    assert home.lows(uid)[0].phase is BackupPhase.STOPPED
    assert f"operator expire --uid {uid} --place {home.repository.store.url} --delete secret=s3" in job
    assert agent != job
    assert not (home.root / "backup-shop.status.yaml").exists()
    operator.look()
    assert not [each for each in home.layout.agents.iterdir() if each.is_dir()]
    assert not list(home.layout.jobs.iterdir())


def test_the_finalizer_stays_until_a_deletion_ends_well(home: Home) -> None:
    operator, _ = running(home)
    home.flag("exit", "14")
    (home.root / "shop.yaml").unlink()
    looked(home, operator, times=2, apart_s=11.0)

    def has_failed() -> bool:
        operator.look()
        home.pass_s(2)
        return "it ended with 14" in str(home.conditions("shop"))

    wait_until(has_failed, "a failed deletion")
    assert home.record(operator, "shop").finalizers == ("offsite.dev/deletion",)
    home.flag("exit", "0")

    def is_gone() -> bool:
        operator.look()
        home.pass_s(2)
        return operator.records.find("Backup", "shop") is None

    wait_until(is_gone, "the end of the record")


def test_why_an_older_backup_stays_is_told_and_it_is_reconciled_all_the_same(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(agents={"replicas": 1}, tag="other"))

    def has_two() -> bool:
        operator.look()
        home.pass_s(11.0)
        return [low.phase for low in home.lows(uid)] == [BackupPhase.STOPPED, BackupPhase.RUNNING]

    wait_until(has_two, "another one in its place")
    home.copy(uid)
    old = home.lows(uid)[0].beginning.backup
    store, layout = home.repository.store, DeclaredLayout(uid=uid)
    put_kept_backups(store, layout, [KeptBackup(backup=old, repository=store.url, reason="it is not covered")])

    def is_told() -> bool:
        operator.look()
        home.pass_s(11.0)
        return home.conditions("shop").keys() == {"OlderBackupKept"}

    wait_until(is_told, "the condition")
    assert f"{old}: it is not covered" in home.conditions("shop")["OlderBackupKept"]
    assert home.status("shop")["status"]["reconciled"] is True
    found = describe(home.layout, kind="Backup", name="shop", clock=home.clock)
    assert (found.line.reconciled, "it is not covered" in found.line.message) == (True, True)
    put_kept_backups(store, layout, ())
    wait_until(lambda: not is_told() and not home.conditions("shop"), "its end")


def test_an_operator_of_a_folder_shows_the_metrics_of_all_homes(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("shop.yaml", resource(agents={"replicas": 0}))
    (port,), told = free_ports(1), list[str]()

    def looked_once(operator: FolderOperator, **_: object) -> None:
        operator.look()
        for path in ("metrics", "healthz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
                told.append(answer.read().decode())

    monkeypatch.setattr("offsite.operator.folder.operator.run", looked_once)
    words = ["operator", "run", str(home.root), "--settle", "0s", "--metrics-port", f"127.0.0.1:{port}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    metrics, health = told
    assert 'offsite_operator_resources{kind="Backup"} 1' in metrics
    assert 'offsite_operator_unreconciled_resources{kind="Backup"} 1' in metrics
    assert 'offsite_operator_failing_expiries{kind="Backup"} 0' in metrics
    assert health.startswith("alive")


def test_without_the_finalizer_it_goes_at_once_and_the_backups_stay(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(agents={"replicas": 1}, expiry={"deletionFinalizer": False}))
    operator.look()
    (home.root / "shop.yaml").unlink()
    looked(home, operator, times=2, apart_s=11.0)
    operator.look()

    assert operator.records.find("Backup", "shop") is None
    assert home.repository.backups() == (home.lows(uid)[0].beginning.backup,)
    assert not any("--delete" in line for line in home.begun())


def test_a_resource_made_anew_waits_for_the_end_of_the_former_one_and_adopts_nothing(home: Home) -> None:
    operator, uid = running(home)
    hangs = home.flag("hangs")
    (home.root / "shop.yaml").unlink()
    looked(home, operator, times=2, apart_s=11.0)
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator, times=3)
    assert "waits until the old resource" in home.conditions("shop")["MisconfiguredBackup"]
    hangs.unlink()

    def is_another() -> bool:
        operator.look()
        home.pass_s(1)
        found = operator.records.find("Backup", "shop")
        return found is not None and found.uid != uid

    wait_until(is_another, "a new record")
    assert home.record(operator, "shop").generation == 1

    def is_begun() -> bool:  # names have the second of their begin, by the clock of the store
        operator.look()
        return bool(home.status("shop")["status"].get("backups"))

    wait_until(is_begun, "a new backup")
    assert home.status("shop")["status"]["backups"][0]["backup"] != home.lows(uid)[0].beginning.backup


def test_a_move_keeps_the_old_backup_in_sight_and_asks_the_queue_to_let_it_go(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(agents={"replicas": 1}, tag="new"))
    looked(home, operator, times=6)
    home.copy(uid)
    home.pass_s(61)
    operator.look()

    assert [each["phase"] for each in home.status("shop")["status"]["backups"]] == ["stopped", "running"]
    wait_until(lambda: any("operator expire" in line for line in home.begun()), "an expiry job")


def test_two_operators_of_a_folder_agree_on_uids_generations_and_processes(home: Home) -> None:
    one, other = home.operator(), home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 2}))
    for number in range(5):
        for operator in (one, other):
            operator.look()
            home.pass_s(2)
        home.put("shop.yaml", resource(agents={"replicas": 2}, snapshotDuration=f"{number + 1}d"))

    record = home.record(one, "shop")
    assert len(home.lows(record.uid)) == 1
    assert record.generation == 5
    assert len(home.wait_for_begun(2)) == 2


def test_at_most_so_many_are_in_their_initial_copy(home: Home) -> None:
    operator = home.operator()
    (home.root / "clusters" / "fair.properties").write_text("bootstrap.servers=localhost:9092\n")
    home.put("a.yaml", resource("shop", agents={"replicas": 1}))
    home.put("b.yaml", resource("fair", agents={"replicas": 1}))
    looked(home, operator, times=4)

    begun = {name: len(home.lows(home.record(operator, name).uid)) for name in ("shop", "fair")}
    assert sorted(begun.values()) == [0, 1]
    waiting = next(name for name, count in begun.items() if not count)
    assert "waits for the initial copy of other backups" in home.conditions(waiting)["IncorrectBackupState"]


def test_a_damaged_record_ends_no_agent_and_begins_no_other_backup(home: Home) -> None:
    operator, uid = running(home)
    path = home.layout.record("Backup", "shop")
    path.write_text("{")
    looked(home, operator)

    assert operator.agents.alive(uid) == 1
    assert "OFF-1302" in home.conditions("shop")["MisconfiguredBackup"]


def test_accounts_that_cannot_be_read_move_no_backup(home: Home) -> None:
    operator, uid = running(home)
    place = home.repository.store.url
    home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"endpoint": place}))
    looked(home, operator)
    for damage in (lambda: home.layout.accounts.write_text("{"), home.layout.accounts.unlink):
        damage()
        for each in (operator, home.operator()):
            home.pass_s(11)
            assert "accounts.yaml" in [found.name for found in each.look().waiting]

    assert [low.phase for low in home.lows(uid)] == [BackupPhase.RUNNING]
    assert operator.agents.alive(uid) == 1


def test_a_repository_that_was_misspelt_is_forgotten_when_it_is_right(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"endpoint": str(home.root / "nothing")}))
    looked(home, operator)
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator)

    assert home.status("shop")["status"]["backups"][0]["phase"] == "running"


def test_a_resource_that_never_began_is_deleted_at_once(home: Home) -> None:
    operator = home.operator()
    path = home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"account": "nobody"}))
    looked(home, operator)
    path.unlink()
    looked(home, operator, times=3, apart_s=11.0)

    assert operator.records.find("Backup", "shop") is None
    assert home.begun() == []


def test_nothing_of_a_deleted_resource_is_remembered(home: Home) -> None:
    operator = home.operator()
    path = home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"account": "nobody"}))
    looked(home, operator)
    keeper = operator._keepers._backups
    assert keeper._stuck_ms
    path.unlink()
    looked(home, operator, times=3, apart_s=11.0)
    assert not operator.records.all()
    assert not keeper._stuck_ms


def test_why_agents_end_again_and_again_is_told(home: Home) -> None:
    home.flag("ends")
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}))

    def is_told() -> bool:
        operator.look()
        home.pass_s(0.5)
        return "times in a row" in str(home.status("shop")["status"].get("agents"))

    wait_until(is_told, "the reason")


def test_nothing_is_begun_for_a_resource_that_goes_meanwhile(home: Home) -> None:
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    operator.look()
    record = home.record(operator, "shop")
    operator.records.change("Backup", "shop", lambda _: None)

    kept = operator._keepers.look(record)
    assert kept is not None
    assert "is being deleted" in kept.conditions[0].message
    assert home.lows(record.uid) == ()


def test_what_is_the_operator_s_own_is_for_its_user_alone(home: Home) -> None:
    running(home)

    assert home.layout.own.stat().st_mode & 0o777 == 0o700
    files = [path for path in home.layout.own.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files if home.layout.store not in path.parents} == {0o600}


def test_a_status_that_cannot_be_written_stops_nothing(home: Home) -> None:
    (home.root / "backup-shop.status.yaml").mkdir()
    operator = home.operator()
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    looked(home, operator)

    assert home.lows(home.record(operator, "shop").uid)


def test_a_folder_that_is_away_for_a_while_changes_nothing(home: Home) -> None:
    operator, uid = running(home)
    away = home.root.parent / "away"
    looks: list[LookResult] = []
    clock = Script(
        lambda: home.root.rename(away), lambda: home.pass_s(20), lambda: away.rename(home.root), lambda: None
    )
    with pytest.raises(KeyboardInterrupt):
        run(operator, every_s=1, clock=clock, on_look=looks.append)

    assert [each.waiting for each in looks] == [(), (), ()]
    assert home.record(operator, "shop").uid == uid


def test_a_backup_that_somebody_else_made_is_neither_taken_over_nor_deleted(home: Home) -> None:
    home.repository.create_backup("shop", cluster_id="cluster", selection=SELECTION)
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"timestampFormat": ""}))
    looked(home, operator)
    assert "was created by somebody else" in home.conditions("shop")["MisconfiguredBackup"]
    assert home.lows(home.record(operator, "shop").uid) == ()


def test_nothing_begins_under_the_name_of_a_backup_that_was_removed_lately(home: Home) -> None:
    home.repository.store.put_if_absent(BackupLayout(backup="shop").removed_key, b"{}")
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"timestampFormat": ""}))
    looked(home, operator)
    assert "was removed recently" in home.conditions("shop")["MisconfiguredBackup"]
    assert home.lows(home.record(operator, "shop").uid) == ()


def test_what_is_removed_between_the_look_at_its_place_and_the_lock_does_not_begin(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = BackupLayout(backup="shop").removed_key
    monkeypatch.setattr(BackupExecutor, "_check_place", lambda _, store, *__: store.put_if_absent(mark, b"{}"))
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(agents={"replicas": 1}, destination={"timestampFormat": ""}))
    looked(home, operator)
    assert home.lows(home.record(operator, "shop").uid) == ()


def test_what_begins_again_under_its_name_may_have_other_topics(home: Home) -> None:
    spec = {"agents": {"replicas": 1}, "destination": {"timestampFormat": ""}}
    operator = home.operator(queue=QUICK)
    home.put("shop.yaml", resource(**spec))
    looked(home, operator)
    uid = home.record(operator, "shop").uid
    home.copy(uid)
    for number, state in enumerate(("stopped", "running"), start=1):
        home.put("shop.yaml", resource(topics=["orders"], state=state, **spec))
        looked(home, operator)
        assert len(home.lows(uid)) == number
    assert [low.phase for low in home.lows(uid)] == [BackupPhase.STOPPED, BackupPhase.RUNNING]
    assert [low.beginning.topics for low in home.lows(uid)] == [("*",), ("orders",)]
    assert len({low.beginning.backup for low in home.lows(uid)}) == 1


def test_topics_that_are_added_join_the_backup_that_runs(home: Home) -> None:
    operator, uid = running(home)
    home.put("shop.yaml", resource(topics=["orders", "payments"], agents={"replicas": 1}))
    looked(home, operator)
    (low,) = home.lows(uid)
    assert (low.phase, low.beginning.topics) == (BackupPhase.RUNNING, ("orders", "payments"))
    assert len(home.status("shop")["status"]["backups"]) == 1


def test_who_slept_in_front_of_a_decision_decides_nothing_by_an_old_spec(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, uid = running(home)
    sleeper, turn = home.operator(), BackupExecutor._turn
    home.put("shop.yaml", resource(state="stopped"))

    def slept(self: BackupExecutor, wanted: DesiredBackup, step: ChangePhase) -> None:
        monkeypatch.setattr(BackupExecutor, "_turn", turn)
        home.put("shop.yaml", resource(agents={"replicas": 1}))
        looked(home, operator)
        turn(self, wanted, step)

    monkeypatch.setattr(BackupExecutor, "_turn", slept)
    sleeper.look()
    assert [low.phase for low in home.lows(uid)] == [BackupPhase.RUNNING]


def test_what_is_wrong_is_told_by_the_kind_it_is_wrong_with(home: Home) -> None:
    home.put("a.yaml", restore(cluster="nowhere"))
    home.put("b.yaml", resource("tick", "Schedule", backup="shop", action="drill", cron="0 3 * * *"))
    home.layout.accounts.write_text("slip: [")
    operator = home.operator()
    operator.look()

    for kind, name in (("restore", "back"), ("schedule", "tick")):
        types = [each["type"] for each in home.status(name, kind)["status"]["conditions"]]
        assert types
        assert not [each for each in types if "Backup" in each]


def test_who_looks_at_the_repository_sees_restores_and_schedules_too(home: Home) -> None:
    operator, _ = running(home)
    home.put("b.yaml", resource("tick", "Schedule", backup="shop", action="drill", cron="0 3 * * *"))
    home.put("c.yaml", restore(backupUrl=f"{home.repository.store.url}#shop"))
    looked(home, operator)
    told = {each.kind: each for each in read_declared_status(home.repository.store).resources}
    assert {kind: each.name for kind, each in told.items()} == {"Backup": "shop", "Schedule": "tick", "Restore": "back"}
    assert told["Schedule"].facts["state"] == "waiting"
    assert told["Restore"].facts["phase"]
    (home.root / "b.yaml").unlink()
    for _ in range(3):
        home.clock.ms += 20_000
        operator.look()
    assert "Schedule" not in {each.kind for each in read_declared_status(home.repository.store).resources}
