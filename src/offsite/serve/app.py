"""The application: routers, answers for errors, and the HTTP server: uvicorn, with limits on slow clients and on many
connections. Contains no decisions.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from offsite.model.errors import BadOption, OffsiteError
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.model.version import __version__
from offsite.serve import actuator
from offsite.serve.answers import answer_error, problem, status_of
from offsite.serve.coordinator import OneRepository, SeveralRepositories
from offsite.serve.gate import Gate, GateRules
from offsite.serve.pages import deleted, login, look, over_time, proofs, records, start
from offsite.serve.pages import jobs as job_pages
from offsite.serve.pages import restores as restore_pages
from offsite.serve.pages.page import page
from offsite.serve.repository_watch import RepositoryWatch
from offsite.serve.site import Site
from offsite.serve.v1 import jobs, plans, read, restores
from offsite.serve.v1 import records as v1_records
from offsite.serve.v1.requests import path_of

CONNECTIONS_MAX = 256
HEADERS_MAX = 32 * 1024
CLIENT_TIMEOUT_S = 10.0
"""Seconds within which a whole request must arrive, from its first byte, or for the first request from the connection.
Also the time between two checks of the client's reading."""
READ_MIN_BYTES = 64 * 1024
"""Bytes of an answer that a client must read between two checks, unless less is left."""
KEPT_ALIVE_S = 10
ENDS_WITHIN_S = 5

V1 = "/api/v1"
_PROBLEMS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningSocket:
    """A listening socket. `port`: the actual port, if any free port was requested."""

    socket: socket.socket

    @property
    def host(self) -> str:
        """The resolved address of a name: the name may have other addresses, where another server listens."""
        return str(self.socket.getsockname()[0])

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


