"""The HTTP server: uvicorn, with limits for whoever talks slowly, or all at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from offsite.model.errors import BadOption

CONNECTIONS_MAX = 256
HEADERS_MAX = 32 * 1024
PATIENCE_S = 10.0
"""Seconds within which a request must have come, from its first byte on; the first one of a connection from the
connection on. And between two looks at what is taken of an answer."""
TAKEN_BYTES = 64 * 1024
"""What must be taken of an answer between two looks, or all of it."""
KEPT_ALIVE_S = 10
ENDS_WITHIN_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A socket that listens; `port` is the one that was chosen, where any free one was asked for."""

    socket: socket.socket

    @property
    def host(self) -> str:
        """The address that a name was resolved to: it may have others, where somebody else listens."""
        return str(self.socket.getsockname()[0])

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


@contextmanager
def listen(host: str, port: int) -> Iterator[Listening]:
    """A block in which the address is ours. Raises `BadOption` where it cannot be had."""
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
        yield Listening(socket=listening)


def serve(app: ASGIApp, *, sockets: Listening, tls: tuple[Path, Path] | None) -> None:
    """Serve until a signal ends it. `tls`: a certificate and its key. Requests that are being answered get
    `ENDS_WITHIN_S` seconds. Raises `BadOption` for a certificate that cannot be used."""
    config = uvicorn.Config(
        app,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # warnings are about what strangers send, a line for each
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
    except OSError as error:  # ssl.SSLError is one
        raise BadOption(f"the certificate or its key cannot be used: {error}", hint="both are files in PEM") from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    uvicorn.Server(config).run(sockets=[sockets.socket])


class Protocol(H11Protocol):
    """Ends connections of those who say nothing whole, or take nothing of their answer, for too long: uvicorn has a
    limit for those that wait only. Where there are too many, the one that has let us wait longest makes room: whoever
    holds connections open keeps nobody out who has something to ask."""

    _patience: asyncio.TimerHandle | None = None
    _waited_for: object = None
    since_s = 0.0
    _unsent = 0
    _was_taken = False
    is_cut_off = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  # uvicorn's
        super().connection_made(transport)
        self._wait()
        opened = [each for each in self.connections if isinstance(each, Protocol) and not each.is_cut_off]
        if len(opened) >= CONNECTIONS_MAX:
            min((each for each in opened if each.is_waiting), key=lambda each: each.since_s).cut_off()

    def data_received(self, data: bytes) -> None:
        if self.cycle is not None and self.cycle.response_complete and self._waited_for is not self.cycle:
            self._wait()  # these are the first bytes of a later request
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
        """Whether it is the client's turn: to send a request, the rest of one, or to take an answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _wait(self) -> None:
        self._waited_for, self.since_s = self.cycle, self.loop.time()
        self._look_later()

    def _look_later(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self.loop.call_later(PATIENCE_S, self._look)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent and self._unsent and not self._was_taken and unsent > self._unsent - TAKEN_BYTES:
            self.cut_off()
        elif not unsent and self.cycle is self._waited_for and not self.transport.is_closing():
            self.transport.close()  # no request has come whole
        self._unsent, self._was_taken = unsent, False
        self._look_later()

    def cut_off(self) -> None:
        """What is unsent is thrown away: to close it would wait for whoever does not take it."""
        self.is_cut_off = True
        self.transport.abort()
