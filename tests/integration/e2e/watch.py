"""Who looks all the time at the processes and the files of a run, for what must not be seen there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK, OWN = "OFFSITE_SECRETS_TEST", "OFFSITE_SECRETS_COMMAND"
"""Variables of the environment: of every process of a run, and of those that may know the keys of the store."""
LARGEST_FILE = 64 << 20
LOOKS_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class _Process:
    """`inode`: of its folder below /proc. A process that gets an old number has another one."""

    path: str
    inode: int


@dataclass(slots=True, kw_only=True)
class Watch:
    """What was seen where it must not be, by somebody who looks all the time. `secrets`: name to what is looked for;
    `inherited` are the names of those that the command's own children may have in their environment; `given`: the
    names of those that one program may have there, and the name of the program."""

    secrets: Mapping[str, str | bytes]
    inherited: frozenset[str]
    folders: tuple[Path, ...]
    mark: str
    given: Mapping[str, str] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)
    seen_inherited: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    strangers: frozenset[_Process] = frozenset()

    def look(self) -> None:
        for folder in self._processes() - self.strangers:
            with suppress(OSError):  # ended meanwhile, or another user's
                self._look_at_process(Path(folder.path))
        for each in self.folders:
            for parent, _, names in os.walk(each):  # which minds no folder that vanishes
                for name in names:
                    self._look_at_file(Path(parent, name))

    def look_at(self, what: str, data: bytes, *, allowed: frozenset[str] = frozenset()) -> None:
        for name, secret in self.secrets.items():
            if (secret.encode() if isinstance(secret, str) else secret) not in data:
                continue
            if name in allowed:
                self.seen_inherited.add(name)
            else:
                self.found.add(f"{name} in {what}")

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Processes that were there before and are not of this run stay out: on a busy machine they are the most."""
        self.strangers = frozenset(each for each in self._processes() if not self._is_marked(Path(each.path)))
        done = threading.Event()

        def look_on() -> None:
            while not done.wait(LOOKS_EVERY_S):
                self.look()

        watcher = threading.Thread(target=look_on, name="watcher")
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            self.look()

    @staticmethod
    def _processes() -> frozenset[_Process]:
        with os.scandir("/proc") as entries:
            return frozenset(_Process(each.path, each.inode()) for each in entries if each.name.isdigit())

    def _is_marked(self, folder: Path) -> bool:
        try:
            return self._mark in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            return True  # it is looked at again

    @property
    def _mark(self) -> bytes:
        return f"{MARK}={self.mark}".encode()

    def _look_at_process(self, folder: Path) -> None:
        command = (folder / "cmdline").read_bytes()
        environment = (folder / "environ").read_bytes()
        if self._mark not in environment.split(b"\0"):
            return
        name = Path(command.split(b"\0")[0].decode()).name
        self.commands.add(name)
        self.look_at(f"the command line of {name}", command)
        is_own = f"{OWN}={self.mark}".encode() in environment.split(b"\0")
        allowed = frozenset(secret for secret, program in self.given.items() if program == name)
        allowed |= self.inherited if is_own else frozenset()
        self.look_at(f"the environment of {name}", environment, allowed=allowed)

    def _look_at_file(self, path: Path) -> None:
        try:
            if path.is_file() and path.stat().st_size <= LARGEST_FILE:
                self.files.add(path.name)
                self.look_at(f"the file {path}", path.read_bytes())
        except OSError:
            return  # removed meanwhile
