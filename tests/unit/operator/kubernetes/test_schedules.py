"""Schedules that are declared in Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.operator.kubernetes.api import ResourceReference
from offsite.operator.kubernetes.home import wants_finalizer
from offsite.repository.lease import ProcessIdentity
from offsite.stores.posix_store import PosixStore
from tests.unit.operator.kubernetes.kubernetes_home import World, begin_in_the_past, opened_world

NIGHTLY = ("nightly", "Schedule")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def test_a_time_that_is_due_is_a_job_once_whichever_operator_looks(world: World) -> None:
    home, uid = world.running()
    its = world.declare("Schedule", "nightly", backup="shop", action="checkpoint", cron="* * * * *")
    world.look(home, times=1)
    status = world.status(*NIGHTLY)
    assert (status["state"], status["runs"], status["reconciled"]) == ("waiting", [], True)
    assert status["nextScheduleTime"]

    begin_in_the_past(world, its)
    world.look(home)
    (job,) = world.jobs.begun
    world.look(world.home(), times=1)
    arguments, environment = world.jobs.begun[job]
    assert arguments == ("checkpoint", "take", f"--backup={world.lows(uid)[0].beginning.backup}", "--wait")
    assert environment["OFFSITE_KAFKA_CONFIG"] == str(world.root / "shop.properties")
    store = PosixStore(root=world.root / "backups")
    world.jobs.ends(store, job, world.jobs.works(store, job, ProcessIdentity.current()))
    world.look(home)
    runs = world.status(*NIGHTLY)["runs"]
    assert (runs[0]["phase"], runs[0]["job"]) == ("succeeded", job)
    assert world.status(*NIGHTLY)["lastScheduleTime"] == runs[0]["time"]


def test_a_run_that_failed_is_a_condition_until_one_succeeds(world: World) -> None:
    home, _ = world.running()
    its = world.declare("Schedule", "nightly", backup="shop", action="checkpoint", cron="* * * * *")
    world.look(home, times=1)
    begin_in_the_past(world, its)
    world.look(home)
    (job,) = world.jobs.begun
    assert (world.status(*NIGHTLY)["state"], world.conditions(*NIGHTLY)) == ("running", {})
    store = PosixStore(root=world.root / "backups")
    world.jobs.ends(store, job, world.jobs.works(store, job, ProcessIdentity.current()), exit_code=13)
    world.look(home)
    assert world.status(*NIGHTLY)["reconciled"] is False
    assert job in world.conditions(*NIGHTLY)["LastRunFailed"]


def test_one_of_no_backup_says_so_until_there_is_one(world: World) -> None:
    world.declare("Schedule", "nightly", backup="other", action="checkpoint", cron="* * * * *")
    home, _ = world.running()
    assert "no backup" in world.conditions(*NIGHTLY)["MisconfiguredSchedule"]

    world.cluster.patch(ResourceReference.of(world.body(*NIGHTLY)).path, {"spec": {"backup": "shop"}})
    world.look(home)
    assert world.conditions(*NIGHTLY) == {}


def test_a_backup_of_the_same_name_in_another_namespace_is_another_one(world: World) -> None:
    home, _ = world.running()
    metadata = {"name": "nightly", "namespace": "others"}
    spec = {"backup": "shop", "action": "checkpoint", "cron": "* * * * *"}
    path = "/apis/offsite.dev/v1alpha1/namespaces/others/schedules"
    world.cluster.create(path, {"kind": "Schedule", "metadata": metadata, "spec": spec})
    world.look(home)
    status = world.cluster.objects[f"{path}/nightly"]["status"]
    assert "no backup" in status["conditions"][0]["message"]


def test_suspended_it_says_so_and_has_no_next_time(world: World) -> None:
    world.declare("Schedule", "nightly", backup="shop", action="checkpoint", cron="* * * * *", suspend=True)
    world.running()
    status = world.status(*NIGHTLY)
    assert status["state"] == "suspended"
    assert "nextScheduleTime" not in status


def test_times_that_are_none_are_told(world: World) -> None:
    world.declare("Schedule", "nightly", backup="shop", action="checkpoint", cron="61 * * * *")
    world.look(world.home())
    assert "61" in world.conditions(*NIGHTLY)["MisconfiguredSchedule"]


def test_it_goes_at_once(world: World) -> None:
    world.declare("Schedule", "nightly", backup="shop", action="checkpoint", cron="* * * * *")
    assert not wants_finalizer(world.body(*NIGHTLY))
    home = world.home()
    world.look(home)
    home.stop_deleted(world.delete(*NIGHTLY))
    world.look(home)
    assert world.left() == []
