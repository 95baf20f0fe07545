"""The folder of a sandbox: its processes, the settings by which they know one another, and the formatted data of
brokers.

One KRaft broker is its own controller, in the sandbox's folder itself. Any larger sandbox is a keeper of the metadata
(a KRaft controller, or a ZooKeeper where the version needs one) and brokers, in a folder each. One keeper, not a quorum
on the brokers: whichever brokers die, even all but one, the cluster can still decide (an unclean election needs
decisions), and a stopped broker never stops the controller too.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox.java import Jvm
from offsite.sandbox.process import read_state
from offsite.sandbox.settings import (
    CONTROLLER,
    HOST,
    PLAINTEXT,
    ZOOKEEPER,
    SandboxSettings,
    are_free,
    free_ports,
    single_node,
)
from offsite.sandbox.versions import KAFKA_VERSION, find_version

KEEPER_ID = 100
REPLICAS_MAX = 3
BROKERS_MAX = 9  # each takes 250 MB and a second of a core to start; more is no sandbox
LAG_MAX_MS = 3000
"""How long a follower may lag before it leaves the in-sync replicas: 30 s in earnest, too long for a test."""
_SHAPE = "shape.json"

CHECKPOINT = "bootstrap.checkpoint"
_FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
META = "meta.properties"
FORMAT_LIMIT_S = 60  # takes 1.2 s; a loaded CI machine may be ten times slower


class NodeRole(StrEnum):
    ALONE = "alone"
    BROKER = "broker"
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    """The fixed properties of a started folder."""

    brokers: int = 1
    kafka_version: str = KAFKA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One process. `name`: for people; `ports`: by listener name."""

    name: str
    node_id: int
    role: NodeRole
    folder: Path
    ports: Mapping[str, int]

    @property
    def serves_clients(self) -> bool:
        return PLAINTEXT in self.ports


def read_shape(folder: Path) -> ClusterShape | None:
    """Return the shape of an earlier start in the folder, if any."""
    path = folder / _SHAPE
    if path.exists():
        try:
            return ClusterShape(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise SandboxFailed(f"{path} is not a sandbox's shape", hint=f"delete {path}") from error
    return ClusterShape() if read_state(folder) else None


def write_shape(folder: Path, shape: ClusterShape) -> None:
    (folder / _SHAPE).write_text(json.dumps(asdict(shape)) + "\n", encoding="utf-8")


def choose_shape(settings: SandboxSettings, before: ClusterShape | None) -> ClusterShape:
    """Return the shape to start: `settings` where given, else the earlier shape. Raises `BadOption` when both disagree,
    for an unknown version, and for an impossible sandbox."""
    was = before or ClusterShape()
    brokers = was.brokers if settings.brokers is None else settings.brokers
    shape = ClusterShape(brokers=brokers, kafka_version=settings.kafka_version or was.kafka_version)
    find_version(shape.kafka_version)
    if before not in {None, shape}:
        raise BadOption(
            f"the sandbox has {was.brokers} broker(s) of Kafka {was.kafka_version} already", hint="choose a new --dir"
        )
    if not 1 <= shape.brokers <= BROKERS_MAX:
        raise BadOption(f"a sandbox has 1 to {BROKERS_MAX} brokers, not {shape.brokers}")
    if settings.security and not _is_alone(shape):
        raise BadOption("a sandbox with users or TLS is one broker without ZooKeeper")
    return shape


def plan_nodes(folder: Path, shape: ClusterShape, settings: SandboxSettings) -> tuple[Node, ...]:
    """Return the processes of the sandbox, the keeper first, on their earlier ports where free."""
    bare = _nodes(folder, shape, settings)
    earlier = [read_state(node.folder) for node in bare]
    if all(state and tuple(state.ports) == tuple(node.ports) for state, node in zip(earlier, bare, strict=True)):
        earlier_ports = [state.ports for state in earlier if state]
        if are_free(port for ports in earlier_ports for port in ports.values()):
            return _with_ports(bare, earlier_ports)
    numbers = iter(free_ports(sum(len(node.ports) for node in bare)))
    return _with_ports(bare, [{name: next(numbers) for name in node.ports} for node in bare])


def started_nodes(folder: Path, shape: ClusterShape) -> tuple[Node, ...]:
    """Return the processes as last started, running or not; processes never started are left out."""
    states = ((node, read_state(node.folder)) for node in _nodes(folder, shape, SandboxSettings()))
    started = [(node, state) for node, state in states if state]
    return _with_ports([node for node, _ in started], [state.ports for _, state in started])


def place_of(node: Node, nodes: Sequence[Node], settings: SandboxSettings) -> dict[str, str]:
    """Return a node's own lines of server.properties: the node's identity, and the address of the keeper."""
    if node.role is NodeRole.ALONE:
        return single_node(node.ports)
    keeper = nodes[0]
    replicas = str(min(REPLICAS_MAX, len(nodes) - 1))
    if keeper.role is NodeRole.ZOOKEEPER:
        return _replicated(replicas, settings) | _under_zookeeper(node, keeper)
    return _replicated(replicas, settings) | _under_controller(node, keeper)


def zookeeper_lines(node: Node) -> str:
    """Return the text of ZooKeeper's settings file. Sessions are short: a killed broker is given up, and may return,
    after 3 s."""
    return (
        f"dataDir={node.folder / 'data'}\nclientPort={node.ports[ZOOKEEPER]}\nclientPortAddress={HOST}\n"
        "tickTime=500\nmaxClientCnxns=0\nadmin.enableServer=false\n"
    )


def _nodes(folder: Path, shape: ClusterShape, settings: SandboxSettings) -> list[Node]:
    """Return nodes without port numbers."""
    if _is_alone(shape):
        ports = dict.fromkeys(settings.listeners(), 0)
        return [Node(name="broker-1", node_id=1, role=NodeRole.ALONE, folder=folder, ports=ports)]
    zookeeper = find_version(shape.kafka_version).needs_zookeeper
    role, port = (NodeRole.ZOOKEEPER, ZOOKEEPER) if zookeeper else (NodeRole.CONTROLLER, CONTROLLER)
    keeper = Node(name=role.value, node_id=KEEPER_ID, role=role, folder=folder / role.value, ports={port: 0})
    return [keeper, *(_broker(folder, number) for number in range(1, shape.brokers + 1))]


def _broker(folder: Path, number: int) -> Node:
    name = f"broker-{number}"
    return Node(name=name, node_id=number, role=NodeRole.BROKER, folder=folder / name, ports={PLAINTEXT: 0})


def _with_ports(nodes: Sequence[Node], ports: Sequence[Mapping[str, int]]) -> tuple[Node, ...]:
    return tuple(
        Node(name=node.name, node_id=node.node_id, role=node.role, folder=node.folder, ports=node_ports)
        for node, node_ports in zip(nodes, ports, strict=True)
    )


def _is_alone(shape: ClusterShape) -> bool:
    return shape.brokers == 1 and not find_version(shape.kafka_version).needs_zookeeper


def _replicated(replicas: str, settings: SandboxSettings) -> dict[str, str]:
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": str(settings.min_insync),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(settings.min_insync),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": str(settings.min_insync),
        "replica.lag.time.max.ms": str(LAG_MAX_MS),
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "auto.leader.rebalance.enable": "false",  # leaders move only on request
        "controlled.shutdown.retry.backoff.ms": "200",
    }


