from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsite.model.errors import KubernetesUnavailable
from offsite.operator.decide.backup import SlotAvailability
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.status import BackupResourceStatus
from offsite.operator.world.claims import Slots
from offsite.repository.declared.history import BackupPhase
from offsite.stores.posix_store import PosixStore
from tests.processes import wait_until
from tests.unit.operator.kubernetes.kubernetes_home import DEPLOYMENT, IMAGE, SHOP, World, opened_world


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def phases(world: World, uid: str, place: str = "backups") -> list[BackupPhase]:
    return [each.phase for each in world.lows(uid, place)]


def test_a_declared_backup_gets_agents_begins_and_tells_what_one_can_restore_to(world: World) -> None:
    _, uid = world.running()

    status = world.status()
    assert phases(world, uid) == [BackupPhase.RUNNING]
    assert (status["reconciled"], status["observedGeneration"]) == (True, 1)
    assert status["agents"] == {"replicas": 1, "ready": 1}
    (low,) = status["backups"]
    assert low["backup"].startswith("shop-20")
    assert low["latestRestorable"]["commit"] == low["oldestData"]["commit"] == 1
    BackupResourceStatus.model_validate(status)


def test_agents_are_a_deployment_of_its_name_that_it_owns(world: World) -> None:
    _, uid = world.running(
        agents={"replicas": 2, "template": {"environment": {"TZ": "UTC"}, "resources": {"cpu": "2"}}}
    )

    found = world.deployment()
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Backup", "shop", uid)
    assert found["spec"]["replicas"] == 2
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert container["command"][:5] == ["offsite", "operator", "agent", "--repo", str(world.root / "backups")]
    assert container["command"][5:] == ["--uid", uid]
    assert container["resources"] == {"requests": {"cpu": "2"}}
    assert {"name": "TZ", "value": "UTC"} in container["env"]


def test_agents_get_secrets_by_their_names_and_the_operator_reads_none(world: World) -> None:
    world.running()

    pod = world.deployment()["spec"]["template"]["spec"]
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "offsite-account-backups"}}]
    assert pod["volumes"][1]["secret"]["secretName"] == "offsite-cluster-shop"
    assert not pod["automountServiceAccountToken"]
    assert "a secret" not in str([world.cluster.objects[path] for path in world.left()])


def test_nothing_begins_before_the_finalizer_is_there(world: World) -> None:
    home, uid = world.home(), world.make()
    world.cluster.objects[SHOP]["metadata"]["finalizers"] = []
    world.look(home)
    assert world.lows(uid) == ()
    assert world.cluster.get(DEPLOYMENT) is None

    world.finalize()
    world.look(home)
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_until_pods_are_ready_its_status_says_so_with_the_reason_of_kubernetes(world: World) -> None:
    home, uid = world.home(), world.make()
    home.round()
    quota = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    world.cluster.objects[DEPLOYMENT]["status"] = {"conditions": [quota]}
    home.round()

    look = f"; see the reason with: kubectl -n shops describe pods -l offsite.dev/backup-uid={uid}"
    assert world.conditions()["DeploymentRollingOut"] == f"0 of 1 agents run: exceeded quota{look}"


def test_pods_of_an_older_template_do_not_count(world: World) -> None:
    home, _ = world.running()
    world.change(agents={"replicas": 1, "template": {"environment": {"TZ": "UTC"}}})
    home.round()
    home.round()

    assert world.conditions()["DeploymentRollingOut"].startswith("0 of 1 agents run")


def test_a_backup_is_paused_and_goes_on(world: World) -> None:
    home, uid = world.running()
    world.change(state="paused")
    world.look(home)
    assert phases(world, uid) == [BackupPhase.PAUSED]
    assert world.status()["reconciled"]

    world.change(state="running")
    world.look(home)
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_another_destination_begins_another_backup_and_both_stay_in_sight(world: World) -> None:
    home, uid = world.running()
    world.change(destination={"account": "elsewhere"})
    world.look(home)
    world.copy(uid, "elsewhere")
    world.look(home)

    assert phases(world, uid) == [BackupPhase.STOPPED]
    assert phases(world, uid, "elsewhere") == [BackupPhase.RUNNING]
    assert [each["phase"] for each in world.status()["backups"]] == ["stopped", "running"]
    assert world.deployment()["spec"]["template"]["spec"]["containers"][0]["command"][4].endswith("elsewhere")
    wait_until(lambda: bool(world.begun()), "a job of the queue")
    assert all(str(world.root / place) in world.begun()[0] for place in ("backups", "elsewhere"))


