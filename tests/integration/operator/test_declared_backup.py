"""A backup from YAML alone, with real parts: broker, S3, the folder's operator and its agents."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from offsite.model.errors import ResourceNotFound
from offsite.overview.declared import read_declared_status
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.object_store import CloudStore
from tests.integration.e2e.command import OFFSITE, clean_environment, offsite
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store

LIMIT_S = 90.0
LOOKS_EVERY_S = 0.25
"""What is waited for takes steps of a second."""


def until(condition: Callable[[], bool]) -> None:
    wait_until(condition, limit_s=LIMIT_S, every_s=LOOKS_EVERY_S)


@dataclass
class Home:
    """The folder of an operator, with two accounts on S3."""

    folder: Path
    cluster: Cluster
    topic: str
    stores: dict[str, CloudStore]

    def declare(self, **spec: Any) -> None:
        before = self.generation()
        common: dict[str, Any] = {"agents": {"replicas": 2}, "parameters": {"interval": "1s"}}
        self.apply("Backup", topics=[self.topic], expiry={"minimumRestorable": "1s"}, **common, **spec)
        until(lambda: self.generation() > before)

    def apply(self, kind: str, **spec: Any) -> None:
        resource = {"apiVersion": "offsite.dev/v1alpha1", "kind": kind, "metadata": {"name": "shop"}, "spec": spec}
        file = self.folder.parent / f"{kind}.yaml"
        file.write_text(json.dumps(resource))  # JSON is YAML
        done = offsite("operator", "apply", "-f", file, "--dir", self.folder)
        assert done.exit_code == 0, done.stderr

    def generation(self) -> int:
        """Of the spec that the operator has seen and acted on."""
        return int(self.status().get("observedGeneration", 0))

    def status(self, kind: str = "backup") -> dict[str, Any]:
        """What the operator told last, from the file that it tells it in: a command for each look took most of the
        test's time."""
        file = self.folder / f"{kind}-shop.status.yaml"
        try:
            found: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)["status"]
        except FileNotFoundError:
            return {}
        return found

    def described(self, kind: str) -> dict[str, Any]:
        """The same, as people ask for it."""
        done = offsite("operator", "describe", kind, "shop", "--dir", self.folder, "-o", "json")
        assert done.exit_code == 0, done.stderr
        found: dict[str, Any] = done.result["status"]
        return found

    def lows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.status().get("backups", [])
        return found

    def is_reconciled(self) -> bool:
        return bool(self.status().get("reconciled"))

    def await_reconciled(self) -> None:
        until(self.is_reconciled)

    def newest_commit(self, account: str, backup: str) -> int:
        return Repository.open(self.stores[account]).backup(backup).state().seq

    @contextmanager
    def operator(self) -> Iterator[subprocess.Popen[bytes]]:
        words = ["operator", "run", str(self.folder), "--every", "1s", "--expiry-retry", "2s", "--stop-agents"]
        words += ["--settle", "1s", "--absent-after", "5s"]
        process = subprocess.Popen([str(OFFSITE), *words], env=clean_environment(None), start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def home(broker: SandboxInfo, tmp_path: Path) -> Iterator[Home]:
    with declared_home(tmp_path, Cluster(broker.bootstrap), f"bootstrap.servers={broker.bootstrap}\n") as home:
        yield home


@contextmanager
def declared_home(
    parent: Path, cluster: Cluster, properties: str, *, environment: Mapping[str, str] = ENVIRONMENT
) -> Iterator[Home]:
    """`properties`: those by which agents reach the cluster. `environment`: of each account."""
    topic = cluster.make_topic()
    cluster.produce(topic, [b"1", b"2"])
    folder = parent / "declared"
    (folder / "clusters").mkdir(parents=True)
    (folder / "clusters" / "shop.properties").write_text(properties)
    (folder / "clusters" / "shop.properties").chmod(0o600)
    with moto_server() as endpoint:
        stores = {name: new_s3_store(endpoint) for name in ("main", "other")}
        accounts = [
            {
                "name": name,
                "endpoint": f"{store.url}?endpoint={quote(endpoint, safe='')}",
                "environment": dict(environment),
            }
            for name, store in stores.items()
        ]
        (folder / "accounts.yaml").write_text(json.dumps(accounts))
        (folder / "accounts.yaml").chmod(0o600)
        for store in stores.values():
            Repository.init(store)
        yield Home(folder, cluster, topic, stores)


@pytest.mark.timeout(600)
@pytest.mark.soak
def test_a_backup_lives_by_its_declaration_alone(home: Home) -> None:
    with home.operator():
        home.declare()
        home.await_reconciled()
        (first,) = home.described("backup")["backups"]
        assert (first["account"], first["phase"]) == ("main", "running")
        (seen,) = read_declared_status(home.stores["main"]).resources
        assert (seen.name, seen.backups[0].backup, seen.agent != "") == ("shop", first["backup"], True)

        home.declare(state="paused")
        home.await_reconciled()
        stopped_at = home.newest_commit("main", first["backup"])
        home.cluster.produce(home.topic, [b"3"])
        home.declare(state="running")
        home.await_reconciled()
        until(lambda: home.newest_commit("main", first["backup"]) > stopped_at)

        home.apply(
            "Restore",
            backupUrl=f"{first['repository'].partition('?')[0]}#{first['backup']}",
            cluster="shop",
            rename=[f"{home.topic}={home.topic}-back"],
        )
        until(lambda: home.status("restore").get("reconciled") is True)
        restored = home.described("restore")
        assert (restored["phase"], restored["verified"]) == ("Completed", True)
        assert [each.value for each in home.cluster.records(f"{home.topic}-back")] == [b"1", b"2", b"3"]

        home.declare(destination={"account": "other"})
        until(lambda: [each["account"] for each in home.lows()][-1:] == ["other"])
        home.await_reconciled()
        second = home.lows()[-1]

        def is_alone() -> bool:
            home.cluster.produce(home.topic, [b"4"])  # so that its restore points reach back
            return [each["backup"] for each in home.lows()] == [second["backup"]]

        until(is_alone)
        assert [each["backup"] for each in home.described("backup")["backups"]] == [second["backup"]]
        assert not Repository.open(home.stores["main"]).backups(), "the older one was deleted whole"
        assert Repository.open(home.stores["other"]).backups() == (second["backup"],)

        done = offsite("operator", "delete", "backup", "shop", "--dir", home.folder, "--yes")
        assert done.exit_code == 0, done.stderr
        until(lambda: not home.status())
        gone = offsite("operator", "describe", "backup", "shop", "--dir", home.folder, "-o", "json")
        assert gone.error["id"] == ResourceNotFound.id, gone.stderr
        assert not Repository.open(home.stores["other"]).backups()
