"""Free loopback ports. Only the present moment is certain: a caller may still lose the race for a free port."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack

HOST = "127.0.0.1"


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
