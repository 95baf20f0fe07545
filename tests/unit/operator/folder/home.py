"""A folder home for tests: a repository, an account, a cluster, a clock, and a script that plays `offsite`."""

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

from offsite.operator.core.files import FolderLayout
from offsite.operator.core.records import ResourceRecord
from offsite.operator.decide.queue import QueueRules
from offsite.operator.folder.operator import FolderOperator, OperatorRules
from offsite.operator.resources.definition import DEFINITIONS
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.ledger import declared_ledger
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.backups import SELECTION, commit_next
from tests.processes import is_alive, processes_with, wait_until

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
home = Path(os.environ["FAKE_HOME"])
role = sys.argv[2]
if (home / "ends").exists():
    print((home / "ends").read_text(), file=sys.stderr)
    sys.exit(3)
with (home / "begun").open("a") as file:
    file.write(f"{os.getpid()} {' '.join(sys.argv[1:])} secret={os.environ.get('AWS_SECRET_ACCESS_KEY')} "
               f"spark={os.environ.get('OFFSITE_SPARK_MASTER')} config={os.environ.get('OFFSITE_KAFKA_CONFIG')}\\n")
if role == "expire":
    while (home / "hangs").exists():
        time.sleep(0.02)
    code = int((home / "exit").read_text()) if (home / "exit").exists() else 0
    print(f"it ended with {code}", flush=True)
    sys.exit(code)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
end = time.monotonic() + 120
while time.monotonic() < end:
    time.sleep(0.05)
"""


@dataclass(slots=True)
class HandClock:
    """Goes on when it is told to, and when somebody sleeps."""

    ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def sleep(self, duration_s: float) -> None:
        self.ms += int(duration_s * 1000)


@dataclass(slots=True)
class Home:
    root: Path
    repository: Repository
    clock: HandClock = field(default_factory=HandClock)

    @property
    def layout(self) -> FolderLayout:
        return FolderLayout(root=self.root)

    def operator(self, **rules: Any) -> FolderOperator:
        """One that takes what it sees for settled, and what is away for gone, unless it is told otherwise."""
        command = (sys.executable, "-S", str(self.root.parent / "script.py"))
        told = {"absent_after_s": 0.0, "settle_s": 0.0, **rules}
        clock = told.pop("clock", self.clock)
        return FolderOperator(self.layout, OperatorRules(command=command, **told), clock=clock)

    def put(self, name: str, *documents: dict[str, Any]) -> Path:
        path = self.root / name
        path.write_text(yaml.safe_dump_all(documents))
        return path

    def status(self, name: str, kind: str = "backup") -> dict[str, Any]:
        """What is told fits the schema of Kubernetes, which would drop what does not."""
        found: dict[str, Any] = yaml.safe_load((self.root / f"{kind}-{name}.status.yaml").read_text())
        DEFINITIONS[kind.capitalize()].status.model_validate(found["status"])
        return found

    def conditions(self, name: str) -> dict[str, str]:
        return {each["type"]: each["message"] for each in self.status(name)["status"]["conditions"]}

    def pass_s(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def record(self, operator: FolderOperator, name: str, kind: str = "Backup") -> ResourceRecord:
        found = operator.records.find(kind, name)
        assert found is not None
        return found

    def lows(self, uid: str) -> tuple[LowLevelBackup, ...]:
        return declared_ledger(self.repository.store, uid).read().backups

    def copy(self, uid: str) -> None:
        """As agents do: a commit for the low-level backup that runs."""
        low = self.lows(uid)[-1]
        assert low.phase is BackupPhase.RUNNING
        backup = self.repository.create_backup(
            low.beginning.backup, cluster_id="cluster", selection=SELECTION, declared_by=uid
        )
        commit_next(backup, backup.state())

    def begun(self) -> list[str]:
        """What the script was begun with: process id and words."""
        path = self.root.parent / "begun"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_begun(self, count: int) -> list[str]:
        wait_until(lambda: len(self.begun()) >= count, f"{count} processes")
        return self.begun()

    def flag(self, name: str, text: str = "") -> Path:
        path = self.root.parent / name
        path.write_text(text)
        return path


def resource(name: str = "shop", kind: str = "Backup", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "offsite.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def restore(name: str = "back", **spec: Any) -> dict[str, Any]:
    return resource(name, "Restore", **{"backupUrl": "file:///backups#shop", "cluster": "shop", **spec})


@contextmanager
def opened_home(tmp_path: Path, monkeypatch: Any) -> Iterator[Home]:
    """A home whose processes end with the block."""
    root = tmp_path / "home"
    (root / "clusters").mkdir(parents=True)
    (root / "clusters" / "shop.properties").write_text("bootstrap.servers=localhost:9092\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setenv("FAKE_HOME", str(tmp_path))
    repository = Repository.init(PosixStore(root=tmp_path / "backups"))
    accounts = [{"name": "main", "endpoint": str(tmp_path / "backups"), "environment": {"AWS_SECRET_ACCESS_KEY": "s3"}}]
    (root / "accounts.yaml").write_text(yaml.safe_dump(accounts))
    (root / "accounts.yaml").chmod(0o600)
    try:
        yield Home(root=root, repository=repository)
    finally:
        end_processes("FAKE_HOME", str(tmp_path))


def end_processes(variable: str, value: str) -> None:
    """Of those that have it in their environment; one that only begins may begin another one."""

    def none_is_left() -> bool:
        living = [pid for pid in processes_with(variable, value) if is_alive(pid) and pid != os.getpid()]
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    wait_until(none_is_left, "the end of all processes")


QUICK = QueueRules(at_once=1, retry_s=60.0, job_max_s=3600.0)
