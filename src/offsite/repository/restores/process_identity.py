"""Identifies a process, so that another process on the same machine can determine whether it is still alive.

Only positive knowledge counts: a process of another machine or container is never reported as gone.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_STATE, _START_TIME = 0, 19  # fields of /proc/<pid>/stat after the name in parentheses
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """The identity of one process. `boot` and `namespace` are empty if the system does not provide them; `started`
    counts clock ticks since the boot."""

    host: str
    boot: str
    namespace: str
    pid: str
    started: str
    user: str

    @classmethod
    def current(cls) -> Self:
        return cls.of_process(os.getpid())

    @classmethod
    def of_process(cls, pid: int) -> Self:
        """The process `pid`, on this machine, in this container, of this user."""
        return cls(
            host=socket.gethostname(),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            namespace=_link("/proc/self/ns/pid"),
            pid=str(pid),
            started=(_stat(pid) or ("",) * (_START_TIME + 1))[_START_TIME],
            user=_user(),
        )

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Self:
        """The identity stored in `fields`."""
        return cls(**{name: fields.get(name, "") for name in cls.__dataclass_fields__})

    @property
    def fields(self) -> Mapping[str, str]:
        return asdict(self)

    @property
    def text(self) -> str:
        """The process in words for people."""
        return f"process {self.pid} of {self.user} on {self.host}"

    def is_gone(self, *, seen_from: ProcessIdentity) -> bool:
        """Whether the process is certainly dead; `seen_from`: the process that asks."""
        here = (seen_from.host, seen_from.boot, seen_from.namespace)
        is_number = self.pid.isascii() and self.pid.isdecimal()
        if not (self.boot and is_number) or (self.host, self.boot, self.namespace) != here:
            return False
        stat = _stat(int(self.pid))
        return stat is None or stat[_STATE] in _DEAD or stat[_START_TIME] != self.started


def _stat(pid: int) -> tuple[str, ...] | None:
    """The system's status fields of a process, None without such a process."""
    return tuple(_read(f"/proc/{pid}/stat").rpartition(")")[2].split()) or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
