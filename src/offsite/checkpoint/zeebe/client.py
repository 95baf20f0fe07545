"""HTTP to a management API: a request, a bounded answer, in bounded time. The server is not trusted.

Nothing is followed: no redirect (it would carry our identity to another place), and no proxy of the environment.
Nothing is repeated here: the caller knows which requests may be repeated.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket

from offsite.checkpoint.zeebe.address import ZeebeCluster
from offsite.model.units import MIB

REQUEST_TIMEOUT_S = 18.0
"""Seconds for a request, from the connection to the last byte of the answer: gateways give up on brokers after 15."""
MAX_ANSWER_BYTES = 8 * MIB
"""A status takes 300 bytes for every partition; a list of 100 backups of 100 partitions takes 2 MB."""


class ZeebeOutcomeUnknown(Exception):
    """The outcome of a request is unknown: the request may have been carried out, and may be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeAnswer:
    status: int
    body: bytes


class ZeebeClient:
    """Asks a cluster. Every request has a connection of its own: requests are rare, and gateways restart."""

    def __init__(
        self,
        cluster: ZeebeCluster,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._cluster, self._timeout_s, self._max_bytes = cluster, timeout_s, max_answer_bytes

    @property
    def where(self) -> str:
        """The address for people, without secrets."""
        return str(self._cluster.address)

    def ask(self, method: str, path: str, body: Mapping[str, int] | None = None) -> ZeebeAnswer:
        """The whole answer to a request below `/actuator`. Raises `ZeebeOutcomeUnknown`."""
        connection = self._connection()
        try:
            return self._ask(connection, method, f"{self._cluster.address.path}/actuator/{path}", body)
        except (OSError, HTTPException, ValueError) as error:
            raise ZeebeOutcomeUnknown(f"{self.where} does not answer: {_why(error)}") from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        at = self._cluster.address
        if at.is_tls:
            return HTTPSConnection(at.host, at.port, timeout=self._timeout_s, context=ssl.create_default_context())
        return HTTPConnection(at.host, at.port, timeout=self._timeout_s)

    def _ask(self, connection: HTTPConnection, method: str, path: str, body: Mapping[str, int] | None) -> ZeebeAnswer:
        connection.connect()
        # A server that answers byte by byte would never time out.
        limit = threading.Timer(self._timeout_s, _hang_up, [connection.sock])
        limit.daemon = True
        limit.start()
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), self._headers(body))
            return self._read(connection.getresponse())
        finally:
            limit.cancel()

    def _headers(self, body: Mapping[str, int] | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "Connection": "close", "User-Agent": "offsite"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._cluster.authorization:
            headers["Authorization"] = self._cluster.authorization
        return headers

    def _read(self, response: HTTPResponse) -> ZeebeAnswer:
        body = response.read(self._max_bytes + 1)
        if len(body) > self._max_bytes:
            raise ZeebeOutcomeUnknown(f"{self.where} answers with more than {self._max_bytes} bytes")
        if response.length:
            raise ZeebeOutcomeUnknown(f"{self.where} ended its answer too early")
        return ZeebeAnswer(status=response.status, body=body)


def _hang_up(connected: socket) -> None:
    with suppress(OSError):
        connected.shutdown(SHUT_RDWR)


def _why(error: Exception) -> str:
    """The text of the operating system about an error, never text of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it takes too long" if isinstance(error, TimeoutError) else type(error).__name__
