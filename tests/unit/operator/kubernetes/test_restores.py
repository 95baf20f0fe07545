"""Restores that are declared in Kubernetes: done once, whichever pod operates, and stopped before they go."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.operator.core import job_keepers
from offsite.operator.kubernetes.api import ResourceReference
from offsite.operator.kubernetes.home import KubernetesHome, wants_finalizer
from offsite.operator.resources.backup import FINALIZER
from offsite.repository.job import JobLayout
from offsite.repository.job_records import JobRecords
from offsite.repository.lease import ProcessIdentity
from offsite.stores.posix_store import PosixStore
from tests.unit.operator.kubernetes.kubernetes_home import World, opened_world

BACK = ("back", "Restore")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-operator")
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def store(world: World, place: str = "backups") -> PosixStore:
    return PosixStore(root=world.root / place)


def declare(world: World, **spec: object) -> str:
    return world.declare("Restore", "back", backupUrl=f"{world.root}/backups#shop-1", cluster="shop", **spec)


def begun(world: World) -> tuple[KubernetesHome, str]:
    """A home, and the job of the restore that it has begun."""
    declare(world)
    home = world.home()
    world.look(home, times=2)
    (job,) = world.jobs.begun
    return home, job


def process_of_another_pod() -> ProcessIdentity:
    """With the very process id that this one has."""
    return replace(ProcessIdentity.current(), host="pod-1", namespace="pid:[1]")


def test_a_restore_is_begun_with_the_credentials_of_its_account_alone_and_told_as_it_is(world: World) -> None:
    _, job = begun(world)
    arguments, environment = world.jobs.begun[job]

    assert arguments[:3] == ("restore", "run", "--backup=shop-1")
    assert environment["OFFSITE_REPO"] == f"{world.root}/backups"
    assert environment["AWS_ACCESS_KEY_ID"] == "key-of-backups"
    assert "AWS_SESSION_TOKEN" not in environment
    assert environment["OFFSITE_KAFKA_CONFIG"] == str(world.root / "shop.properties")
    status = world.status(*BACK)
    assert (status["phase"], status["job"], status["attempts"], status["reconciled"]) == ("Running", job, 1, False)
    assert "IncorrectRestoreState" in world.conditions(*BACK)


def test_its_limits_reach_its_command_and_one_that_the_command_would_refuse_is_told(world: World) -> None:
    declare(world, repartition=["orders=12"], batchBytes="64kB", writeLimit="1kB")
    home = world.home()
    world.look(home, times=2)
    assert "spec.writeLimit: '1kB' is below the minimum" in world.conditions(*BACK)["MisconfiguredRestore"]
    assert not world.jobs.begun
    world.cluster.patch(ResourceReference.of(world.body(*BACK)).path, {"spec": {"writeLimit": "20MB"}})
    world.look(home, times=2)
    ((arguments, _),) = world.jobs.begun.values()
    assert {"--repartition=orders=12", "--batch-bytes=64kB", "--write-limit=20MB"} < {*arguments}


def test_one_that_completed_is_reconciled_needs_no_finalizer_and_is_never_run_again(world: World) -> None:
    home, job = begun(world)
    world.jobs.ends(store(world), job, world.jobs.works(store(world), job, ProcessIdentity.current()))
    world.look(home)
    assert (world.status(*BACK)["phase"], world.status(*BACK)["reconciled"]) == ("Completed", True)
    assert not wants_finalizer(world.body(*BACK))

    world.cluster.objects[ResourceReference.of(world.body(*BACK)).path]["status"] = {}
    assert wants_finalizer(world.body(*BACK))
    world.look(world.home())
    assert world.status(*BACK)["phase"] == "Completed", "its log tells, where the status was lost"
    assert list(world.jobs.begun) == [job]


def test_one_that_failed_is_looked_at_seldom(world: World) -> None:
    home, job = begun(world)
    claim = world.jobs.works(store(world), job, ProcessIdentity.current())
    world.jobs.ends(store(world), job, claim, exit_code=13)
    world.look(home)
    assert world.status(*BACK)["phase"] == "Failed"
    assert "offsite jobs show" in world.status(*BACK)["failureReason"]

    before = len(world.cluster.patched)
    world.look(home, times=6)
    assert len(world.cluster.patched) == before


def test_nothing_begins_before_the_finalizer_is_there(world: World) -> None:
    declare(world)
    world.cluster.objects[ResourceReference.of(world.body(*BACK)).path]["metadata"]["finalizers"] = []
    home = world.home()
    world.look(home)
    assert world.jobs.begun == {}

    world.finalize(*BACK)
    world.look(home)
    assert len(world.jobs.begun) == 1


def test_a_pod_that_takes_over_begins_nothing_that_another_one_has_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, job = begun(world)
    claim = world.jobs.works(store(world), job, process_of_another_pod())
    monkeypatch.setattr(socket, "gethostname", lambda: "pod-2")
    home = world.home()
    world.look(home)
    assert world.status(*BACK)["phase"] == "Running"
    assert list(world.jobs.begun) == [job], "the same process id in another pod is not taken for a dead one"

    world.jobs.ends(store(world), job, claim)
    world.look(home)
    assert world.status(*BACK)["phase"] == "Completed"
    assert list(world.jobs.begun) == [job]


def test_two_pods_at_once_begin_it_once(world: World) -> None:
    declare(world)
    homes = [world.home(), world.home()]
    for _ in range(3):
        for home in homes:
            home.keep(world.body(*BACK))
    assert len(world.jobs.begun) == 1


def test_deleted_its_job_is_told_to_stop_and_waited_for(world: World) -> None:
    home, job = begun(world)
    claim = world.jobs.works(store(world), job, ProcessIdentity.current())
    body = world.delete(*BACK)
    assert not home.let_go(body)
    assert JobRecords(store=store(world), layout=JobLayout(job=job)).is_cancelled()
    assert world.status(*BACK)["phase"] == "Stopping"
    assert not world.home().let_go(body), "also for the next operator"

    world.jobs.ends(store(world), job, claim, exit_code=130)
    assert home.let_go(body)


def test_the_process_of_a_job_that_is_silent_is_ended_before_another_one_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, job = begun(world)
    world.jobs.works(store(world), job, process_of_another_pod())
    now_ms = PosixStore.now_ms
    monkeypatch.setattr(PosixStore, "now_ms", lambda self: now_ms(self) + 600_000)
    world.look(home)
    assert world.jobs.killed == [job], "it may hang, and would keep its room for ever"


def test_one_that_never_began_goes_at_once_whatever_is_wrong_with_it(world: World) -> None:
    declare(world, account="misspelt")
    home = world.home()
    world.look(home)
    assert "misspelt" in world.conditions(*BACK)["MisconfiguredRestore"]
    assert home.let_go(world.delete(*BACK))
    assert world.jobs.begun == {}


def test_where_it_runs_is_known_though_its_account_cannot_be_told_from_the_spec(world: World) -> None:
    home, job = begun(world)
    claim = world.jobs.works(store(world), job, ProcessIdentity.current())
    accounts = (world.root / "accounts.yaml").read_text()
    (world.root / "accounts.yaml").write_text(accounts.replace("name: backups", "name: renamed"))
    body = world.delete(*BACK)
    assert not home.let_go(body)
    assert "account 'backups' no longer exists" in world.conditions(*BACK)["MisconfiguredRestore"]

    (world.root / "accounts.yaml").write_text(accounts)
    assert not home.let_go(body)
    world.jobs.ends(store(world), job, claim, exit_code=130)
    assert home.let_go(body)


def test_one_whose_finalizer_somebody_took_away_is_stopped_all_the_same(world: World) -> None:
    home, job = begun(world)
    world.jobs.works(store(world), job, ProcessIdentity.current())
    body = world.body(*BACK)
    del world.cluster.objects[ResourceReference.of(body).path]
    home.stop_deleted({**body, "metadata": {**body["metadata"], "finalizers": []}})
    assert JobRecords(store=store(world), layout=JobLayout(job=job)).is_cancelled()


def test_a_cluster_that_the_operator_does_not_know_is_told_with_the_file_to_write(world: World) -> None:
    (world.root / "shop.properties").unlink()
    declare(world)
    home = world.home()
    world.look(home)
    assert str(world.root / "shop.properties") in world.conditions(*BACK)["MisconfiguredRestore"]
    assert world.body(*BACK)["metadata"]["finalizers"] == [FINALIZER]

    (world.root / "shop.properties").write_text("bootstrap.servers=localhost:9092\n")
    world.look(home)
    assert len(world.jobs.begun) == 1


def test_one_of_a_tag_waits_for_the_other(world: World) -> None:
    home, job = begun(world)
    world.declare("Restore", "second", backupUrl=f"{world.root}/elsewhere#shop-1", account="elsewhere", cluster="shop")
    world.look(home)
    assert world.status("second", "Restore")["phase"] == "Waiting"

    world.jobs.ends(store(world), job, world.jobs.works(store(world), job, ProcessIdentity.current()))
    world.look(home)
    assert len(world.jobs.begun) == 2
    assert world.status("second", "Restore")["phase"] == "Running"


def test_one_whose_repository_cannot_be_opened_goes_after_an_hour_and_frees_its_tag(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, job = begun(world)
    accounts = (world.root / "accounts.yaml").read_text()
    (world.root / "accounts.yaml").write_text(accounts.replace("name: backups", "name: renamed"))
    body = world.delete(*BACK)
    assert not home.let_go(body)
    monkeypatch.setattr(job_keepers, "GONE_MS", -(10**15))
    assert home.let_go(body)
    (tag,) = (world.root / "pod" / "state" / "operator" / "restore-tags").iterdir()
    assert '"uid":""' in max(tag.iterdir()).read_text().replace(" ", "")
    assert list(world.jobs.begun) == [job]
