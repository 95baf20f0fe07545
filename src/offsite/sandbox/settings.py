"""The configuration of a sandbox broker: frozen values in, the text of `server.properties` out. Ports are free loopback
ports of the present moment: a caller may still lose the race for one."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"

PLAINTEXT, CONTROLLER, ZOOKEEPER = "PLAINTEXT", "CONTROLLER", "ZOOKEEPER"
SASL_PLAINTEXT, SSL, SASL_SSL = "SASL_PLAINTEXT", "SSL", "SASL_SSL"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_KAFKA_JAVA = "org.apache.kafka.common.security"
_BROKERS_OWN_NAME = 'unsecuredLoginStringClaim_sub="broker"'
_SMALL_AND_QUICK = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.ms": "-1",  # a sandbox loses nothing by itself; a topic may still set its own retention
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "500",  # a test waits a second for compaction, not a quarter of a minute
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "broker.session.timeout.ms": "3000",  # how long a start after a kill has to wait for the dead broker's session
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "5000",  # else an idle broker writes an empty record twice a second
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def free_ports(count: int) -> tuple[int, ...]:
    """Return `count` different ports without a listener."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(_bound(0)) for _ in range(count)]
        return tuple(sock.getsockname()[1] for sock in sockets)


def are_free(ports: Iterable[int]) -> bool:
    try:
        with ExitStack() as open_sockets:
            for port in ports:
                open_sockets.enter_context(_bound(port))
    except OSError:
        return False
    return True


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a port in TIME_WAIT is free
    try:
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise
    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files: `key_store` holds the server's private key (PKCS 8) and chain, `trust_store` the client CA."""

    key_store: Path
    trust_store: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Listeners with authentication, beside the PLAINTEXT listener, which stays, with every right.

    `users` (name to password) may log in by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. SCRAM users are made when the
    storage is formatted, and cannot change later. OAUTHBEARER takes any unsecured token. With `tls` the broker also has
    SSL listeners (client certificates welcome, not required) and SASL_SSL listeners. ACLs count; no ACL means allowed.

    `owner`: one of `users`, with all rights, and with login by PLAIN alone, as brokers then do. No further user has any
    right, on any listener.
    """

    users: Mapping[str, str]
    tls: Tls | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """The settings of a sandbox. `properties` overrides any line of server.properties.

    `long_run` trades start-up for speed: with the JVM's full compiler a warm broker takes records half as fast again.
    `brokers` and `kafka_version`: None for the folder's earlier values, or one broker of `versions.KAFKA_VERSION`.
    `heap_mib`: of every broker; None: 512 for a single broker, 256 for each of several. With several brokers, topics
    have up to three replicas, of which `min_insync` must answer.
    """

    brokers: int | None = None
    kafka_version: str | None = None
    min_insync: int = 1
    heap_mib: int | None = None
    long_run: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    security: Security | None = None

    def listeners(self) -> tuple[str, ...]:
        """Return the listener names, named by protocol; CONTROLLER is the broker's talk with itself."""
        if self.security is None:
            return (PLAINTEXT, CONTROLLER)
        if self.security.tls is None:
            return (PLAINTEXT, CONTROLLER, SASL_PLAINTEXT)
        return (PLAINTEXT, CONTROLLER, SASL_PLAINTEXT, SSL, SASL_SSL)

    def scram_users(self) -> tuple[str, ...]:
        """Return the arguments of StorageTool's `--add-scram`, one per user and mechanism."""
        users = self.security.users if self.security and not self.security.owner else {}
        return tuple(
            f"{mechanism}=[name={name},password={password}]"
            for name, password in users.items()
            for mechanism in SCRAM_MECHANISMS
        )


def server_properties(
    settings: SandboxSettings, *, data: Path, ports: Mapping[str, int], place: Mapping[str, str] | None = None
) -> str:
    """Return the text of server.properties. `ports`: one port per listener of the process.

    `place`: identity and keeper of a node in a cluster; None for a single node.
    """
    lines = _SMALL_AND_QUICK | _listeners(data, ports) | dict(place or single_node(ports))
    if settings.security:
        lines |= _authorizer() | _sasl(settings.security)
        if settings.security.tls:
            lines |= _tls(settings.security.tls)
        if settings.security.owner:
            lines |= _owned(settings.security, lines["listener.security.protocol.map"])
    lines |= settings.properties
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(lines.items()))


def single_node(ports: Mapping[str, int]) -> dict[str, str]:
    """Return the place of a single node: broker and controller in one."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports[CONTROLLER]}",
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": PLAINTEXT,
    }


def _listeners(data: Path, ports: Mapping[str, int]) -> dict[str, str]:
    names = dict.fromkeys([PLAINTEXT, CONTROLLER, *ports])
    return {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{_protocol(name)}" for name in names),
        "log.dirs": str(data),
    }


def _protocol(listener: str) -> str:
    return PLAINTEXT if listener == CONTROLLER else listener


def _authorizer() -> dict[str, str]:
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }


def _sasl(security: Security) -> dict[str, str]:
    listeners = [SASL_PLAINTEXT, SASL_SSL] if security.tls else [SASL_PLAINTEXT]
    users = " ".join(f'user_{name}="{password}"' for name, password in security.users.items())
    modules = {
        "plain": f"{_KAFKA_JAVA}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{_KAFKA_JAVA}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_KAFKA_JAVA}.scram.ScramLoginModule required;",
        "oauthbearer": f"{_KAFKA_JAVA}.oauthbearer.OAuthBearerLoginModule required {_BROKERS_OWN_NAME};",
    }
    jaas = {
        f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config": module
        for listener in listeners
        for mechanism, module in modules.items()
    }
    return {"sasl.enabled.mechanisms": ",".join(name.upper() for name in modules)} | jaas


def _owned(security: Security, protocols: str) -> dict[str, str]:
    """Lines for a sandbox with an owner. Login by PLAIN, over loopback: SCRAM users are made by a command line, which
    others can read."""
    owner, password = security.owner, security.users[security.owner]
    module = f'{_KAFKA_JAVA}.plain.PlainLoginModule required username="{owner}" password="{password}"'
    secured = f"{CONTROLLER}:{SASL_PLAINTEXT}"
    return {
        "super.users": f"User:{owner}",
        "allow.everyone.if.no.acl.found": "false",
        "listener.security.protocol.map": protocols.replace(f"{CONTROLLER}:{PLAINTEXT}", secured),
        "inter.broker.listener.name": SASL_PLAINTEXT,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
    } | {
        f"listener.name.{listener.lower()}.plain.sasl.jaas.config": f'{module} user_{owner}="{password}";'
        for listener in (SASL_PLAINTEXT, CONTROLLER)
    }


def _tls(tls: Tls) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls.key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.trust_store),
        "ssl.client.auth": "requested",
    }


def _escaped(value: str) -> str:
    """Double the backslashes: Java reads a backslash in a properties file as an escape."""
    return value.replace("\\", "\\\\")
