"""A home in Kubernetes for tests: a cluster in memory, folders as repositories, a clock, and a script that plays the
jobs of `offsite`. `kubelet` and `finalize` do what Kubernetes and kopf do beside it."""

from __future__ import annotations

import copy
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from offsite.jobs.workers import SECRET
from offsite.model.errors import TooManyJobs
from offsite.operator.kubernetes.api import Body, ResourceReference, resources_path
from offsite.operator.kubernetes.home import KubernetesHome, wants_finalizer
from offsite.operator.kubernetes.pod import HomeRules
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.world.timeline import Timeline
from offsite.repository.declared.history import LowLevelBackup
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.job import JobEnd, JobLayout
from offsite.repository.job_records import JobRecords
from offsite.repository.lease import LeaseClaim, ProcessIdentity
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import Store
from tests.backups import SELECTION, commit_next
from tests.processes import is_alive, wait_until
from tests.unit.operator.folder.home import QUICK, SCRIPT, HandClock
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster

SHOP = f"{resources_path('Backup', 'shops')}/shop"
DEPLOYMENT = "/apis/apps/v1/namespaces/shops/deployments/shop"
IMAGE = "offsite:1"
SECRETS = "/api/v1/namespaces/shops/secrets"


@dataclass(slots=True)
class PlayedJobs:
    """The port `JobProcesses`: what was begun, by the ids of jobs. Nothing runs: a test plays it. `at_once`: so many
    may run, of those that a test has not ended."""

    begun: dict[str, tuple[Sequence[str], Mapping[str, str]]] = field(default_factory=dict)
    at_once: int = 1000
    ended: set[str] = field(default_factory=set)
    killed: list[str] = field(default_factory=list)

    @contextmanager
    def room(self) -> Iterator[None]:
        if len(self.begun) - len(self.ended) >= self.at_once:
            raise TooManyJobs("so many run")
        yield

    def begin(self, job: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        assert job not in self.begun, "a job is begun once"
        self.begun[job] = (arguments, environment)

    def end(self, job: str) -> None:
        self.killed.append(job)

    def works(self, store: Store, job: str, identity: ProcessIdentity) -> LeaseClaim:
        return JobLayout(job=job).lease(store).claim(identity, job, take_over=False)

    def ends(self, store: Store, job: str, claim: LeaseClaim, *, exit_code: int = 0) -> None:
        records = JobRecords(store=store, layout=JobLayout(job=job))
        records.put_end(
            JobEnd(id=job, at_ms=store.now_ms(), exit_code=exit_code, result="", said=""),
            secret=self.begun[job][1][SECRET],
        )
        records.layout.lease(store).end(claim)
        self.ended.add(job)


@dataclass(slots=True)
class World:
    root: Path
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    clock: HandClock = field(default_factory=HandClock)
    jobs: PlayedJobs = field(default_factory=PlayedJobs)

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
        return KubernetesHome(self.cluster, found, clock=self.clock, processes=self.jobs)

    def make(self, name: str = "shop", **spec: Any) -> str:
        """Declare a backup; its uid."""
        return self.declare("Backup", name, agents={"replicas": 1} | spec.pop("agents", {}), **spec)

    def declare(self, kind: str, name: str, namespace: str = "shops", **spec: Any) -> str:
        metadata = {"name": name, "namespace": namespace}
        document = {"apiVersion": "offsite.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        self.cluster.create(resources_path(kind, namespace), document)
        self.finalize(name, kind, namespace)
        return str(self.body(name, kind, namespace)["metadata"]["uid"])

    def declare_secrets(self, namespace: str) -> None:
        for name in ("account-backups", "account-elsewhere", "cluster-shop", "cluster-fair"):
            metadata = {"name": f"offsite-{name}", "labels": {"offsite.dev/for-agents": "true"}}
            path = f"/api/v1/namespaces/{namespace}/secrets"
            self.cluster.create(path, {"metadata": metadata, "data": {"of": "a secret"}})

    def change(self, **spec: Any) -> None:
        self.cluster.patch(SHOP, {"spec": spec})

    def delete(self, name: str = "shop", kind: str = "Backup", namespace: str = "shops") -> Body:
        """The resource as it was before."""
        body = self.body(name, kind, namespace)
        self.cluster.delete(ResourceReference.of(body).path, uid=body["metadata"]["uid"])
        return body

    def finalize(self, name: str = "shop", kind: str = "Backup", namespace: str = "shops") -> None:
        """As kopf does: the finalizer is there where it is wanted."""
        body = self.body(name, kind, namespace)
        finalizers = [FINALIZER] if wants_finalizer(body) else []
        self.cluster.patch(ResourceReference.of(body).path, {"metadata": {"finalizers": finalizers}})

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

    def body(self, name: str = "shop", kind: str = "Backup", namespace: str = "shops") -> Body:
        found = self.cluster.get(f"{resources_path(kind, namespace)}/{name}")
        assert found is not None
        return found

    def status(self, name: str = "shop", kind: str = "Backup", namespace: str = "shops") -> dict[str, Any]:
        """It fits the schema: Kubernetes would drop what does not."""
        found: dict[str, Any] = self.body(name, kind, namespace).get("status") or {}
        DEFINITIONS[kind].status.model_validate(found)
        return found

    def conditions(self, name: str = "shop", kind: str = "Backup", namespace: str = "shops") -> dict[str, str]:
        return {each["type"]: each["message"] for each in self.status(name, kind, namespace)["conditions"]}

    def deployment(self) -> Body:
        found = self.cluster.get(DEPLOYMENT)
        assert found is not None
        return found

    def lows(self, uid: str, place: str = "backups") -> tuple[LowLevelBackup, ...]:
        store = PosixStore(root=self.root / place)
        return declared_ledger(store, uid).read().backups

    def copy(self, uid: str, place: str = "backups") -> None:
        """As agents do: a commit for the newest low-level backup."""
        repository = Repository.open(PosixStore(root=self.root / place))
        name = self.lows(uid, place)[-1].beginning.backup
        backup = repository.create_backup(name, cluster_id="cluster", selection=SELECTION, declared_by=uid)
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
                self.cluster.patch(ResourceReference.of(body).path, {"metadata": {"finalizers": None}})
                return calls
            home.round()
            self.clock.sleep(2)
            wait_until(lambda: not any(map(is_alive, self.pids())), "the end of jobs")
        raise AssertionError("it is never let go")

    def left(self) -> list[str]:
        """All that there is, but for Secrets: they are other people's."""
        return [path for path in self.cluster.objects if "/secrets/" not in path]

    def begun(self) -> list[str]:
        """What the script was begun with: process id and words."""
        path = self.root / "begun"
        return path.read_text().splitlines() if path.exists() else []

    def pids(self) -> set[int]:
        return {int(line.split()[0]) for line in self.begun()}


def begin_in_the_past(world: World, uid: str) -> None:
    """As if the operator had looked after it for ten minutes."""
    home = PosixStore(root=world.root / "pod" / "state")
    timeline = Timeline(store=home, uid=uid)
    newest = next(timeline.newest_first())
    for key in [each.key for each in home.list(timeline.prefix)]:
        home.delete(key)
    assert timeline.append(replace(newest.decision, time_ms=newest.decision.time_ms - 600_000), None, behind=0)


def write_configuration(root: Path, *, places: Path, **more: Any) -> None:
    """What the operator of a Kubernetes cluster is given: its repositories are below `places`."""
    accounts = [
        {
            "name": name,
            "endpoint": str(places / name),
            "namespaces": ["shops"],
            "environment": {"AWS_ACCESS_KEY_ID": f"key-of-{name}"},
            **copy.deepcopy(more),  # a list that is written twice would be an alias
        }
        for name in ("backups", "elsewhere")
    ]
    (root / "shop.properties").write_text("bootstrap.servers=localhost:9092\n")
    (root / "accounts.yaml").write_text(yaml.safe_dump(accounts))
    (root / "accounts.yaml").chmod(0o600)
    (root / "clusters.yaml").write_text(yaml.safe_dump([{"name": "shop", "namespaces": ["shops", "others"]}]))


@contextmanager
def opened_world(root: Path, monkeypatch: Any) -> Iterator[World]:
    """A world whose processes end with the block."""
    monkeypatch.setenv("FAKE_HOME", str(root))
    (root / "script.py").write_text(SCRIPT)
    for place in ("backups", "elsewhere"):
        Repository.init(PosixStore(root=root / place))
    write_configuration(root, places=root)
    world = World(root=root)
    world.declare_secrets("shops")
    try:
        yield world
    finally:
        for pid in world.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
