"""A socket that is connected to a broker, behind TLS where that is wanted, and tuned for large answers."""

from __future__ import annotations

import socket

from offsite.kafka.config.config import Address, KafkaConfig
from offsite.model.errors import KafkaTimeout, KafkaUnreachable
from offsite.model.size import MIB

__all__ = ["TIMEOUT_HINT", "connected_socket"]

CONNECT_TIMEOUT_S = 10.0  # a broker that needs longer to accept is as good as down; the router tries another
SOCKET_BUFFER_BYTES = 4 * MIB  # the kernel clamps it to its own limit; more lets the broker run ahead of us
KEEPALIVE_IDLE_S = 60  # load balancers drop silent connections after minutes
TIMEOUT_HINT = "check the network, or raise request.timeout.ms"


def connected_socket(config: KafkaConfig, address: Address) -> socket.socket:
    """Raises `KafkaUnreachable`, `KafkaTimeout`, `BadKafkaConfig`; nothing is left open."""
    try:
        sock = socket.create_connection((address.host, address.port), timeout=CONNECT_TIMEOUT_S)
    except socket.gaierror as error:
        raise KafkaUnreachable(f"no such host: {address.host}", hint="check --bootstrap") from error
    except TimeoutError as error:
        raise KafkaTimeout(f"{address} did not accept a connection", hint=TIMEOUT_HINT) from error
    except (ValueError, OverflowError) as error:  # a name or a port that brokers told and nobody can have
        raise KafkaUnreachable(f"no such address: {address}", hint="check advertised.listeners") from error
    except OSError as error:
        raise KafkaUnreachable(
            f"cannot connect to {address}: {error.strerror or error}", hint="is it running?"
        ) from error
    try:
        _tune(sock)
        return _wrapped(sock, config, address)
    except BaseException:
        sock.close()
        raise


def _wrapped(sock: socket.socket, config: KafkaConfig, address: Address) -> socket.socket:
    if config.tls is None:
        return sock
    from offsite.kafka.net.tls import wrap_tls

    try:
        return wrap_tls(sock, config.tls, address)
    except TimeoutError as error:
        raise KafkaTimeout(f"{address} did not answer the TLS handshake", hint=TIMEOUT_HINT) from error


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
