"""The operator in a process of its own, under kopf, against a real API server: resources converge, whenever it is
killed. What agents copy is played by the test; jobs are real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import pytest
import yaml

from offsite.jobs.status import JobReport, JobState, read_jobs
from offsite.operator.kubernetes.agents import UID
from offsite.operator.kubernetes.kopf_operator import STATE_PREFIX
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.definition import DEFINITIONS, resource_definition
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.backups import SELECTION, commit_next
from tests.fetched_tools import NoTool
from tests.integration.operator.api_server import DEFINITIONS_PATH, Programs, api_server, fetched_programs
from tests.integration.operator.kubernetes_proxy import Proxy, proxy_of
from tests.integration.operator.test_api_server_soak import MERGE, established, path
from tests.processes import processes_with, wait_until
from tests.unit.operator.resources.documents import document

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]  # the server is compiled once, which takes minutes

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/"


@dataclass(slots=True)
class Cluster:
    """A cluster with our definitions, a repository, and an operator that may be killed and begun again."""

    client: httpx.Client
    proxy: Proxy
    folder: Path
    backups: Path
    process: subprocess.Popen[bytes] | None = None

    def begin(self, *more: str, pod: str = "") -> None:
        """With `pod`, under that name of a host."""
        words = ["operator", "run", "--kubernetes", "--accounts", str(self.folder / "accounts.yaml")]
        words += ["--every", "0.3s", "--expiry-retry", "2s", *more]
        named = f"import socket; socket.gethostname = lambda: {pod!r}; " if pod else ""
        told = {"KUBECONFIG": str(self.proxy.kubeconfig), "XDG_STATE_HOME": str(self.folder / "state")}
        with (self.folder / "operator.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"{named}from offsite.cli.main import main; main()", *words],
                env={**os.environ, **told},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """The operator and all that runs beside it, as when a pod ends."""
        if self.process is not None:
            self.kill()
        for pid in processes_with("XDG_STATE_HOME", str(self.folder / "state")):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def make(self, name: str, **spec: Any) -> str:
        return self.declare("Backup", name, agents={"replicas": 1}, **spec)

    def declare(self, kind: str, name: str, **spec: Any) -> str:
        made = self.client.post(path(kind), json=document(kind, spec, name=name))
        assert made.status_code == 201, made.text
        return str(made.json()["metadata"]["uid"])

    def restore(self, name: str, backup: str, cluster: str) -> str:
        return self.declare("Restore", name, backupUrl=f"{self.backups}#{backup}", cluster=cluster)

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(name, kind).get("status") or {}
        return found

    def jobs(self, kind: str) -> list[JobReport]:
        return [each for each in read_jobs(self.repository.store).jobs if each.kind == kind]

    def change(self, name: str, **spec: Any) -> int:
        """The generation that it has then."""
        changed = self.client.patch(path("Backup", name), json={"spec": spec}, headers=MERGE)
        assert changed.is_success, changed.text
        return int(changed.json()["metadata"]["generation"])

    def get(self, name: str, kind: str = "Backup") -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(path(kind, name)).json()
        return found

    def delete(self, name: str, kind: str = "Backup") -> None:
        assert self.client.delete(path(kind, name)).is_success

    def is_gone(self, name: str, kind: str = "Backup") -> bool:
        return self.client.get(path(kind, name)).status_code == 404

    def is_as_declared(self, name: str, generation: int) -> bool:
        status = self.get(name).get("status", {})
        is_told = status.get("observedGeneration") == generation
        return is_told and status.get("reconciled") is True and status.get("conditions") == []

    def lows(self, uid: str) -> tuple[LowLevelBackup, ...]:
        layout = DeclaredLayout(uid=uid)
        return declared_ledger(self.repository.store, layout.uid).read().backups

    def phases(self, uid: str) -> list[BackupPhase]:
        return [each.phase for each in self.lows(uid)]

    @property
    def repository(self) -> Repository:
        return Repository.open(PosixStore(root=self.backups))

    def copy(self, uid: str) -> None:
        """As agents do."""
        name = self.lows(uid)[-1].beginning.backup
        backup = self.repository.create_backup(name, cluster_id="cluster", selection=SELECTION, declared_by=uid)
        commit_next(backup, backup.state())

    def said(self) -> str:
        log = self.folder / "operator.log"
        return log.read_text()[-3000:] if log.exists() else ""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with opened_cluster(tmp_path, tool_or_skip(), backups=tmp_path / "backups") as found:
        yield found


def tool_or_skip() -> Programs:
    try:
        return fetched_programs()
    except NoTool as error:
        pytest.skip(str(error))


@contextmanager
def opened_cluster(folder: Path, programs: Programs, *, backups: Path, **account: Any) -> Iterator[Cluster]:
    """A cluster whose operator has one account: `account` is more of it."""
    with api_server(folder, programs) as server, proxy_of(server, folder) as proxy:
        for definition in DEFINITIONS.values():
            assert server.client.post(DEFINITIONS_PATH, json=resource_definition(definition)).status_code == 201
        wait_until(lambda: established(server.client), "all definitions are established")
        if not backups.exists():
            Repository.init(PosixStore(root=backups))
        accounts = [{"name": "main", "endpoint": str(backups), "namespaces": ["*"], **account}]
        (folder / "accounts.yaml").write_text(yaml.safe_dump(accounts))
        clusters = [{"name": name, "namespaces": ["default"]} for name in ("shop", "silent")]
        (folder / "clusters.yaml").write_text(yaml.safe_dump(clusters))
        (folder / "shop.properties").write_text("bootstrap.servers=127.0.0.1:1\n")
        found = Cluster(client=server.client, proxy=proxy, folder=folder, backups=backups)
        with said_at_failure(found):
            yield found


@contextmanager
def said_at_failure(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    finally:
        cluster.end()
        sys.stdout.write(cluster.said())  # pytest shows it where the test fails


def test_a_backup_comes_about_and_goes_whenever_the_operator_is_killed(cluster: Cluster) -> None:
    cluster.begin()
    uid = cluster.make("shop")
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins")
    metadata = cluster.get("shop")["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    assert cluster.proxy.deployments.objects[f"{DEPLOYMENT}shop"]["metadata"]["labels"][UID] == uid
    wait_until(lambda: "IncorrectBackupState" in str(cluster.get("shop").get("status")), "it tells what it waits for")
    cluster.copy(uid)
    wait_until(lambda: cluster.is_as_declared("shop", 1), "all is as declared")
    status = cluster.get("shop")["status"]
    assert status["agents"] == {"replicas": 1, "ready": 1}
    assert status["backups"][0]["latestRestorable"]["commit"] == 1
    assert any(name.startswith(STATE_PREFIX) for name in cluster.get("shop")["metadata"]["annotations"])

    cluster.kill()
    generation = cluster.change("shop", state="stopped")
    cluster.begin()
    wait_until(lambda: cluster.is_as_declared("shop", generation), "what changed while nobody looked")
    assert cluster.phases(uid) == [BackupPhase.STOPPED]

    generation = cluster.change("shop", state="running")
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.STOPPED, BackupPhase.RUNNING], "another backup begins")
    cluster.kill()
    cluster.begin()
    cluster.copy(uid)
    wait_until(lambda: cluster.is_as_declared("shop", generation), "it goes on after a kill")

    cluster.delete("shop")
    wait_until(lambda: BackupPhase.RUNNING not in cluster.phases(uid), "what runs is stopped first")
    cluster.kill()
    cluster.begin()
    wait_until(lambda: cluster.is_gone("shop"), "the finalizer is cleared")
    assert cluster.repository.backups() == ()
    assert cluster.proxy.deployments.objects == {}

    anew = cluster.make("shop")
    wait_until(lambda: cluster.phases(anew) == [BackupPhase.RUNNING], "one of the same name is another one")
    assert cluster.proxy.deployments.objects[f"{DEPLOYMENT}shop"]["metadata"]["labels"][UID] == anew


def test_without_its_finalizer_a_backup_goes_at_once_and_its_data_stays(cluster: Cluster) -> None:
    cluster.begin()
    uid = cluster.make("shop", expiry={"deletionFinalizer": False})
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins")
    cluster.copy(uid)
    wait_until(lambda: cluster.is_as_declared("shop", 1), "all is as declared")
    assert "finalizers" not in cluster.get("shop")["metadata"]

    cluster.delete("shop")
    assert cluster.is_gone("shop")
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.STOPPED], "it is told to stop all the same")
    assert len(cluster.repository.backups()) == 1


def test_a_backup_as_large_as_its_definition_takes_comes_and_goes(cluster: Cluster) -> None:
    """An annotation is shorter than that. Where the note of a spec is refused, so is the end of its finalizer."""
    cluster.begin()
    topics = [f"{'a**' * 169}{number}" for number in range(256)]
    uid = cluster.make("shop", topics=topics, exclude=topics)
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins")
    cluster.delete("shop")
    wait_until(lambda: cluster.is_gone("shop"), "the finalizer is cleared")


def test_the_finalizer_comes_and_goes_with_what_is_declared(cluster: Cluster) -> None:
    cluster.begin()
    cluster.make("shop")
    wait_until(lambda: cluster.get("shop")["metadata"].get("finalizers") == [FINALIZER], "the finalizer comes")
    cluster.change("shop", expiry={"deletionFinalizer": False})
    wait_until(lambda: "finalizers" not in cluster.get("shop")["metadata"], "the finalizer goes")


def test_a_restore_is_done_once_though_its_status_is_lost_and_the_operator_killed(cluster: Cluster) -> None:
    cluster.begin()
    cluster.restore("back", "none", "shop")
    wait_until(lambda: cluster.status("Restore", "back").get("phase") == "Failed", "its command fails", limit_s=120)
    told = cluster.status("Restore", "back")
    assert told["failureReason"].startswith("OFF-")
    assert (told["attempts"], told["reconciled"]) == (1, False)
    wait_until(lambda: "finalizers" not in cluster.get("back", "Restore")["metadata"], "the finalizer goes")

    cluster.kill()
    assert cluster.client.patch(path("Restore", "back") + "/status", json={"status": None}, headers=MERGE).is_success
    cluster.begin()
    wait_until(lambda: cluster.status("Restore", "back") == told | {"conditions": ANY}, "its log tells what was lost")
    assert len(cluster.jobs("restore")) == 1
    cluster.delete("back", "Restore")
    wait_until(lambda: cluster.is_gone("back", "Restore"), "nothing is left to do")


def test_a_restore_goes_on_in_another_pod_and_is_stopped_before_it_goes(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a broker that never answers
        (cluster.folder / "silent.properties").write_text(f"bootstrap.servers=127.0.0.1:{silent.getsockname()[1]}\n")
        backup = cluster.repository.create_backup("shop-1", cluster_id="cluster", selection=SELECTION)
        commit_next(backup, backup.state())
        cluster.begin(pod="pod-1")
        cluster.restore("back", "shop-1", "silent")
        wait_until(
            lambda: [each.state for each in cluster.jobs("restore")] == [JobState.RUNNING], "it runs", limit_s=60
        )
        assert cluster.get("back", "Restore")["metadata"]["finalizers"] == [FINALIZER]

        cluster.end()
        cluster.begin(pod="pod-2")
        wait_until(lambda: cluster.status("Restore", "back").get("attempts") == 2, "it goes on", limit_s=240)
        wait_until(lambda: cluster.jobs("restore")[0].state is JobState.RUNNING, "the second job runs", limit_s=60)
        assert [each.state for each in cluster.jobs("restore")] == [JobState.RUNNING, JobState.LOST]

        cluster.delete("back", "Restore")
        assert not cluster.is_gone("back", "Restore"), "it is stopped first"
        wait_until(lambda: cluster.is_gone("back", "Restore"), "it is stopped", limit_s=120)
        assert cluster.jobs("restore")[0].state is JobState.CANCELLED
        assert len(cluster.jobs("restore")) == 2


def test_a_schedule_fires_each_time_once_whenever_the_operator_is_killed(cluster: Cluster) -> None:
    cluster.begin()
    uid = cluster.make("shop")
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins")
    cluster.copy(uid)
    cluster.declare("Schedule", "often", backup="shop", action="checkpoint", cron="* * * * *")
    wait_until(lambda: cluster.status("Schedule", "often").get("state") == "waiting", "it is looked after")
    assert cluster.status("Schedule", "often")["nextScheduleTime"]
    wait_until(lambda: cluster.jobs("checkpoint") != [], "its time comes", limit_s=90)
    cluster.kill()
    cluster.begin()
    wait_until(lambda: len(cluster.status("Schedule", "often")["runs"]) > 1, "the next time comes", limit_s=120)
    runs = cluster.status("Schedule", "often")["runs"]
    assert len({each["time"] for each in runs}) == len(runs)
    assert len(cluster.jobs("checkpoint")) == len({each["job"] for each in runs if "job" in each})

    cluster.delete("often", "Schedule")
    assert cluster.is_gone("often", "Schedule")


def test_only_the_namespaces_that_were_named_are_looked_after(cluster: Cluster) -> None:
    cluster.begin("--namespace", "default")
    others = path("Backup").replace("/default/", "/others/")
    assert cluster.client.post(others, json=document("Backup", {}, name="theirs")).status_code == 201
    uid = cluster.make("shop")
    wait_until(lambda: cluster.phases(uid) == [BackupPhase.RUNNING], "the backup begins")
    cluster.copy(uid)
    wait_until(lambda: cluster.is_as_declared("shop", 1), "all is as declared")
    theirs = cluster.client.get(f"{others}/theirs").json()
    assert "status" not in theirs
    assert "finalizers" not in theirs["metadata"]
