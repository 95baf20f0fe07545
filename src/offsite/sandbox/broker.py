"""A real Kafka in a folder of its own, for demos and tests: one broker, or a cluster of several (see `layout`).

Owns everything below its folder: for every process `data/`, `server.properties`, `kafka.log`, `sandbox.json`. Listens
on loopback only. Never ends a foreign process. A process of a running sandbox may be ended, frozen and started again
alone, as tests of outages do.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox import process
from offsite.sandbox.jars import Progress, cache_folder, ensure_jars, ignore_progress, sources
from offsite.sandbox.java import Jvm, find_java, keep_archives
from offsite.sandbox.launch import NodeLaunch, await_all, begin_again
from offsite.sandbox.layout import (
    ClusterShape,
    Node,
    choose_shape,
    cluster_id_of,
    new_id,
    place_of,
    plan_nodes,
    read_shape,
    started_nodes,
    write_shape,
)
from offsite.sandbox.process import Guard, NodeState, read_state
from offsite.sandbox.settings import CONTROLLER, HOST, PLAINTEXT, SandboxSettings, are_free
from offsite.sandbox.versions import KAFKA_VERSION

STOP_PATIENCE_S = 15.0  # a clean shutdown takes 0.5 s; afterwards the broker is killed, and the log survives

PORT_ATTEMPTS = 5  # a free port can be lost to someone else between the look and the bind; five in a row is no accident


class SandboxNode:
    """One process of a sandbox, made by `Sandbox.broker` and `Sandbox.keeper`. Reads the disk at every call, and so
    never goes stale."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock

    @property
    def node_id(self) -> int:
        return self._node.node_id

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def serves_clients(self) -> bool:
        return self._node.serves_clients

    @property
    def bootstrap(self) -> str:
        """host:port of this broker alone."""
        return f"{HOST}:{self._node.ports[PLAINTEXT]}"

    @property
    def pid(self) -> int:
        """The process id; 0 while stopped."""
        return self._state().process.pid if self.is_running() else 0

    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._state().process.is_running()

    def kill(self) -> None:
        """End the process as a crash would: no shutdown, no flush."""
        self._state().process.send(signal.SIGKILL)
        process.wait_until_gone(self._state().process, clock=self._clock, limit_s=STOP_PATIENCE_S)

    def ask_to_stop(self) -> None:
        """Begin the shutdown that `stop` waits for."""
        self.resume()
        self._state().process.send(signal.SIGTERM)

    def stop(self) -> bool:
        """End the process cleanly, by force if it does not react. True after a clean end."""
        return process.stop(self._state().process, clock=self._clock, patience_s=STOP_PATIENCE_S)

    def pause(self) -> None:
        """Freeze the process: it keeps its connections and answers nobody."""
        self._state().process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process continue, unaware of the passed time."""
        self._state().process.send(signal.SIGCONT)

    def start(self) -> None:
        """Start the process again with its data on its ports; returns when it serves. Does nothing for a running
        process.

        Raises `SandboxFailed`.
        """
        if not self.is_running():
            launched = begin_again(self._node, self._state().command)
            brokers = [self.node_id] if self._node.serves_clients else []
            if not await_all([launched], clock=self._clock, brokers=brokers):
                raise SandboxFailed(f"a port of {self.name} was taken by someone else while it was down")

    def _state(self) -> NodeState:
        state = read_state(self._node.folder)
        if state is None:
            raise SandboxFailed(f"{self.name} was never started")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """A running sandbox. `listeners`: protocol → host:port (of several brokers, separated by commas). `bootstrap`: the
    PLAINTEXT listener. `pids`: process name → id of running processes. `pid`: the first broker's."""

    bootstrap: str
    dir: Path
    pid: int
    listeners: Mapping[str, str]
    pids: Mapping[str, int] = field(default_factory=dict)
    kafka_version: str = KAFKA_VERSION


