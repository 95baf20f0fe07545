"""Where what lies in the folder of an operator.

*.yaml, *.yml                       declared resources, written by people
accounts.yaml                       where backups go, and what opens it
clusters/<name>.properties          how to reach a Kafka cluster
<kind>-<name>.status.yaml           what is of a resource, written by the operator
.offsite/store/                     what operators of this folder agree on: slots of the throttle
.offsite/records/<kind>.<name>.json who a resource is: uid, generation, the last spec that was accepted
.offsite/applied/<kind>.<name>.json what `apply` wrote last, by its digest: a file that holds it is whole
.offsite/agents/<host>/<uid>/       processes that copy: what for, and one file and one log each
.offsite/jobs/<host>/<uid>/         the last expiry job of a backup
.offsite/queue.json                 the expiry queue, to look at
.offsite/home.json                  where this directory was made: a copy of it is told apart
.offsite/lock                       held by whoever changes a record or begins a process
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

STATUS_SUFFIX = ".status.yaml"
ACCOUNTS = "accounts.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLayout:
    """The paths of one folder."""

    root: Path

    @property
    def own(self) -> Path:
        return self.root / ".offsite"

    @property
    def store(self) -> Path:
        return self.own / "store"

    @property
    def records(self) -> Path:
        return self.own / "records"

    @property
    def lock(self) -> Path:
        return self.own / "lock"

    @property
    def home(self) -> Path:
        return self.own / "home.json"

    @property
    def queue(self) -> Path:
        return self.own / "queue.json"

    @property
    def accounts(self) -> Path:
        return self.root / ACCOUNTS

    @property
    def agents(self) -> Path:
        """Of this machine: processes of another one can neither be seen nor signalled."""
        return self.agents_of_all / (socket.gethostname() or "localhost")

    @property
    def agents_of_all(self) -> Path:
        """By the names of machines that share the folder, and of this one as it was called before."""
        return self.own / "agents"

    @property
    def jobs(self) -> Path:
        return self.own / "jobs" / (socket.gethostname() or "localhost")

    def cluster(self, name: str) -> Path:
        return self.root / "clusters" / f"{name}.properties"

    def record(self, kind: str, name: str) -> Path:
        return self.records / f"{kind.lower()}.{name}.json"

    def applied(self, kind: str, name: str) -> Path:
        return self.own / "applied" / f"{kind.lower()}.{name}.json"

    def status(self, kind: str, name: str) -> Path:
        return self.root / f"{kind.lower()}-{name}{STATUS_SUFFIX}"

    def declared(self, kind: str, name: str) -> Path:
        """Where `apply` puts a resource that no file declares yet: never where the status of another one is."""
        suffix = ".yml" if name.endswith(".status") else ".yaml"
        return self.root / f"{kind.lower()}-{name}{suffix}"