def _under_controller(node: Node, keeper: Node) -> dict[str, str]:
    place = {
        "process.roles": node.role.value,
        "node.id": str(node.node_id),
        "controller.quorum.voters": f"{keeper.node_id}@{HOST}:{keeper.ports[CONTROLLER]}",
        "controller.listener.names": CONTROLLER,
    }
    return place | (_rack(node) if node.role is NodeRole.BROKER else {})


def _under_zookeeper(node: Node, keeper: Node) -> dict[str, str]:
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{HOST}:{keeper.ports[ZOOKEEPER]}",
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "60000",  # both start at the same time
    } | _rack(node)


def _rack(node: Node) -> dict[str, str]:
    return {"broker.rack": f"rack-{node.node_id}", "inter.broker.listener.name": PLAINTEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of the folder's node. `scram_users`: arguments of StorageTool's `--add-scram`."""

    cluster_id: str
    node_id: int = 1
    is_controller: bool = True
    scram_users: tuple[str, ...] = ()


def format_storage(data: Path, identity: Identity, *, jvm: Jvm, config: Path) -> None:
    """Make `data` a formatted, empty folder of the node, unless already formatted. Raises SandboxFailed.

    `meta.properties` comes last and atomically: after an earlier crash the folder counts as not formatted.

    Never formats a formatted folder. Kafka's own StorageTool formats, at the price of a second JVM (1.2 s). Besides the
    ids, its output is the same for every folder without SCRAM users: the feature levels, in a file whose place depends
    on the version. So the file is made once, kept beside the jars, and copied from then on.
    """
    if (data / META).exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    if identity.scram_users:
        _run_storage_tool(identity, jvm, config)
        return
    in_metadata_log = find_version(jvm.version).keeps_levels_in_metadata_log
    template, levels = jvm.jars / CHECKPOINT, data / (_FIRST_SNAPSHOT if in_metadata_log else CHECKPOINT)
    if in_metadata_log and not identity.is_controller:
        _write_meta(data, identity)
    elif template.exists():
        levels.parent.mkdir(exist_ok=True)
        shutil.copyfile(template, levels)
        _write_meta(data, identity)
    else:
        _run_storage_tool(identity, jvm, config)
        _keep(levels, template)


def cluster_id_of(data: Path) -> str:
    """Return the cluster id of a formatted folder; empty for another folder."""
    meta = data / META
    lines = meta.read_text(encoding="ascii").splitlines() if meta.exists() else []
    return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), "")


def _run_storage_tool(identity: Identity, jvm: Jvm, config: Path) -> None:
    scram = [argument for user in identity.scram_users for argument in ("--add-scram", user)]
    arguments = ["format", "--cluster-id", identity.cluster_id, "--config", str(config), *scram]
    completed = subprocess.run(
        jvm.command("kafka.tools.StorageTool", arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=FORMAT_LIMIT_S,
        check=False,
    )
    if completed.returncode:
        raise SandboxFailed(
            f"the sandbox's storage could not be formatted:\n{completed.stdout}{completed.stderr}".rstrip()
        )


def _write_meta(data: Path, identity: Identity) -> None:
    ids = f"cluster.id={identity.cluster_id}\nnode.id={identity.node_id}\ndirectory.id={new_id()}\n"
    arriving = data / f".{META}"
    arriving.write_text(f"version=1\n{ids}", encoding="ascii")
    arriving.replace(data / META)


def _keep(checkpoint: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as arriving:
        shutil.copyfile(checkpoint, Path(arriving, CHECKPOINT)).replace(target)


def new_id() -> str:
    """Return a random Kafka Uuid: URL-safe base64 without padding. Kafka refuses a leading dash, so another id is
    drawn."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