class Sandbox:
    """The brokers of one folder. Any number of objects and processes may use the same folder."""

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self._folder = folder.absolute()
        self._clock = clock or SystemClock()
        self._guard: Guard | None = None

    def start(
        self,
        *,
        port: int | None = None,
        settings: SandboxSettings = SandboxSettings(),
        owned: bool = False,
        progress: Progress = ignore_progress,
    ) -> SandboxInfo:
        """Start the brokers, or find them running; returns once all serve clients. Data of an earlier start is kept.

        Without `port` (for one broker only) the sandbox takes the folder's earlier ports when free, else any free
        ports. `owned`: the sandbox ends with this object and the calling process, however they end; otherwise the
        sandbox lives on until `stop`. Of several brokers, stopped ones are started. Raises JavaMissing, DamagedJar,
        JarsNotFetched, BadOption (the port is taken, the sandbox runs on another port, the sandbox is of another kind),
        SandboxFailed.
        """
        with self._alone():
            shape = choose_shape(settings, read_shape(self._folder))
            if running := self.status():
                _on_port(running, port)
                self._start_the_rest()
                return self.status() or running
            self._stop_all()
            if port is not None:
                _check_port(port, shape)
            java = find_java()
            jars = ensure_jars(cache_folder(shape.kafka_version), sources(java), progress, version=shape.kafka_version)
            if owned and self._guard is None:
                self._guard = Guard(self._folder)
            write_shape(self._folder, shape)
            return self._start_on_free_ports(Jvm(java=java, jars=jars, version=shape.kafka_version), settings, port)

    def status(self) -> SandboxInfo | None:
        """Return the sandbox if a broker's process runs, else None. Asks the kernel only, never the brokers."""
        nodes = self._nodes()
        pids = {node.name: pid for node in nodes if (pid := SandboxNode(node, self._clock).pid)}
        if not any(node.name in pids and node.serves_clients for node in nodes):
            return None
        return self._info(nodes, pids)

    def stop(self) -> bool:
        """End all processes cleanly, by force if they do not react. True if a process was running."""
        with self._alone():
            was_running = self._stop_all()
        if self._guard:
            self._guard.release()
            self._guard = None
        return was_running

    def kill(self) -> None:
        """End all processes as a crash would: no shutdown, no flush. The folder can be started again."""
        for handle in self._handles():
            handle.kill()

    def broker(self, number: int) -> SandboxNode:
        """Return one broker, counted from 1 (the node id), to be killed or frozen alone."""
        return next(broker for broker in self.brokers if broker.node_id == number)

    @property
    def brokers(self) -> tuple[SandboxNode, ...]:
        return tuple(handle for handle in self._handles() if handle.serves_clients)

    @property
    def keeper(self) -> SandboxNode:
        """The node with the metadata of several brokers: a KRaft controller, or a ZooKeeper."""
        return next(handle for handle in self._handles() if not handle.serves_clients)

    def _start_on_free_ports(self, jvm: Jvm, settings: SandboxSettings, port: int | None) -> SandboxInfo:
        for _ in range(PORT_ATTEMPTS):
            nodes = plan_nodes(self._folder, self._shape(), settings)
            if port is not None:
                nodes = tuple(_moved(node, port) for node in nodes)
            launched = [launch.begin() for launch in self._launches(nodes, jvm, settings)]
            brokers = [node.node_id for node in nodes if node.serves_clients]
            if await_all(launched, clock=self._clock, brokers=brokers):
                return self._info(
                    nodes, {launched_node.node.name: launched_node.state.process.pid for launched_node in launched}
                )
            if port is not None:
                raise _port_taken(port)
        raise SandboxFailed(f"{PORT_ATTEMPTS} times in a row, free ports were taken before the broker had them")

    def _launches(self, nodes: Sequence[Node], jvm: Jvm, settings: SandboxSettings) -> Iterator[NodeLaunch]:
        cluster_id = next(filter(None, (cluster_id_of(node.folder / "data") for node in nodes)), "") or new_id()
        for node in nodes:
            place = place_of(node, nodes, settings)
            yield NodeLaunch(node=node, jvm=jvm, settings=settings, place=place, cluster_id=cluster_id)

    def _start_the_rest(self) -> None:
        for handle in self._handles():
            handle.start()

    def _stop_all(self) -> bool:
        """Stop the brokers together, the keeper last, because brokers say goodbye to the keeper. True if a process was
        running."""
        running = [handle for handle in self._handles() if handle.is_running()]
        for handle in running:
            if handle.serves_clients:
                handle.ask_to_stop()
        clean = [handle.stop() for handle in reversed(running)]
        if clean and all(clean):
            for node in self._nodes():
                keep_archives(node.folder, cache_folder(self._shape().kafka_version))
        return bool(running)

    def _shape(self) -> ClusterShape:
        return read_shape(self._folder) or ClusterShape()

    def _nodes(self) -> tuple[Node, ...]:
        return started_nodes(self._folder, self._shape())

    def _handles(self) -> list[SandboxNode]:
        return [SandboxNode(node, self._clock) for node in self._nodes()]

    def _info(self, nodes: Sequence[Node], pids: Mapping[str, int]) -> SandboxInfo:
        addresses: dict[str, list[str]] = {}
        for node in nodes:
            for name, port in node.ports.items():
                if node.serves_clients and name != CONTROLLER:
                    addresses.setdefault(name, []).append(f"{HOST}:{port}")
        listeners = {name: ",".join(host_ports) for name, host_ports in addresses.items()}
        return SandboxInfo(
            bootstrap=listeners[PLAINTEXT],
            dir=self._folder,
            pid=next(pids[node.name] for node in nodes if node.serves_clients and node.name in pids),
            listeners=listeners,
            pids=pids,
            kafka_version=self._shape().kafka_version,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one start or stop of a folder at a time, over all processes."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self._folder / "sandbox.lock").open("w")
        except OSError as error:
            problem = f"{self._folder} cannot be the folder of a sandbox: {os.strerror(error.errno or 0)}"
            raise SandboxFailed(problem, hint="give a folder with --dir that this user can write") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _on_port(running: SandboxInfo, port: int | None) -> None:
    if port is not None and running.bootstrap != f"{HOST}:{port}":
        raise BadOption(
            f"the sandbox in {running.dir} runs on {running.bootstrap} already",
            hint=f"stop it first: offsite sandbox stop --dir {running.dir}",
        )


def _check_port(port: int, shape: ClusterShape) -> None:
    if shape.brokers > 1:
        raise BadOption("several brokers cannot share one port", hint="omit --port: each broker takes a free port")
    if not are_free([port]):
        raise _port_taken(port)


def _moved(node: Node, port: int) -> Node:
    return replace(node, ports={**node.ports, PLAINTEXT: port}) if node.serves_clients else node


def _port_taken(port: int) -> BadOption:
    return BadOption(f"port {port} is in use", hint="choose another port, or omit --port for a free port")
