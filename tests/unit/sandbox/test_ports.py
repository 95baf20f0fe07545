from __future__ import annotations

import socket

from offsite.sandbox.settings import HOST, are_free, free_ports


def test_free_ports_are_all_different_and_free() -> None:
    ports = free_ports(8)
    assert len(set(ports)) == len(ports)
    assert are_free(ports)


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server((HOST, 0)) as listener:
        assert not are_free([listener.getsockname()[1]])
