"""The paths in the folder of an operator.

*.yaml, *.yml                       declared resources, written by people
accounts.yaml                       destinations of backups, and their secrets
clusters/<name>.properties          connection of a Kafka cluster
<kind>-<name>.status.yaml           status of a resource, written by the operator
.offsite/store/                     state shared by the operators of this folder: slots, tags, decisions of schedules
.offsite/records/<kind>.<name>.json record of a resource: uid, generation, the last accepted spec
.offsite/applied/<kind>.<name>.json digest of the last file that `apply` wrote: a file with this digest is whole
.offsite/agents/<host>/<uid>/       copying processes: their configuration, and one record and one log each
.offsite/jobs/<host>/<uid>/         the last expiry job of a backup
.offsite/queue.json                 the expiry queue, for people
.offsite/home.json                  where this directory was made: identifies a copy
.offsite/lock                       held while a process changes a record or starts a process
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
        """The agents of the local machine: processes of another machine are neither visible nor reachable by
        signals."""
        return self.agents_of_all / (socket.gethostname() or "localhost")

    @property
    def agents_of_all(self) -> Path:
        """By names of the machines that share the folder, and former names of the local machine."""
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
        """The file in which `apply` puts a resource that no file declares yet: never the status file of another
        resource."""
        suffix = ".yml" if name.endswith(".status") else ".yaml"
        return self.root / f"{kind.lower()}-{name}{suffix}"
