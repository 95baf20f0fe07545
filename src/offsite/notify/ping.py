"""Pings in the style of healthchecks: a POST to URL/start at the begin, to URL after a success, to URL/fail after a
failure. A service that hears nothing for too long raises its own alarm: it is the one that notices a dead machine."""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPException
from urllib.parse import urlsplit, urlunsplit

from offsite.kafka.config import TlsConfig
from offsite.kafka.net.http_exchange import HttpLimits, HttpPeer, reason_of
from offsite.model.errors import OffsiteError
from offsite.notify.addresses import PingAddress
from offsite.notify.event import Event, EventKind
from offsite.notify.teller import Delivery, Limit

TIMEOUT_S = 30.0
TRIES = 3
_CONNECT_S, _READ_S = 5.0, 10.0
_PAUSE_S = 2.0
_ANSWER_BYTES = 64 << 10
_START, _FAIL = "/start", "/fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinger:
    """Pings one address. A `Receiver`."""

    address: PingAddress
    timeout_s: float = TIMEOUT_S

    def wants(self, event: Event) -> bool:
        return not self.address.commands or event.command in self.address.commands

    def deliver(self, event: Event, limit: Limit) -> list[Delivery]:
        began_s = limit.clock.monotonic_s()
        problem = "no time was left"
        for attempt in range(TRIES):
            if attempt and problem:
                limit.clock.sleep(max(0.0, min(_PAUSE_S, limit.left_s())))
            if limit.left_s() <= 0:
                break
            problem = self._asked(event, left_s=limit.left_s())
            if not problem:
                break
        took_s = round(limit.clock.monotonic_s() - began_s, 3)
        name = f"ping of line {self.address.line}"
        return [Delivery(to=name, event=event.kind, took_s=took_s, problem=problem)]

    def _asked(self, event: Event, *, left_s: float) -> str:
        """Send one request. Returns what went wrong, or nothing; never a text of the server, nor a part of the URL."""
        parts = urlsplit(self.address.url.reveal())
        target = urlunsplit(("", "", f"{parts.path.rstrip('/')}{suffix_of(event.kind)}" or "/", parts.query, ""))
        limits = HttpLimits(
            connect_timeout_s=min(_CONNECT_S, left_s), read_timeout_s=min(_READ_S, left_s), answer_bytes=_ANSWER_BYTES
        )
        peer = HttpPeer(self.address.url.reveal(), tls=TlsConfig(trusts_machine=True), limits=limits)
        try:
            answer = peer.ask("POST", target, {"Content-Type": "application/json"}, event.encode())
        except OffsiteError as error:
            return error.message
        except (OSError, HTTPException, ValueError) as error:
            return reason_of(error)
        finally:
            peer.close()
        if 200 <= answer.status < 300:
            return ""
        is_redirect = 300 <= answer.status < 400
        return f"it answered {answer.status}{', and redirects are not followed' if is_redirect else ''}"


def suffix_of(kind: EventKind) -> str:
    """What a ping adds to its URL."""
    if kind is EventKind.BEGAN:
        return _START
    return _FAIL if kind.is_bad else ""
