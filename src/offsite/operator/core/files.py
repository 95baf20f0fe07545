"""The files of an operator: their paths, replaced atomically, and a lock between the processes that read and write
them.

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

import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import BadResource, DamagedObject, StoreUnavailable, StoreUnreachable
from offsite.model.ids import random_id
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.strict_yaml import TEXT_MAX_BYTES
from offsite.model.untrusted.text import NotUtf8, decode_text
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.plain_files import make_private_root, wrap_errors

STATUS_SUFFIX = ".status.yaml"
ACCOUNTS = "accounts.yaml"
PRIVATE = 0o600
LOCK_MAX_S = 5.0
LOCK_RETRY_S = 0.02


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


def write_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Replace `path` with `data`: readers see the old bytes or the new bytes. Raises the errors of a file store."""
    with wrap_errors("write", str(path)), _fresh(path, data, mode) as fresh:
        fresh.replace(path)


def create_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> bool:
    """Create `path` with `data`; return False if `path` exists, and leave the file unchanged."""
    with wrap_errors("write", str(path)), _fresh(path, data, mode) as fresh:
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
    return True


def write_json(path: Path, fields: Mapping[str, JsonValue]) -> None:
    write_whole(path, encode_object({"format": FORMAT, **fields}))


def read_json(path: Path) -> JsonObject | None:
    """Read a document of `write_json`; None if the file does not exist. Raises `DamagedObject`."""
    data = read_whole(path)
    return None if data is None else parse_json_object(data, source=str(path), damaged=DamagedObject)


def read_whole(path: Path) -> bytes | None:
    with wrap_errors("read", str(path)):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock in a block. The lock ends with the process, in any case. Blocks are short: no block waits.
    Raises `StoreUnreachable` if another process holds the lock for long, because the process was stopped."""
    with wrap_errors("lock", str(path)):
        make_private_root(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        _lock(fd, path)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> None:
    deadline_s = time.monotonic() + LOCK_MAX_S
    while True:
        try:
            with wrap_errors("lock", str(path)):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            if time.monotonic() > deadline_s:
                raise StoreUnreachable(
                    f"another process has held {path} for {LOCK_MAX_S:.0f} s", hint=f"see which process: fuser {path}"
                ) from error
            time.sleep(LOCK_RETRY_S)
        else:
            return


@contextmanager
def _fresh(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Create a durable file with `data` beside `path`; the file is removed after the block."""
    make_private_root(path.parent)
    fresh = path.with_name(f".{path.name}.{random_id()}~")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    finally:
        with suppress(OSError):
            fresh.unlink()


def read_text(path: Path) -> str:
    """Return the text of a file. Raises `BadResource`."""
    try:
        with open(path, "rb", opener=_at_once) as file:  # Path.open has no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadResource(f"{path.name} is not a file")
            data = file.read(TEXT_MAX_BYTES + 1)
    except OSError as error:
        raise BadResource(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > TEXT_MAX_BYTES:
        raise BadResource(f"{path.name} is larger than 256 KiB", hint="put resources into several files")
    try:
        return decode_text(data)
    except NotUtf8 as error:
        raise BadResource(f"{path.name} cannot be read: {error}") from error


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
