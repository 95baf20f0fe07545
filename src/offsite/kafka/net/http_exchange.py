"""Requests over HTTP and HTTPS to a server that may be slow or hostile, or lie behind a proxy. Time and bytes are
bounded. Redirects are answers like others: a request goes to nobody else, with all that it carries.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Event, Timer
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from offsite.kafka.config import TlsConfig
from offsite.kafka.net.broker_socket import tls_context
from offsite.model.errors import BadKafkaConfig
from offsite.model.machine import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """`connect_timeout_s`: for a proxy and for the server each. `read_timeout_s`: from the request to the last byte of
    its answer."""

    connect_timeout_s: float
    read_timeout_s: float
    answer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """`retry_after`: the header of that name, as it came."""

    status: int
    body: bytes
    retry_after: str = ""


class HttpPeer:
    """The server of a URL, and the connection to it, which later requests use again while the server keeps it open. For
    one thread at a time."""

    def __init__(self, url: str, *, tls: TlsConfig, limits: HttpLimits) -> None:
        self._parts, self._tls, self._limits = urlsplit(url), tls, limits
        self._connection: HTTPConnection | None = None
        self._sock: socket | None = None
        """Of the last request. `http.client` forgets it where the server says that it closes, and goes on reading."""

    @property
    def is_connected(self) -> bool:
        """Whether the next request goes over a connection of before, which the server may have closed meanwhile."""
        return self._connection is not None and self._connection.sock is not None

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """Send a request and read its whole answer. `target`: path and query. Raises `OSError`, `HTTPException` or
        `ValueError`, also for an answer that is too long or cut short, and `BadKafkaConfig` for certificates or a proxy
        that cannot be used."""
        try:
            return self._ask(method, target, headers, body)
        except BaseException:
            self.close()
            raise

    def _ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        connection, limits = self._connected(), self._limits
        with _limited(connection, limits.read_timeout_s):
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            content = response.read(limits.answer_bytes + 1)
            if len(content) > limits.answer_bytes or response.length or not _is_read(response):
                raise ValueError("an answer that is too long, or cut short")
        return HttpAnswer(
            status=response.status, body=content, retry_after=response.getheader("Retry-After", default="")
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def hang_up(self) -> None:
        """End a request that another thread has under way: there it fails as when the server hangs up."""
        _hang_up(self._sock)

    def _connected(self) -> HTTPConnection:
        if self._connection is None or self._connection.sock is None:
            self._connection = connection = _connection(self._parts, self._tls, self._limits.connect_timeout_s)
            with _limited(connection, 2 * self._limits.connect_timeout_s):  # for a proxy and for the server
                connection.connect()
            connection.sock.settimeout(self._limits.read_timeout_s)
            self._sock = connection.sock
        return self._connection


def _is_read(response: HTTPResponse) -> bool:
    """Whether the answer has ended. `read` with a size stops before the last chunk of none."""
    return response.isclosed() or not response.read(1)


def _connection(parts: SplitResult, tls: TlsConfig, timeout_s: float) -> HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return HTTPConnection(host, parts.port or HTTP_PORT, timeout=timeout_s)
    context = tls_context(tls)
    proxy = "" if is_loopback(host) or proxy_bypass(host) else getproxies().get("https", "")
    port = parts.port or HTTPS_PORT  # without one, http.client reads it out of an address of IPv6
    if not proxy:
        return HTTPSConnection(host, port, timeout=timeout_s, context=context)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if through.scheme != "http":  # what is sent to it, its password too, would go over the network in clear
        raise BadKafkaConfig(
            f"https_proxy names a proxy of {through.scheme}; offsite speaks to proxies by http alone",
            hint="write it as http://host:port, if the proxy speaks that, or name the host in no_proxy",
        )
    connection = HTTPSConnection(through.hostname or "", through.port or 80, timeout=timeout_s, context=context)
    login = f"{unquote(through.username)}:{unquote(through.password or '')}" if through.username else ""
    proof = {"Proxy-Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    connection.set_tunnel(host, port, headers=proof)
    return connection


@contextmanager
def _limited(connection: HTTPConnection, limit_s: float) -> Iterator[None]:
    """A block that ends with `TimeoutError` after `limit_s`: else byte by byte an answer, of a server or of a proxy,
    would take for ever."""
    is_over, before = Event(), connection.sock

    def hang_up() -> None:
        is_over.set()
        _hang_up(connection.sock or before)

    limit = Timer(limit_s, hang_up)
    limit.daemon = True
    limit.start()
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:
        if is_over.is_set():
            raise TimeoutError from error
        raise
    finally:
        limit.cancel()
    if is_over.is_set():  # what was read may be cut short
        raise TimeoutError


def _hang_up(connected: socket | None) -> None:
    """End reading and writing. An `SSLSocket` would first take TLS away, and what another thread is about to send, the
    client's secret, might go out in clear: so the plain method is called."""
    if connected is not None:
        with suppress(OSError):
            socket.shutdown(connected, SHUT_RDWR)


def reason_of(error: Exception) -> str:
    """The text of the operating system about an error, never text of the server."""
    if str(error).startswith("Tunnel connection failed"):
        return "the proxy refuses the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it takes too long" if isinstance(error, TimeoutError) else type(error).__name__


def place_of(url: str) -> str:
    """The address for people: a query may hold a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