@pytest.mark.parametrize("lost", ["status", "annotations"])
def test_where_backups_are_is_known_when_either_note_of_it_is_lost(world: World, lost: str) -> None:
    home, uid = world.running()
    world.change(destination={"account": "elsewhere"})
    world.look(home)
    shop = world.cluster.objects[SHOP]
    (shop if lost == "status" else shop["metadata"])[lost] = {}
    world.look(world.home())

    assert [each["phase"] for each in world.status()["backups"]] == ["stopped", "running"]
    assert phases(world, uid, "elsewhere") == [BackupPhase.RUNNING]


def test_without_accounts_nothing_moves_and_the_status_says_why(world: World) -> None:
    home, uid = world.running()
    before = world.status()["backups"]
    (world.root / "accounts.yaml").unlink()
    world.change(state="stopped")
    world.look(home)

    assert "accounts.yaml" in world.conditions()["MisconfiguredBackup"]
    assert world.status()["backups"] == before
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_deleted_it_stops_its_backups_are_deleted_by_a_job_and_then_it_may_go(world: World) -> None:
    home, uid = world.running()
    body = world.body()
    world.delete()
    world.let_go(home, body)

    (job,) = world.begun()
    assert f"expire --uid {uid}" in job
    assert "--delete" in job
    assert phases(world, uid) == [BackupPhase.STOPPED], "the script deletes nothing"
    assert world.left() == []


def test_a_job_that_fails_keeps_the_finalizer_until_another_one_does_it(world: World) -> None:
    home, _ = world.running()
    (world.root / "exit").write_text("14")
    body = world.body()
    world.delete()

    def is_told() -> bool:
        assert not home.let_go(body)
        world.look(home, times=1)
        return "it ended with 14" in world.conditions()["IncorrectBackupState"]

    wait_until(is_told, "a job that fails")
    assert world.cluster.objects[SHOP]["metadata"]["finalizers"] == [FINALIZER]

    (world.root / "exit").unlink()
    world.let_go(home, body)
    assert world.left() == []


def test_an_operator_that_begins_anew_in_the_middle_of_a_deletion_goes_on(world: World) -> None:
    home, _ = world.running()
    body = world.body()
    world.delete()
    (world.root / "hangs").touch()
    for _ in range(3):
        home = world.home()
        assert not home.let_go(body)
        world.look(home, times=1)
    (world.root / "hangs").unlink()
    world.let_go(world.home(), body)
    assert world.home().let_go(body), "it is asked once more"


def test_without_the_finalizer_nothing_is_waited_for_and_backups_stay(world: World) -> None:
    home, uid = world.running(expiry={"deletionFinalizer": False})
    body = world.body()
    assert body["metadata"]["finalizers"] == []
    world.delete()
    home.stop_deleted(body)

    assert phases(world, uid) == [BackupPhase.STOPPED]
    assert world.begun() == []
    assert world.cluster.get(DEPLOYMENT) is None


def test_what_was_deleted_with_its_finalizer_is_not_touched_again(world: World) -> None:
    home, uid = world.running()
    home.stop_deleted(world.body())
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_a_resource_made_anew_adopts_neither_backup_nor_agents(world: World) -> None:
    home, uid = world.running(expiry={"deletionFinalizer": False})
    old = world.body()
    del world.cluster.objects[SHOP]  # its Deployment is still there
    anew = world.make(agents={"replicas": 1})

    def is_begun() -> bool:
        world.look(home, times=1)
        return phases(world, anew) == [BackupPhase.RUNNING]

    wait_until(is_begun, "the next second: the name that the former one has is not taken")
    assert world.deployment()["metadata"]["labels"]["offsite.dev/backup-uid"] == anew
    assert phases(world, uid) == [BackupPhase.RUNNING], "nobody saw that it went"
    assert home.keep(old)
    assert home.let_go(old), "of the former one nothing is left to do"
    home.stop_deleted(old)
    assert phases(world, uid) == [BackupPhase.STOPPED]
    assert world.deployment()["metadata"]["labels"]["offsite.dev/backup-uid"] == anew
    assert [each["backup"] for each in world.status()["backups"]] == [world.lows(anew)[0].beginning.backup]


