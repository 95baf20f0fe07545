from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from offsite.sandbox.launch import has_controller
from offsite.sandbox.settings import HOST, free_ports

ONE_BROKER = struct.pack(">ii", 7, 1) + struct.pack(">ih9sih", 1, 9, b"127.0.0.1", 9092, -1)
NO_BROKER = struct.pack(">ii", 7, 0)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port that gives this answer to the first who asks, then closes."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def test_a_broker_with_a_controller_is_ready() -> None:
    with answering(framed(ONE_BROKER + struct.pack(">i", 1))) as port:
        assert has_controller(HOST, port)


def test_a_broker_that_does_not_know_all_others_yet_is_not_ready() -> None:
    with answering(framed(ONE_BROKER + struct.pack(">i", 1))) as port:
        assert not has_controller(HOST, port, brokers=[1, 2])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(framed(NO_BROKER + struct.pack(">i", -1)), id="no broker is alive"),
        pytest.param(framed(ONE_BROKER + struct.pack(">i", -1)), id="no controller"),
        pytest.param(framed(ONE_BROKER)[:20], id="the connection closes in the middle"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="something else listens there"),
    ],
)
def test_anything_else_is_not_ready(answer: bytes) -> None:
    with answering(answer) as port:
        assert not has_controller(HOST, port)


def test_a_closed_port_is_not_ready() -> None:
    (port,) = free_ports(1)
    assert not has_controller(HOST, port)
