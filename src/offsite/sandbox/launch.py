"""Launch nodes: from a prepared folder to a JVM that serves clients, or to the JVM's last log lines.

Readiness is asked over the broker's own protocol, by hand, because the sandbox imports nothing of `kafka`. Source:
Kafka protocol guide, Metadata (key 3) version 1.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.java import LONG_RUN, QUICK_START, Jvm, archive_flags, discard_archives
from offsite.sandbox.layout import Identity, Node, NodeRole, format_storage, zookeeper_lines
from offsite.sandbox.process import NodeState, ProcessId, write_state
from offsite.sandbox.settings import HOST, PLAINTEXT, SandboxSettings, server_properties
from offsite.sandbox.versions import find_version

_METADATA_OF_NO_TOPIC = struct.pack(">hhi", 3, 1, 7) + struct.pack(">h", -1) + struct.pack(">i", 0)
ANSWER_LIMIT_S = 2.0  # a slower broker is still starting: ask again
LARGEST_ANSWER_BYTES = 65_536  # one broker and no topic need about 60
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
START_LIMIT_S = 90.0  # takes 2-4 s on an idle machine; with all cores busy it may take ten times that
KILL_LIMIT_S = 5.0  # a killed process is gone at once; the kernel may need a moment to free its memory
POLL_S = 0.05
TOO_EARLY_S = 1.0  # between two launches of a broker that the cluster has not given up yet


def has_controller(host: str, port: int, *, brokers: Collection[int] = ()) -> bool:
    """Whether the broker answers, knows `brokers` (node ids) as live, or any, and has a controller."""
    try:
        with socket.create_connection((host, port), timeout=ANSWER_LIMIT_S) as connection:
            connection.sendall(struct.pack(">i", len(_METADATA_OF_NO_TOPIC)) + _METADATA_OF_NO_TOPIC)
            (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 < size_bytes <= LARGEST_ANSWER_BYTES:
                return False
            return _names_a_controller(_receive(connection, size_bytes), set(brokers))
    except OSError:
        return False


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        piece = connection.recv(size_bytes - len(received))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        received += piece
    return bytes(received)


def _names_a_controller(answer: bytes, expected: set[int]) -> bool:
    """Correlation id, brokers (id, host, port, rack), controller id."""
    (count,) = struct.unpack_from(">i", answer, 4)
    position, node_ids = 8, set[int]()
    for _ in range(count):
        node_ids.add(struct.unpack_from(">i", answer, position)[0])
        position = _after_string(answer, position + 4) + 4
        position = _after_string(answer, position)
    controller_id: int = struct.unpack_from(">i", answer, position)[0]
    return bool(node_ids) and expected <= node_ids and controller_id >= 0


def _after_string(answer: bytes, position: int) -> int:
    length: int = struct.unpack_from(">h", answer, position)[0]
    return position + 2 + max(length, 0)  # a null string has length -1


@dataclass(slots=True, kw_only=True)
class LaunchedNode:
    """A node's process as last started, with the start of its part of the log."""

    node: Node
    state: NodeState
    log_start_bytes: int

    def is_running(self) -> bool:
        return self.state.process.is_running()

    def serves(self, brokers: Collection[int]) -> bool:
        """Whether the node answers and knows `brokers`. A node without clients is never asked."""
        if not self.node.serves_clients:
            return True
        return has_controller(HOST, self.node.ports[PLAINTEXT], brokers=brokers) and self.is_running()

    @property
    def lost_its_port(self) -> bool:
        """Whether another process had taken the port meanwhile."""
        return any(_PORT_TAKEN in line for line in self._log_lines())

    @property
    def came_too_early(self) -> bool:
        """Whether the cluster still remembers the killed broker: another launch a little later will do."""
        return any(_SESSION_OF_A_DEAD_BROKER in line for line in self._log_lines())

    def failure(self) -> SandboxFailed:
        lines = self._log_lines()
        return SandboxFailed(f"the sandbox's {self.node.name} did not start:\n" + "\n".join(lines[-LAST_LINES:]))

    def _log_lines(self) -> list[str]:
        with _log(self.node.folder).open("rb") as log:
            log.seek(self.log_start_bytes)
            return log.read().decode("utf-8", errors="replace").splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLaunch:
    """Everything needed for the first launch of a node. `place`: the node's own lines of server.properties."""

    node: Node
    jvm: Jvm
    settings: SandboxSettings
    place: Mapping[str, str]
    cluster_id: str

    def begin(self) -> LaunchedNode:
        """Write the settings, format if needed, start. Raises `SandboxFailed`, and `BadOption` for a folder from which
        nothing can be loaded."""
        self.node.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.statvfs(self.node.folder).f_flag & getattr(os, "ST_NOEXEC", 0):  # not told on macOS
            raise BadOption(
                f"{self.node.folder} is mounted with noexec: the broker could not load its compression codecs there",
                hint="choose another folder with --dir, or, for a temporary folder, with TMPDIR",
            )
        discard_archives(self.node.folder)
        return begin_again(self.node, self._command(self._prepare()))

    def _prepare(self) -> Path:
        data = self.node.folder / "data"
        if self.node.role is NodeRole.ZOOKEEPER:
            return self._written("zookeeper.properties", zookeeper_lines(self.node))
        lines = server_properties(self.settings, data=data, ports=self.node.ports, place=self.place)
        config = self._written("server.properties", lines)
        if not find_version(self.jvm.version).needs_zookeeper:
            identity = Identity(
                cluster_id=self.cluster_id,
                node_id=self.node.node_id,
                is_controller=self.node.role is not NodeRole.BROKER,
                scram_users=self.settings.scram_users(),
            )
            format_storage(data, identity, jvm=self.jvm, config=config)
        return config

    def _written(self, name: str, text: str) -> Path:
        path = self.node.folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)  # holds users' passwords
        path.write_text(text, encoding="utf-8")
        return path

    def _command(self, config: Path) -> tuple[str, ...]:
        main = _ZOOKEEPER_MAIN if self.node.role is NodeRole.ZOOKEEPER else _BROKER_MAIN
        return tuple(self.jvm.command(main, [str(config)], flags=self._jvm_flags()))

    def _jvm_flags(self) -> tuple[str, ...]:
        return (
            *(LONG_RUN if self.settings.long_run else QUICK_START),
            *archive_flags(self.jvm, self.node.folder, leave=self.node.node_id == 1),
            f"-Xmx{self._heap_mib()}m",
            f"-XX:ErrorFile={self.node.folder}/hs_err_%p.log",
            f"-Djava.io.tmpdir={self.node.folder}",  # libraries are unpacked and loaded there
            *find_version(self.jvm.version).jvm_flags,
            *self._log_flags(),
        )

    def _heap_mib(self) -> int:
        if self.node.role is NodeRole.ALONE:
            return self.settings.heap_mib or ALONE_HEAP_MIB
        return (self.node.serves_clients and self.settings.heap_mib) or NODE_HEAP_MIB

    def _log_flags(self) -> tuple[str, ...]:
        if not find_version(self.jvm.version).logs_through_log4j_1:
            return ("-Dlog4j2.level=INFO",)
        return (f"-Dlog4j.configuration=file:{self._written('log4j.properties', _LOG4J_1)}",)