def test_a_deployment_of_somebody_else_is_left_alone_and_told(world: World) -> None:
    metadata = {"name": "shop", "namespace": "shops", "labels": {"app": "shop"}}
    world.cluster.create(DEPLOYMENT.rpartition("/")[0], {"metadata": metadata, "spec": {"replicas": 7}})
    home, _ = world.home(), world.make()
    home.round()

    assert "does not belong to this backup" in world.conditions()["MisconfiguredBackup"]
    assert world.deployment()["spec"] == {"replicas": 7}


def test_what_somebody_scales_or_deletes_is_put_right(world: World) -> None:
    home, _ = world.running()
    world.cluster.patch(DEPLOYMENT, {"spec": {"replicas": 0}})
    world.look(home)
    assert world.deployment()["spec"]["replicas"] == 1

    del world.cluster.objects[DEPLOYMENT]
    world.look(home)
    assert world.deployment()["spec"]["replicas"] == 1


def test_another_image_of_the_operator_is_rolled_out(world: World) -> None:
    world.running()
    world.cluster.objects[DEPLOYMENT]["metadata"]["annotations"]["offsite.dev/made-of"] = "another"
    world.look(world.home())
    assert world.deployment()["metadata"]["annotations"]["offsite.dev/made-of"] != "another"


@pytest.mark.parametrize("which", range(6))
def test_an_update_that_was_lost_or_not_heard_of_is_made_again(world: World, which: int) -> None:
    home, uid = world.home(), world.make()
    for number in range(8):
        world.cluster.loses = int(number == which)
        world.look(home, times=1)
    world.copy(uid)
    world.look(home)

    assert world.conditions() == {}
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_looks_may_be_repeated(world: World) -> None:
    home, uid = world.home(), world.make()
    for _ in range(3):
        for each in (home, world.home()):
            each.keep(world.body())
    assert phases(world, uid) == [BackupPhase.RUNNING]


def test_a_status_is_written_only_when_it_changed(world: World) -> None:
    home, _ = world.running()
    world.cluster.patched.clear()
    world.look(home, times=6)
    assert world.cluster.patched == []


def test_the_time_of_a_condition_is_that_of_its_begin(world: World) -> None:
    home, _ = world.home(), world.make()
    world.look(home, times=2)
    before = since(world, "IncorrectBackupState")
    world.look(home, times=2)
    assert since(world, "IncorrectBackupState") == before


def since(world: World, kind: str) -> Any:
    return next(each["lastTransitionTime"] for each in world.status()["conditions"] if each["type"] == kind)


def test_an_api_that_does_not_answer_is_waited_for(world: World) -> None:
    home, uid = world.running()
    world.cluster.is_away = True
    for call in (
        home.round,
        lambda: home.keep({"kind": "Backup", "metadata": {"namespace": "shops", "name": "shop", "uid": uid}}),
    ):
        with pytest.raises(KubernetesUnavailable):
            call()
    world.cluster.is_away = False
    world.look(home)
    assert world.conditions() == {}


def test_the_slot_of_a_resource_that_nobody_saw_go_is_given_back(world: World) -> None:
    home = world.home()
    world.make(expiry={"deletionFinalizer": False})
    world.look(home)
    world.make("other")
    world.look(home)
    assert "it waits for the initial copy of other backups" in world.conditions("other")["IncorrectBackupState"]

    del world.cluster.objects[SHOP]
    world.look(home)
    assert "has not completed its first full copy" in world.conditions("other")["IncorrectBackupState"]


def test_operators_that_share_a_state_share_its_slots(world: World) -> None:
    uid = world.make()
    home = world.home(state=str(world.root / "state"))
    world.look(home)
    assert (
        Slots(PosixStore(root=world.root / "state"), limit=1, namespace="shops").availability(uid)
        is SlotAvailability.HELD
    )


def test_only_the_namespaces_that_were_named_are_looked_after(world: World) -> None:
    uid = world.make()
    world.look(world.home(namespaces=("others",)))
    assert world.lows(uid) == ()
