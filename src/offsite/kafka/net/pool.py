"""Connections kept open between calls and between Spark tasks of one worker process.

A connection returns to the pool only when clean: usable and with nothing in flight. A forked child starts with an empty
pool, because a socket shared with the parent would mix up answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from offsite.kafka.config.config import BrokerAddress, KafkaConfig
from offsite.kafka.net.connection import Connection

_Key = tuple[KafkaConfig, BrokerAddress]

IDLE_MAX = 4  # per broker: as many as a process uses at the same time


class ConnectionPool:
    """Thread-safe. A leased connection belongs to one thread until the lease ends."""

    def __init__(self) -> None:
        self._idle: dict[_Key, list[Connection]] = {}
        self._lock = Lock()
        self._owner = os.getpid()

    @contextmanager
    def lease(self, config: KafkaConfig, address: BrokerAddress) -> Iterator[Connection]:
        """An open connection to `address`, for the block. Raises the errors of `Connection.open`."""
        connection = self._take((config, address)) or Connection.open(config, address)
        try:
            yield connection
        finally:
            self._give_back((config, address), connection)

    def close(self) -> None:
        """Close idle connections. Leased connections close when returned to a full pool, or when broken."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def _take(self, key: _Key) -> Connection | None:
        while True:
            with self._lock:
                self._forget_parent()
                connections = self._idle.get(key)
                if not connections:
                    return None
                connection = connections.pop()
            if not connection.stale:
                return connection
            connection.close()

    def _give_back(self, key: _Key, connection: Connection) -> None:
        if connection.usable and not connection.in_flight:
            with self._lock:
                self._forget_parent()
                connections = self._idle.setdefault(key, [])
                if len(connections) < IDLE_MAX:
                    connections.append(connection)
                    return
        connection.close()

    def _forget_parent(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._idle = {}


shared_pool = ConnectionPool()
