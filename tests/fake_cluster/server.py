"""The fake cluster's broker on a loopback socket: one thread serves all connections, a request at a time."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from offsite.kafka.config import BrokerAddress
from offsite.kafka.net.routing import shared_pool
from offsite.kafka.protocol.request import Api
from tests.fake_cluster import coordinator_answers, log_answers, topic_answers
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.messages import Answer, encoded
from tests.misbehaving_broker.messages import SIZE, HungUpError, Request, framed

_ANSWERS: Mapping[Api, Callable[[FakeCluster, Any], Answer]] = {
    Api.PRODUCE: log_answers.produce,
    Api.FETCH: log_answers.fetch,
    Api.LIST_OFFSETS: log_answers.list_offsets,
    Api.METADATA: topic_answers.metadata,
    Api.OFFSET_COMMIT: coordinator_answers.commit_offsets,
    Api.OFFSET_FETCH: coordinator_answers.fetch_offsets,
    Api.FIND_COORDINATOR: coordinator_answers.find_coordinator,
    Api.LIST_GROUPS: coordinator_answers.list_groups,
    Api.API_VERSIONS: topic_answers.api_versions,
    Api.CREATE_TOPICS: topic_answers.create_topics,
    Api.DELETE_TOPICS: topic_answers.delete_topics,
    Api.DELETE_RECORDS: log_answers.delete_records,
    Api.INIT_PRODUCER_ID: coordinator_answers.init_producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: log_answers.epoch_ends,
    Api.ADD_PARTITIONS_TO_TXN: coordinator_answers.add_partitions,
    Api.END_TXN: coordinator_answers.end_transaction,
    Api.WRITE_TXN_MARKERS: log_answers.write_markers,
    Api.DESCRIBE_ACLS: topic_answers.describe_acls,
    Api.CREATE_ACLS: topic_answers.create_acls,
    Api.DESCRIBE_CONFIGS: topic_answers.describe_configs,
    Api.DESCRIBE_LOG_DIRS: log_answers.describe_log_dirs,
    Api.INCREMENTAL_ALTER_CONFIGS: topic_answers.alter_configs,
    Api.OFFSET_DELETE: coordinator_answers.delete_offsets,
    Api.DESCRIBE_CLIENT_QUOTAS: topic_answers.describe_quotas,
    Api.ALTER_CLIENT_QUOTAS: topic_answers.alter_quotas,
    Api.DESCRIBE_USER_SCRAM_CREDENTIALS: topic_answers.describe_scram_users,
    Api.DESCRIBE_PRODUCERS: log_answers.describe_producers,
    Api.DESCRIBE_TRANSACTIONS: coordinator_answers.describe_transactions,
    Api.LIST_TRANSACTIONS: coordinator_answers.list_transactions,
    Api.LIST_CONFIG_RESOURCES: topic_answers.list_config_resources,
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: coordinator_answers.describe_positions,
    Api.ALTER_SHARE_GROUP_OFFSETS: coordinator_answers.alter_positions,
    Api.DELETE_SHARE_GROUP_OFFSETS: coordinator_answers.delete_positions,
}
_READ_BYTES = 1 << 20


@contextmanager
def serving(cluster_id: str = "fake") -> Iterator[FakeCluster]:
    """An empty cluster that answers until the block ends."""
    cluster = FakeCluster(cluster_id)
    server = _Server(cluster)
    thread = threading.Thread(target=server.run, name=f"fake-{cluster_id}", daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        server.stop()
        thread.join(10)
        shared_pool.close()
    if server.error is not None:
        raise server.error


class _Server:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        cluster.address = BrokerAddress(host="127.0.0.1", port=self._listener.getsockname()[1])
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._unread: dict[socket.socket, bytearray] = {}
        self.error: Exception | None = None
        """What the fake itself failed with: the client only saw its connection end."""

    def stop(self) -> None:
        self._cluster.answering.set()
        self._wake.close()

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._woken:
                    return self._close()
                if sock is self._listener:
                    self._accept()
                elif not self._serve(sock):
                    self._hang_up(sock)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread[client] = bytearray()
        self._selector.register(client, selectors.EVENT_READ)

    def _serve(self, client: socket.socket) -> bool:
        """Answer all requests that have arrived whole; False when the client has hung up."""
        unread = self._unread[client]
        with suppress(OSError, HungUpError):
            if data := client.recv(_READ_BYTES):
                unread += data
                while len(unread) >= SIZE.size and len(unread) >= (end := SIZE.size + SIZE.unpack_from(unread)[0]):
                    payload = bytes(unread[SIZE.size : end])
                    del unread[:end]
                    client.sendall(framed(self._answer(payload)))
                return True
        return False

    def _answer(self, payload: bytes) -> bytes:
        request = Request(payload, {})
        self._cluster.answering.wait()
        try:
            return encoded(request, _ANSWERS[Api(request.api)](self._cluster, request.message))
        except Exception as error:
            self.error = self.error or error
            raise HungUpError from error

    def _hang_up(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._unread[client]
        client.close()

    def _close(self) -> None:
        for sock in (self._listener, self._woken, *self._unread):
            sock.close()
        self._selector.close()
