"""An HTTP server in a thread beside a backup: `/metrics`, `/healthz`, `/readyz`. Beside a following backup it shows
the newest view, and scrapes the view at most once a second, however often clients ask.

No client may delay the backup, or make resources grow with the number of clients. A connection gets a single answer
and a few seconds in total, however slowly the client talks. Only a limited number is served at once: a further
connection ends the oldest, so that nobody who holds connections keeps scrapes and probes out. Request bodies are
never read. Answers come from views that the backup has handed over, and wait for nothing.
"""

from __future__ import annotations

import re
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Protocol, Self

from offsite.model.bounds import whole_number
from offsite.model.clock import Clock
from offsite.model.errors import BadOption
from offsite.model.journal import failed, safe_trace
from offsite.model.units import format_duration
from offsite.monitor.backup_series import TOPICS_MAX, expose
from offsite.monitor.metrics import OPEN_METRICS, Exposition
from offsite.monitor.view import FollowView, Health, liveness, readiness
from offsite.monitor.waiting import Waiting

LOOPBACK = "127.0.0.1"
_PORT_MAX = 65535
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]/@]+)):(?P<port>\d+)")

CONNECTIONS_MAX = 16
"""Connections served at once: a Prometheus, its twin, and some people."""
CONNECTION_S = 5.0
"""Seconds that a connection may take from its first byte to its last."""
_POLL_S = 0.2
_PATHS = "/metrics /healthz /readyz"
_TEXT = "text/plain; charset=utf-8"
_SCRAPE_FOR_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Host and TCP port. Port 0 means a free port."""

    host: str = LOOPBACK
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> ListenAddress:
    """Parse `9090` (the local machine only), `0.0.0.0:9090` or `[::]:9090`. Raises `BadOption`."""
    match = _ADDRESS.fullmatch(text)
    host, digits = ((match["six"] or match["host"]), match["port"]) if match else (LOOPBACK, text)
    port = whole_number(digits, most=_PORT_MAX)
    if port is None:
        raise BadOption(f"{text[:100]!r} is neither a port nor host:port", hint="write it as 9464 or 0.0.0.0:9464")
    return ListenAddress(host=host, port=port)


class StatusSource(Protocol):
    """What the server shows: the metrics (`accept` is the client's header), liveness and readiness. Called from several
    threads."""

    def metrics(self, accept: str) -> Exposition: ...

    def health(self) -> Health: ...

    def ready(self) -> Health: ...


class StatusServer:
    """The server of a backup, from `start` to `stop`, or in a `with` block."""

    def __init__(self, source: StatusSource, *, listen: ListenAddress, clock: Clock) -> None:
        self._shows, self._listen, self._clock = source, listen, clock
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> ListenAddress:
        """The listen address; with the chosen port, if any free port was requested."""
        if self._server is None:
            return self._listen
        return ListenAddress(host=self._listen.host, port=self._server.server_address[1])

    def start(self) -> Self:
        """Listen. Raises `BadOption` if the address is not available."""
        try:
            self._server = _Server(self._listen, self._shows, self._clock)
        except OSError as error:
            raise BadOption(
                f"cannot listen on {self._listen} for metrics: {error.strerror or error}",
                hint="choose another port; 0 takes a free port",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": _POLL_S}, name="monitor", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close everything. May be called again."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.close_connections()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    allow_reuse_port = False  # two processes on a port would answer by turns
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, listen: ListenAddress, source: StatusSource, clock: Clock) -> None:
        family, _, _, _, place = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        self.source = source
        self._clock = clock
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((str(place[0]), int(place[1])), _Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the machine's name, which HTTPServer makes and which can take long."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= CONNECTIONS_MAX else None
            if oldest is not None:
                del self._open[oldest]
            self._open[request] = self._clock.monotonic_s()
        if oldest is not None:
            _end(oldest)
        serve = partial(self.process_request_thread, request, client_address)
        threading.Thread(target=serve, name="monitor-connection", daemon=True).start()

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        super().shutdown_request(request)
        with self._lock:
            self._open.pop(request, None)

    def service_actions(self) -> None:
        """End connections that took too long: their threads wake up and end."""
        self.close_connections(since_s=self._clock.monotonic_s() - CONNECTION_S)

    def close_connections(self, *, since_s: float | None = None) -> None:
        """End connections that began before `since_s`, or all."""
        with self._lock:
            late = [connection for connection, began_s in self._open.items() if since_s is None or began_s < since_s]
        for connection in late:
            _end(connection)

    def get_request(self) -> tuple[socket.socket, object]:
        try:
            return super().get_request()
        except OSError:  # such as no free file descriptor: the connection stays in the queue, which is asked at once
            self._clock.sleep(_POLL_S)
            raise

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  # the base class's
        """Ignore errors caused by a client; log our own mistakes."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            failed("monitor", why=type(error).__name__, trace=safe_trace(error))


def _end(connection: socket.socket) -> None:
    """End the connection: its thread wakes up and ends."""
    with suppress(OSError):  # the connection ended by itself meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CONNECTION_S

    def do_GET(self) -> None:
        shows = self.server.source
        path = self.path.partition("?")[0]
        if path == "/metrics":
            scrape = shows.metrics(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, scrape.text, scrape.content_type)
        elif path in {"/healthz", "/readyz"}:
            health = shows.health() if path == "/healthz" else shows.ready()
            self._tell(HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE, health.reason)
        else:
            self._tell(HTTPStatus.NOT_FOUND, f"there is {_PATHS}")

    do_HEAD = do_GET  # noqa: N815  # the name that http.server calls

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send our own words, none of the client's."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:  # the answer of http.server to a method without a handler
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._tell(status, status.phrase)

    def version_string(self) -> str:
        return "offsite"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Log nothing: a scrape every few seconds is no news."""

    def _tell(self, status: HTTPStatus, line: str) -> None:
        self._answer(status, f"{line}\n".encode(), _TEXT)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedScrape:
    """A scrape, its view, and its time by the monotonic clock."""

    view: FollowView
    at_s: float
    exposition: Exposition


@dataclass(slots=True, kw_only=True)
class FollowMonitor:
    """The newest view, its arrival, and the arrival of its newest round. Readers in other threads see a whole view."""

    clock: Clock
    topics_max: int
    newest: tuple[FollowView, float, float]
    waiting: Callable[[], Waiting | None]
    scrapes: dict[bool, _CachedScrape] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def health(self) -> Health:
        view, shown_s, _ = self.newest
        return liveness(view, silent_s=self.clock.monotonic_s() - shown_s)

    def ready(self) -> Health:
        (view, shown_s, ended_s), now_s, waiting = self.newest, self.clock.monotonic_s(), self.waiting()
        return readiness(
            view,
            silent_s=now_s - shown_s,
            round_ended_s=now_s - ended_s,
            now_ms=self.clock.now_ms(),
            waiting="" if waiting is None else f"{waiting.subject}, for {format_duration(waiting.waited_s)}",
        )

    def show(self, view: FollowView) -> None:
        """Replace the view. A newly finished round is recognized by the number of rounds."""
        now_s, (before, _, ended_s) = self.clock.monotonic_s(), self.newest
        self.newest = (view, now_s, ended_s if view.rounds == before.rounds else now_s)

    def metrics(self, accept: str) -> Exposition:
        """The text of a scrape of the newest view, at most a second old."""
        kind = OPEN_METRICS in accept
        with self.lock:
            (view, _, _), now_s, scrape = self.newest, self.clock.monotonic_s(), self.scrapes.get(kind)
            if scrape is None or scrape.view is not view or now_s - scrape.at_s >= _SCRAPE_FOR_S:
                text = expose(view, now_ms=self.clock.now_ms(), accept=accept, topics_max=self.topics_max)
                scrape = self.scrapes[kind] = _CachedScrape(view=view, at_s=now_s, exposition=text)
            return scrape.exposition


class MonitorServer(StatusServer):
    """The server of a following backup. `show` replaces the view."""

    def __init__(
        self,
        view: FollowView,
        *,
        listen: ListenAddress,
        clock: Clock,
        topics_max: int = TOPICS_MAX,
        waiting: Callable[[], Waiting | None] = lambda: None,
    ) -> None:
        now_s = clock.monotonic_s()
        self._shown = FollowMonitor(clock=clock, topics_max=topics_max, newest=(view, now_s, now_s), waiting=waiting)
        super().__init__(self._shown, listen=listen, clock=clock)

    def show(self, view: FollowView) -> None:
        """Show `view` from now on. A call is the sign of life behind `/healthz`."""
        self._shown.show(view)
