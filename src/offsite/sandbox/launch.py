"""One launch of the broker's JVM: from a prepared folder to a broker that serves clients, or to its last words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.class_archive import archive_flags, discard_archives
from offsite.sandbox.jvm import LONG_RUN, QUICK_START, Jvm
from offsite.sandbox.ports import HOST
from offsite.sandbox.probe import has_controller
from offsite.sandbox.process import ProcessId
from offsite.sandbox.settings import PLAINTEXT, Settings, server_properties
from offsite.sandbox.state import State, write_state
from offsite.sandbox.storage import format_storage

START_LIMIT_S = 90.0  # takes 2-4 s on an idle machine; with all cores busy it may take ten times that
KILL_LIMIT_S = 5.0  # a killed process is gone at once; the kernel may need a moment to free its memory
POLL_S = 0.05
LAST_LINES = 12

_PORT_TAKEN = "Address already in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one launch needs. `ports` has one port for each of `settings.listeners()`."""

    folder: Path
    jvm: Jvm
    settings: Settings
    ports: Mapping[str, int]

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    def run(self, clock: Clock) -> State | None:
        """Format if needed, start, wait until it serves. None: a port was taken by someone else meanwhile.

        The state is on disk as soon as there is a process, so that a crash of ours leaves nothing unknown behind.
        Raises SandboxFailed with the log's last lines.
        """
        discard_archives(self.folder)
        config = self._prepare()
        log_start_bytes = self.log.stat().st_size if self.log.exists() else 0
        state = State(ports=self.ports, process=self._spawn(config))
        write_state(self.folder, state)
        if self._wait_until_ready(state, clock):
            return state
        process.stop(state.process, clock=clock, patience_s=KILL_LIMIT_S)
        lines = self._log_lines(log_start_bytes)
        if any(_PORT_TAKEN in line for line in lines):
            return None
        raise SandboxFailed("the sandbox broker did not start:\n" + "\n".join(lines[-LAST_LINES:]))

    def _prepare(self) -> Path:
        config, data = self.folder / "server.properties", self.folder / "data"
        config.write_text(server_properties(self.settings, data=data, ports=self.ports), encoding="utf-8")
        format_storage(data, jvm=self.jvm, config=config, scram_users=self.settings.scram_users())
        return config

    def _spawn(self, config: Path) -> ProcessId:
        """In a session of its own: Ctrl-C and the closing of the terminal are not for the broker."""
        command = self.jvm.command("kafka.Kafka", [str(config)], flags=self._jvm_flags())
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=files, setsid=True)
        return process.identify(pid) or ProcessId(pid=pid, started="and ended at once")

    def _jvm_flags(self) -> tuple[str, ...]:
        return (
            *(LONG_RUN if self.settings.long_run else QUICK_START),
            *archive_flags(self.jvm, self.folder),
            f"-Xmx{self.settings.heap_mib}m",
            f"-XX:ErrorFile={self.folder}/hs_err_%p.log",
            "-Dlog4j2.level=INFO",
        )

    def _wait_until_ready(self, state: State, clock: Clock) -> bool:
        deadline_s = clock.monotonic_s() + START_LIMIT_S
        while state.process.is_running() and clock.monotonic_s() < deadline_s:
            if has_controller(HOST, self.ports[PLAINTEXT]) and state.process.is_running():
                return True
            clock.sleep(POLL_S)
        return False

    def _log_lines(self, start_bytes: int) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(start_bytes)
            return log.read().decode("utf-8", errors="replace").splitlines()
