"""One request on its way through the proxy: what a fault may do with it and with its answer."""

from __future__ import annotations

import random
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.misbehaving_broker.messages import HungUpError, Request, framed, read_frame

AfterAsking = Callable[[Request, bytes], bytes]
"""What the proxy itself changes in every answer: addresses, so that clients come back through it."""


class Link:
    """A client's connection and the proxy's own to the broker. `deaf`: whatever comes from now on is passed on, and
    never answered; `dead`: it is not even passed on. `held` goes out behind the next answer. `fetch_bytes`: no Fetch
    is allowed more, if given."""

    def __init__(
        self, client: socket.socket, server: socket.socket, *, ended: threading.Event, fetch_bytes: int | None = None
    ) -> None:
        self.fetch_bytes = fetch_bytes
        self.client = client
        self.server = server
        self.ended = ended
        self.deaf = self.dead = False
        self.held: bytes | None = None

    def send(self, data: bytes) -> None:
        try:
            self.client.sendall(data)
        except OSError as error:
            raise HungUpError from error

    def pause(self, duration_s: float) -> None:
        if self.ended.wait(duration_s):
            raise HungUpError

    def client_speaks(self, within_s: float) -> bool:
        """True when another request is already there, or comes within that time."""
        return bool(select.select([self.client], [], [], within_s)[0])


class Exchange:
    """A fault calls `ask` at most once (or never: then the broker heard nothing) and replies as it likes."""

    def __init__(self, link: Link, request: Request, *, random: random.Random, after_asking: AfterAsking) -> None:
        self.link = link
        self.request = request
        self.random = random
        self._after_asking = after_asking

    def ask(self) -> bytes:
        """Pass the request on; the broker's answer, header included. Raises `HungUpError`."""
        self.pass_on()
        return self._after_asking(self.request, read_frame(self.link.server))

    def pass_on(self) -> None:
        try:
            limit = self.link.fetch_bytes
            self.link.server.sendall(framed(self.request.capped(limit) if limit else self.request.payload))
        except OSError as error:
            raise HungUpError from error

    def reply(self, answer: bytes) -> None:
        """Send an answer, and then one that was held back."""
        self.link.send(framed(answer))
        held, self.link.held = self.link.held, None
        if held is not None:
            self.link.send(framed(held))

    def change(self, change: Callable[[Any], None]) -> None:
        """Ask, let `change` work on the decoded body in place, and reply."""
        answer = self.ask()
        body = self.request.decoded(answer)
        change(body)
        self.reply(self.request.encoded(answer, body))

    def cut(self) -> None:
        raise HungUpError
