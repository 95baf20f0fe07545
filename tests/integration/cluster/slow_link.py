"""A longer way to one broker: what goes through it arrives later, in order, in both directions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_CREATE = socket.create_connection


@contextmanager
def slow_link(monkeypatch: pytest.MonkeyPatch, port: int, *, delay_s: float) -> Iterator[None]:
    """For this process alone: each connection to `port` of this machine that is opened in the block."""
    links: list[socket.socket] = []

    def create(address: tuple[str, int], *args: object, **more: object) -> socket.socket:
        made = _CREATE(address, *args, **more)  # type: ignore[arg-type]  # as it was called
        if address[1] != port:
            return made
        with socket.create_server(("127.0.0.1", 0)) as server:
            near, (far, _) = _CREATE(server.getsockname()), server.accept()
        links.extend((far, made))
        for source, target in ((far, made), (made, far)):
            threading.Thread(target=_forward, args=(source, target, delay_s), daemon=True).start()
        return near

    with monkeypatch.context() as patch:
        patch.setattr(socket, "create_connection", create)
        try:
            yield
        finally:
            for each in links:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _forward(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 20):
            time.sleep(delay_s)
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
