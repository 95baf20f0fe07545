"""A real single-node Kafka (KRaft, combined mode) in a folder of its own, for demos and tests.

Owns everything below its folder: `data/`, `server.properties`, `kafka.log`, `sandbox.json`. Listens on loopback only.
Never ends a process that it did not start.
"""

from __future__ import annotations

import fcntl
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.class_archive import keep_archives
from offsite.sandbox.guard import Guard
from offsite.sandbox.jar_source import sources
from offsite.sandbox.jars import Progress, cache_folder, ensure_jars, silent
from offsite.sandbox.java import find_java
from offsite.sandbox.jvm import Jvm
from offsite.sandbox.launch import Launch
from offsite.sandbox.ports import HOST, are_free, free_ports
from offsite.sandbox.settings import CONTROLLER, PLAINTEXT, Settings
from offsite.sandbox.state import State, read_state

STOP_PATIENCE_S = 15.0  # a clean shutdown takes 0.5 s; then the broker is killed, which its log survives
PORT_ATTEMPTS = 5  # a free port can be lost to someone else between the look and the bind; five in a row is no accident


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """A running sandbox. `listeners` maps each protocol to its host:port; `bootstrap` is the PLAINTEXT one."""

    bootstrap: str
    dir: Path
    pid: int
    listeners: Mapping[str, str]


class Sandbox:
    """The broker of one folder. Any number of objects and processes may hold the same folder."""

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self._folder = folder.absolute()
        self._clock = clock or SystemClock()
        self._guard: Guard | None = None

    def start(
        self,
        *,
        port: int | None = None,
        settings: Settings = Settings(),
        owned: bool = False,
        progress: Progress = silent,
    ) -> SandboxInfo:
        """Start the broker, or find it running; returns once it serves clients. Data of an earlier start is kept.

        Without `port` it takes the folder's earlier port when that is free, else any free one. `owned`: it ends with
        this object and the calling process, whatever ends them; otherwise it lives on until `stop`.
        Raises JavaMissing, DamagedJar, JarsNotFetched, BadOption (the port is taken, or it runs on another one),
        SandboxFailed.
        """
        with self._alone():
            running = self.status()
            if running:
                return _on_port(running, port)
            if port is not None and not are_free([port]):
                raise _port_taken(port)
            java = find_java()
            jvm = Jvm(java=java, jars=ensure_jars(cache_folder(), sources(java), progress))
            if owned and self._guard is None:
                self._guard = Guard(self._folder)
            return self._start_on_free_ports(jvm, settings, port)

    def status(self) -> SandboxInfo | None:
        """The broker if its process runs, else None. Asks the kernel only, never the broker."""
        state = read_state(self._folder)
        return self._info(state) if state and state.process.is_running() else None

    def stop(self) -> bool:
        """End the broker cleanly, by force if it does not listen. True if there was one to end."""
        with self._alone():
            state = read_state(self._folder)
            was_running = state is not None and state.process.is_running()
            if state and was_running and process.stop(state.process, clock=self._clock, patience_s=STOP_PATIENCE_S):
                keep_archives(self._folder, cache_folder())
        if self._guard:
            self._guard.release()
            self._guard = None
        return was_running

    def kill(self) -> None:
        """End the broker as a crash would: no shutdown, no flush. The folder can be started again."""
        state = read_state(self._folder)
        if state:
            state.process.send(signal.SIGKILL)
            process.wait_until_gone(state.process, clock=self._clock, limit_s=STOP_PATIENCE_S)

    def _start_on_free_ports(self, jvm: Jvm, settings: Settings, port: int | None) -> SandboxInfo:
        for _ in range(PORT_ATTEMPTS):
            ports = self._choose_ports(settings, port)
            state = Launch(folder=self._folder, jvm=jvm, settings=settings, ports=ports).run(self._clock)
            if state:
                return self._info(state)
            if port is not None:
                raise _port_taken(port)
        raise SandboxFailed(f"{PORT_ATTEMPTS} times in a row, free ports were taken before the broker had them")

    def _choose_ports(self, settings: Settings, port: int | None) -> Mapping[str, int]:
        names = settings.listeners()
        earlier = read_state(self._folder)
        if earlier and tuple(earlier.ports) == names and are_free(earlier.ports.values()):
            ports = dict(earlier.ports)
        else:
            ports = dict(zip(names, free_ports(len(names)), strict=True))
        return ports if port is None else ports | {PLAINTEXT: port}

    def _info(self, state: State) -> SandboxInfo:
        listeners = {name: f"{HOST}:{port}" for name, port in state.ports.items() if name != CONTROLLER}
        return SandboxInfo(bootstrap=listeners[PLAINTEXT], dir=self._folder, pid=state.process.pid, listeners=listeners)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One start or stop of a folder at a time, over all processes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "sandbox.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _on_port(running: SandboxInfo, port: int | None) -> SandboxInfo:
    if port is not None and running.bootstrap != f"{HOST}:{port}":
        raise BadOption(
            f"the sandbox in {running.dir} runs on {running.bootstrap} already",
            hint=f"stop it first: offsite sandbox stop --dir {running.dir}",
        )
    return running


def _port_taken(port: int) -> BadOption:
    return BadOption(f"port {port} is in use", hint="choose another port, or none for a free one")
