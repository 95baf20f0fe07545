"""A home in Kubernetes for tests: a cluster in memory, folders as repositories, a clock, and a script that plays the
jobs of `offsite`. `kubelet` and `finalize` do what Kubernetes and kopf do beside it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from offsite.operator.kubernetes.cluster import Body, Named
from offsite.operator.kubernetes.home import HomeRules, KubernetesHome, wants_finalizer
from offsite.operator.resources.backup import FINALIZER
from offsite.repository.declared.history import LowLevel
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.backups import SELECTION, commit_next
from tests.processes import is_alive, wait_until
from tests.unit.operator.folder.home import QUICK, SCRIPT, HandClock
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster

BACKUPS = "/apis/offsite.dev/v1alpha1/namespaces/shops/backups"
SHOP = f"{BACKUPS}/shop"
DEPLOYMENT = "/apis/apps/v1/namespaces/shops/deployments/shop"
IMAGE = "offsite:1"


@dataclass(slots=True)
class World:
    root: Path
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    clock: HandClock = field(default_factory=HandClock)

    def home(self, **rules: Any) -> KubernetesHome:
        """As an operator that begins anew has it."""
        found = HomeRules(
            accounts=self.root / "accounts.yaml",
            folder=self.root / "pod",
            image=IMAGE,
            queue=QUICK,
            command=(sys.executable, "-S", str(self.root / "script.py")),
            **rules,
        )
        return KubernetesHome(self.cluster, found, clock=self.clock)

    def make(self, name: str = "shop", **spec: Any) -> str:
        """Declare a backup; its uid."""
        body = {"apiVersion": "offsite.dev/v1alpha1", "kind": "Backup", "spec": {"agents": {"replicas": 1}, **spec}}
        self.cluster.create(BACKUPS, body | {"metadata": {"name": name, "namespace": "shops"}})
        self.finalize(name)
        return str(self.body(name)["metadata"]["uid"])

    def change(self, **spec: Any) -> None:
        self.cluster.patch(SHOP, {"spec": spec})

    def delete(self) -> None:
        self.cluster.delete(SHOP, uid=self.body()["metadata"]["uid"])

    def finalize(self, name: str = "shop") -> None:
        """As kopf does: the finalizer is there where it is wanted."""
        body = self.body(name)
        self.cluster.patch(
            f"{BACKUPS}/{name}", {"metadata": {"finalizers": [FINALIZER] if wants_finalizer(body) else []}}
        )

    def kubelet(self) -> None:
        """Let as many pods be ready as are asked for."""
        for path, found in self.cluster.objects.items():
            if "/deployments/" in path:
                ready = found["spec"]["replicas"]
                seen = {"observedGeneration": found["metadata"]["generation"]}
                found["status"] = {**seen, "readyReplicas": ready, "updatedReplicas": ready, "replicas": ready}

    def look(self, home: KubernetesHome, times: int = 4) -> None:
        for _ in range(times):
            home.round()
            self.kubelet()
            self.clock.sleep(11)

    def body(self, name: str = "shop") -> Body:
        found = self.cluster.get(f"{BACKUPS}/{name}")
        assert found is not None
        return found

    def status(self, name: str = "shop") -> dict[str, Any]:
        found: dict[str, Any] = self.body(name).get("status") or {}
        return found

    def conditions(self, name: str = "shop") -> dict[str, str]:
        return {each["type"]: each["message"] for each in self.status(name)["conditions"]}

    def deployment(self) -> Body:
        found = self.cluster.get(DEPLOYMENT)
        assert found is not None
        return found

    def lows(self, uid: str, place: str = "backups") -> tuple[LowLevel, ...]:
        store = PosixStore(root=self.root / place)
        return DeclaredLedger(store=store, layout=DeclaredLayout(uid=uid)).read().backups

    def copy(self, uid: str, place: str = "backups") -> None:
        """As agents do: a commit for the newest low-level backup."""
        repository = Repository.open(PosixStore(root=self.root / place))
        name = self.lows(uid, place)[-1].beginning.backup
        backup = repository.create_backup(name, cluster_id="cluster", selection=SELECTION)
        commit_next(backup, backup.state())

    def running(self, **spec: Any) -> tuple[KubernetesHome, str]:
        """A backup that is as declared, and its uid."""
        home, uid = self.home(), self.make(**spec)
        self.look(home)
        self.copy(uid)
        self.look(home, times=3)
        assert self.conditions() == {}
        return home, uid

    def let_go(self, home: KubernetesHome, body: Body) -> int:
        """Call as kopf does until the finalizer may be cleared, and clear it; how many calls it took."""
        for calls in range(1, 500):
            if home.let_go(body):
                self.cluster.patch(Named.of(body).path, {"metadata": {"finalizers": None}})
                return calls
            home.round()
            self.clock.sleep(2)
            wait_until(lambda: not any(map(is_alive, self.pids())), "the end of jobs")
        raise AssertionError("it is never let go")

    def begun(self) -> list[str]:
        """What the script was begun with: process id and words."""
        path = self.root / "begun"
        return path.read_text().splitlines() if path.exists() else []

    def pids(self) -> set[int]:
        return {int(line.split()[0]) for line in self.begun()}


@contextmanager
def opened_world(root: Path, monkeypatch: Any) -> Iterator[World]:
    """A world whose processes end with the block."""
    monkeypatch.setenv("FAKE_HOME", str(root))
    (root / "script.py").write_text(SCRIPT)
    for place in ("backups", "elsewhere"):
        Repository.init(PosixStore(root=root / place))
    accounts = [{"name": name, "endpoint": str(root / name)} for name in ("backups", "elsewhere")]
    (root / "accounts.yaml").write_text(yaml.safe_dump(accounts))
    (root / "accounts.yaml").chmod(0o600)
    world = World(root=root)
    try:
        yield world
    finally:
        for pid in world.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