def begin_again(node: Node, command: tuple[str, ...]) -> LaunchedNode:
    """Start a prepared node. The state is on disk as soon as the process exists: a crash of the starter leaves no
    unknown process behind."""
    log = _log(node.folder)
    log_start_bytes = log.stat().st_size if log.exists() else 0
    state = NodeState(ports=node.ports, process=_spawn(command, log), command=command)
    write_state(node.folder, state)
    return LaunchedNode(node=node, state=state, log_start_bytes=log_start_bytes)


def _spawn(command: tuple[str, ...], log: Path) -> ProcessId:
    """Start a process in a session of its own: Ctrl-C and the closing of the terminal do not concern the broker."""
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


def await_all(launched: Sequence[LaunchedNode], *, clock: Clock, brokers: Sequence[int]) -> bool:
    """Wait for several launches at once: all serve, or none is left.

    Returns True when every node serves and knows all of `brokers`. False: a node lost its port, and all are stopped.

    Raises `SandboxFailed` with the last log lines of the failed node; all nodes are stopped in this case too.
    """
    ready = False
    try:
        failed = _first_failure(launched, clock, brokers)
        ready = failed is None
    finally:
        if not ready:
            stop_all(launched, clock)
    if failed is not None and not failed.lost_its_port:
        raise failed.failure()
    return ready


def stop_all(launched: Sequence[LaunchedNode], clock: Clock) -> None:
    for node in launched:
        process.stop(node.state.process, clock=clock, patience_s=KILL_LIMIT_S)


def _first_failure(launched: Sequence[LaunchedNode], clock: Clock, brokers: Sequence[int]) -> LaunchedNode | None:
    deadline_s = clock.monotonic_s() + START_LIMIT_S
    waiting = list(launched)
    while waiting:
        for node in launched:
            if not node.is_running() and not _launched_again(node, clock):
                return node
        waiting = [node for node in waiting if not node.serves(brokers)]
        if waiting and clock.monotonic_s() > deadline_s:
            return waiting[0]
        if waiting:
            clock.sleep(POLL_S)
    return None


def _launched_again(launched: LaunchedNode, clock: Clock) -> bool:
    if not launched.came_too_early:
        return False
    clock.sleep(TOO_EARLY_S)
    again = begin_again(launched.node, launched.state.command)
    launched.state, launched.log_start_bytes = again.state, again.log_start_bytes
    return True
