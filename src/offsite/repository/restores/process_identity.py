"""Which process this is, so that another one on the same machine can tell whether it still lives.

Only what is known counts: a process of another machine, or of another container, is never said to be gone.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_STATE, _START_TIME = 0, 19  # of /proc/<pid>/stat, behind the name in parentheses
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, named so that another one can tell whether it still lives. `boot` and `namespace` are empty where a
    system does not tell them; `started` in ticks since the boot."""

    host: str
    boot: str
    namespace: str
    pid: str
    started: str
    user: str

    @classmethod
    def mine(cls) -> Self:
        return cls.of_process(os.getpid())

    @classmethod
    def of_process(cls, pid: int) -> Self:
        """The process `pid`, of this one's machine, container and user."""
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
        """The identity that `fields` told."""
        return cls(**{name: fields.get(name, "") for name in cls.__dataclass_fields__})

    @property
    def fields(self) -> Mapping[str, str]:
        return asdict(self)

    @property
    def text(self) -> str:
        """The process in words for people."""
        return f"process {self.pid} of {self.user} on {self.host}"

    def is_gone(self, *, seen_from: ProcessIdentity) -> bool:
        """Whether it certainly runs no more; `seen_from` is the process that asks."""
        here = (seen_from.host, seen_from.boot, seen_from.namespace)
        is_number = self.pid.isascii() and self.pid.isdecimal()
        if not (self.boot and is_number) or (self.host, self.boot, self.namespace) != here:
            return False
        stat = _stat(int(self.pid))
        return stat is None or stat[_STATE] in _DEAD or stat[_START_TIME] != self.started


def _stat(pid: int) -> tuple[str, ...] | None:
    """What the system says of a process, None when there is none."""
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
