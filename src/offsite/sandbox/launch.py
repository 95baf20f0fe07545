"""One launch of a node's JVM: from a prepared folder to a node that serves clients, or to its last words."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.class_archive import archive_flags, discard_archives
from offsite.sandbox.java import LONG_RUN, QUICK_START, Jvm
from offsite.sandbox.layout import Node, Role, zookeeper_lines
from offsite.sandbox.ports import HOST
from offsite.sandbox.probe import has_controller
from offsite.sandbox.process import ProcessId
from offsite.sandbox.settings import PLAINTEXT, Settings, server_properties
from offsite.sandbox.state import State, write_state
from offsite.sandbox.storage import Identity, format_storage
from offsite.sandbox.versions import known_version

ALONE_HEAP_MIB, NODE_HEAP_MIB = 512, 256
LAST_LINES = 12

_BROKER_MAIN, _ZOOKEEPER_MAIN = "kafka.Kafka", "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PORT_TAKEN = "Address already in use"
_SESSION_OF_A_DEAD_BROKER = "KeeperErrorCode = NodeExists"  # ZooKeeper forgets a killed broker after its session only
_LOG4J_1 = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(slots=True, kw_only=True)
class Launched:
    """A node's process as it was started last, and where in its log that was."""

    node: Node
    state: State
    log_start_bytes: int

    def is_running(self) -> bool:
        return self.state.process.is_running()

    def serves(self, brokers: Collection[int]) -> bool:
        """It answers and knows these brokers; one that serves no clients is never asked."""
        if not self.node.serves_clients:
            return True
        return has_controller(HOST, self.node.ports[PLAINTEXT], brokers=brokers) and self.is_running()

    @property
    def lost_its_port(self) -> bool:
        """Someone else had taken it meanwhile."""
        return any(_PORT_TAKEN in line for line in self._log_lines())

    @property
    def came_too_early(self) -> bool:
        """It is not over that this broker was killed: another launch a little later will do."""
        return any(_SESSION_OF_A_DEAD_BROKER in line for line in self._log_lines())

    def failure(self) -> SandboxFailed:
        lines = self._log_lines()
        return SandboxFailed(f"the sandbox's {self.node.name} did not start:\n" + "\n".join(lines[-LAST_LINES:]))

    def _log_lines(self) -> list[str]:
        with _log(self.node.folder).open("rb") as log:
            log.seek(self.log_start_bytes)
            return log.read().decode("utf-8", errors="replace").splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What the first launch of a node needs. `place`: its own lines of server.properties."""

    node: Node
    jvm: Jvm
    settings: Settings
    place: Mapping[str, str]
    cluster_id: str

    def begin(self) -> Launched:
        """Write its settings, format if needed, start. Raises `SandboxFailed`."""
        self.node.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        discard_archives(self.node.folder)
        return begin_again(self.node, self._command(self._prepare()))

    def _prepare(self) -> Path:
        data = self.node.folder / "data"
        if self.node.role is Role.ZOOKEEPER:
            return self._written("zookeeper.properties", zookeeper_lines(self.node))
        lines = server_properties(self.settings, data=data, ports=self.node.ports, place=self.place)
        config = self._written("server.properties", lines)
        if not known_version(self.jvm.version).needs_zookeeper:
            identity = Identity(
                cluster_id=self.cluster_id, node_id=self.node.node_id, scram_users=self.settings.scram_users()
            )
            format_storage(data, identity, jvm=self.jvm, config=config)
        return config

    def _written(self, name: str, text: str) -> Path:
        path = self.node.folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)  # users' passwords are among it
        path.write_text(text, encoding="utf-8")
        return path

    def _command(self, config: Path) -> tuple[str, ...]:
        main = _ZOOKEEPER_MAIN if self.node.role is Role.ZOOKEEPER else _BROKER_MAIN
        return tuple(self.jvm.command(main, [str(config)], flags=self._jvm_flags()))

    def _jvm_flags(self) -> tuple[str, ...]:
        return (
            *(LONG_RUN if self.settings.long_run else QUICK_START),
            *archive_flags(self.jvm, self.node.folder, leave=self.node.node_id == 1),
            f"-Xmx{self._heap_mib()}m",
            f"-XX:ErrorFile={self.node.folder}/hs_err_%p.log",
            *known_version(self.jvm.version).jvm_flags,
            *self._log_flags(),
        )

    def _heap_mib(self) -> int:
        if self.node.role is Role.ALONE:
            return self.settings.heap_mib or ALONE_HEAP_MIB
        return (self.node.serves_clients and self.settings.heap_mib) or NODE_HEAP_MIB

    def _log_flags(self) -> tuple[str, ...]:
        if not known_version(self.jvm.version).logs_through_log4j_1:
            return ("-Dlog4j2.level=INFO",)
        return (f"-Dlog4j.configuration=file:{self._written('log4j.properties', _LOG4J_1)}",)


def begin_again(node: Node, command: tuple[str, ...]) -> Launched:
    """Start a prepared node. The state is on disk as soon as there is a process: a crash of ours leaves nothing
    unknown behind."""
    log = _log(node.folder)
    log_start_bytes = log.stat().st_size if log.exists() else 0
    state = State(ports=node.ports, process=_spawn(command, log), command=command)
    write_state(node.folder, state)
    return Launched(node=node, state=state, log_start_bytes=log_start_bytes)


def _spawn(command: tuple[str, ...], log: Path) -> ProcessId:
    """In a session of its own: Ctrl-C and the closing of the terminal are not for the broker."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=files, setsid=True)
    return process.identify(pid) or ProcessId(pid=pid, started="and ended at once")


def _log(folder: Path) -> Path:
    return folder / "kafka.log"