@contextmanager
def listen(host: str, port: int) -> Iterator[ListeningSocket]:
    """Bind the address for a block. Raises `BadOption` if the address cannot be bound."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((str(place[0]), int(place[1])), family=family, backlog=CONNECTIONS_MAX)
    except OSError as error:
        raise BadOption(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another --port; 0 takes a free one",
        ) from error
    # What is accepted inherits it. asyncio sets it only for sockets that name their protocol; without it the second
    # half of an answer waits 40 ms for the client's delayed ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listening:
        yield ListeningSocket(socket=listening)


def serve(app: ASGIApp, *, sockets: ListeningSocket, tls: tuple[Path, Path] | None) -> None:
    """Serve until a signal. `tls`: certificate and key. Running requests get `ENDS_WITHIN_S` seconds. Raises
    `BadOption` for an unusable certificate."""
    config = uvicorn.Config(
        app,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # warnings are about input of strangers, one line each
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=2 * CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEADERS_MAX,
        timeout_keep_alive=KEPT_ALIVE_S,
        timeout_graceful_shutdown=ENDS_WITHIN_S,
    )
    try:
        config.load()
    except OSError as error:  # includes ssl.SSLError
        raise BadOption(f"the certificate or its key cannot be used: {error}", hint="both are files in PEM") from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    uvicorn.Server(config).run(sockets=[sockets.socket])


class BoundedProtocol(H11Protocol):
    """Closes connections of clients that send no whole request, or do not read their answer, for too long: uvicorn
    limits idle connections only. With too many connections, the connection that has kept the server waiting longest is
    closed: open connections cannot exclude other clients."""

    _patience: asyncio.TimerHandle | None = None
    _waited_for: object = None
    since_s = 0.0
    _unsent = 0
    _was_taken = False
    is_cut_off = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  # uvicorn's
        super().connection_made(transport)
        self._wait()
        opened = [
            connection
            for connection in self.connections
            if isinstance(connection, BoundedProtocol) and not connection.is_cut_off
        ]
        if len(opened) >= CONNECTIONS_MAX:
            min(
                (connection for connection in opened if connection.is_waiting),
                key=lambda connection: connection.since_s,
            ).cut_off()

    def data_received(self, data: bytes) -> None:
        if self.cycle is not None and self.cycle.response_complete and self._waited_for is not self.cycle:
            self._wait()  # the first bytes of a later request
        super().data_received(data)

    def resume_writing(self) -> None:
        self._was_taken = True
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether the client must act: send a request or its rest, or read an answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _wait(self) -> None:
        self._waited_for, self.since_s = self.cycle, self.loop.time()
        self._look_later()

    def _look_later(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self.loop.call_later(CLIENT_TIMEOUT_S, self._look)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and self._unsent and not self._was_taken and unsent > self._unsent - READ_MIN_BYTES:
            self.cut_off()
        elif not unsent and self.cycle is self._waited_for and not self.transport.is_closing():
            self.transport.close()  # no whole request arrived
        self._unsent, self._was_taken = unsent, False
        self._look_later()

    def cut_off(self) -> None:
        """Discard unsent bytes: a normal close would wait for the client to read."""
        self.is_cut_off = True
        self.transport.abort()


def make_app(site: Site, guarded: GateRules) -> Gate:
    """Make the coordinator of one repository as an ASGI application, behind its gate."""
    app = routes()
    app.state.guarded = guarded
    return Gate(OneRepository(site, app), guarded)


def make_app_of_several(watches: Mapping[str, RepositoryWatch], guarded: GateRules) -> Gate:
    """The same with several, by name."""
    whole, app = routes_over_all(), routes_of_repository()
    whole.state.guarded = app.state.guarded = guarded
    several = SeveralRepositories(watches, whole=whole, app=app)
    return Gate(several, guarded, find=several.find)


def routes() -> FastAPI:
    """Make the application of a coordinator with one repository, with all routes; the rules are in its `state`. The
    first request builds the route table, in a third of a second."""
    return _with_repository(_application(login))


def routes_over_all() -> FastAPI:
    """The pages over several repositories."""
    return _application(start, login)


def routes_of_repository() -> FastAPI:
    """The same without the pages of the whole coordinator."""
    return _with_repository(_application())


def _with_repository(app: FastAPI) -> FastAPI:
    for routes_module in (read, v1_records, jobs, restores, plans):
        app.include_router(routes_module.router, prefix=V1)
    for prefix in actuator.PREFIXES:
        app.include_router(actuator.router, prefix=prefix)
    for routes_module in (look, deleted, over_time, proofs, records, job_pages, restore_pages):
        app.include_router(routes_module.router)
    return app


def _application(*pages: ModuleType) -> FastAPI:
    app = FastAPI(
        title="offsite",
        version=__version__,
        summary="Take, watch and restore backups of Kafka.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    for routes_module in pages:
        app.include_router(routes_module.router)
    app.exception_handler(OffsiteError)(_of_ours)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(Exception)(_answer_bug)
    return app


def _is_actuator(request: Request) -> bool:
    return path_of(request).startswith(actuator.PREFIXES)


def _is_page(request: Request) -> bool:
    return not path_of(request).startswith((V1, "/openapi.json"))


def _of_ours(request: Request, error: OffsiteError) -> Response:
    if _is_actuator(request):
        return actuator.answer_error(error)
    if not _is_page(request):
        return answer_error(error)
    return _problem_page(request, status_of(error), error.message, error.hint, error.id)


def _problem_page(request: Request, status: HTTPStatus, message: str, hint: str, problem_id: str) -> Response:
    return page(request, "problem.html", status, title=status.phrase, message=message, hint=hint, id=problem_id)


def _invalid(request: Request, error: RequestValidationError) -> Response:
    said = "; ".join(_said(detail) for detail in error.errors()[:_PROBLEMS_MAX])
    if _is_actuator(request):
        return actuator.answer_message(HTTPStatus.BAD_REQUEST, said)
    if _is_page(request):
        return _problem_page(request, HTTPStatus.BAD_REQUEST, said, "", "OFF-0202")
    return problem(HTTPStatus.BAD_REQUEST, id="OFF-0202", message=said, hint="see the API at /openapi.json")


def _said(detail: dict[str, object]) -> str:
    where = detail.get("loc", ())
    path = ".".join(str(part)[:60] for part in where) if isinstance(where, tuple | list) else ""
    return f"{path}: {detail.get('msg')}"


def _http(request: Request, error: HTTPException) -> Response:
    status = HTTPStatus(error.status_code)
    if _is_actuator(request):
        return actuator.answer_message(status, status.phrase)
    if _is_page(request) and "text/html" in request.headers.get("accept", ""):
        return _problem_page(
            request, status, "There is no such page, or the page does not accept this request.", "", "OFF-0202"
        )
    response = problem(status, id="OFF-0202", message=status.phrase, hint="see the API at /openapi.json")
    response.headers.update(error.headers or {})
    return response


def _answer_bug(_: Request, error: Exception) -> Response:
    failed("api", why=safe_line(error), trace=safe_trace(error))
    return JSONResponse(
        {"error": {"id": "OFF-0100", "message": "a mistake of offsite; see the log of the coordinator", "hint": ""}},
        status_code=HTTPStatus.INTERNAL_SERVER_ERROR,
    )
