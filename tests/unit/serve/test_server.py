"""The server in front of the application: whoever is slow, or says nothing, holds nothing that others need."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from offsite.serve import app as http_server
from offsite.serve.app import BoundedProtocol, listen

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"x" * (32 << 20)


async def answer_small(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("ok")(scope, receive, send)


async def answer_large(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(LARGE)(scope, receive, send)


def served(app: ASGIApp, talk: Callable[[int, ServerState], Awaitable[Any]]) -> Any:
    """What `talk` returns of a server of `app`: it is given its port, and what it knows of its connections."""

    async def run() -> Any:
        config, state = (
            uvicorn.Config(app, http=BoundedProtocol, ws="none", lifespan="off", log_config=None),
            ServerState(),
        )
        config.load()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: BoundedProtocol(config, state, {}), "127.0.0.1", 0, backlog=4096)
        try:
            return await talk(server.sockets[0].getsockname()[1], state)
        finally:
            server.close()
            for each in list(state.connections):
                each.transport.abort()

    return asyncio.run(run())


async def until(seen: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if seen():
            return True
        await asyncio.sleep(0.01)
    return False


def test_whoever_holds_connections_and_says_nothing_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """He may begin requests, too: what counts is whose turn it is."""
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 8)
    monkeypatch.setattr(http_server, "CLIENT_TIMEOUT_S", 1000.0)  # by that none goes

    async def talk(port: int, state: ServerState) -> bytes:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in silent[::2]:
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nbegin")
            with suppress(ConnectionError):
                await writer.drain()
        assert await until(lambda: len(state.connections) <= 8)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        answer = await reader.readuntil(b"\r\n")
        for _, each in [*silent, (reader, writer)]:
            each.close()
        return answer

    assert served(answer_small, talk).startswith(b"HTTP/1.1 200")


def test_nonsense_of_strangers_fills_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("uvicorn.error")
    before = log.level
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    try:
        with listen("127.0.0.1", 0) as sockets:
            http_server.serve(answer_small, sockets=sockets, tls=None)
        assert not log.isEnabledFor(logging.WARNING)
    finally:
        log.setLevel(before)


def test_a_name_with_several_addresses_is_told_as_the_one_that_is_listened_on() -> None:
    """Somebody else may listen on the other address of localhost, with the same port."""
    with listen("localhost", 0) as sockets:
        assert sockets.host in {"127.0.0.1", "::1"}


def test_an_answer_that_nobody_takes_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is, it is in memory: with a keep-alive alone uvicorn waited for ever for it to be sent."""
    monkeypatch.setattr(http_server, "CLIENT_TIMEOUT_S", 0.1)

    async def talk(port: int, state: ServerState) -> bool:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(REQUEST)
            assert await until(lambda: len(state.connections) == 1)
            return await until(lambda: not state.connections)

    assert served(answer_large, talk)


def test_an_answer_that_is_taken_slowly_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CLIENT_TIMEOUT_S", 0.1)

    async def talk(port: int, _: ServerState) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        size = 0
        while size < len(LARGE):
            size += len(await reader.readexactly(min(1 << 20, len(LARGE) - size)))
            await asyncio.sleep(0.01)
        writer.close()
        return size

    assert served(answer_large, talk) == len(LARGE)
