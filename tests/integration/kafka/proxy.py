"""A TCP proxy in front of a broker that can cut connections at a chosen moment, and a pool that goes through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import ConnectionPool


class Proxy:
    """Forwards both ways. `cut_answers(n)` makes the next `n` answers get lost together with their connection: the
    request was heard, the answer is not."""

    def __init__(self, target: BrokerAddress) -> None:
        self._target = (target.host, target.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._cuts = 0
        self._swallows = False
        self.cut_count = 0
        self.address = BrokerAddress(host="127.0.0.1", port=self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut_answers(self, count: int) -> None:
        self._cuts = count

    def swallow_answers(self, swallow: bool) -> None:
        """Requests are heard, answers never arrive, connections stay."""
        self._swallows = swallow

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self._start(self._requests, client, server)
                self._start(self._answers, server, client)

    def _start(self, target: object, *ends: socket.socket) -> None:
        thread = threading.Thread(target=target, args=ends)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self._cuts:
                    self._cuts -= 1
                    self.cut_count += 1
                    break
                if not self._swallows:
                    client.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class ProxiedPool(ConnectionPool):
    """Whatever broker is asked for, its proxy is."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = proxy

    def lease(self, config: KafkaConfig, address: BrokerAddress) -> AbstractContextManager[Connection]:
        return super().lease(config, self._proxy.address)


@contextmanager
def proxied(target: BrokerAddress) -> Iterator[tuple[Proxy, ProxiedPool]]:
    proxy = Proxy(target)
    pool = ProxiedPool(proxy)
    try:
        yield proxy, pool
    finally:
        pool.close()
        proxy.close()
