"""One schema registry over its REST API (Confluent's, which Karapace and Apicurio speak, too): questions and answers,
bounded in time and size.

A registry is trusted with nothing. Its answers are JSON up to a size, or `BadRegistry`. Redirects are refused, because
the login would go where nobody sent it. A message of the registry is shown in part, without the login.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from ssl import SSLCertVerificationError
from urllib.parse import quote, urlencode, urlsplit

from offsite.kafka.config import TlsConfig, TokenSource
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.http_exchange import HttpAnswer, HttpLimits, HttpPeer, place_of, reason_of
from offsite.kafka.net.sasl import read_token
from offsite.model.bounds import whole_number
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, BadRegistry, RegistryDenied, RegistryUnavailable
from offsite.model.machine import is_loopback
from offsite.model.secret import Secret, masked
from offsite.model.units import MIB
from offsite.model.untrusted.bounded_json import STRICT, BadJson, has_halves, parse_json
from offsite.model.untrusted.json_object import JsonValue
from offsite.model.untrusted.text import printable

ANSWER_BYTES_MAX = 32 * MIB
"""A page of a hundred schemas of 300 KiB. Registries keep a schema in one record of a topic, of 1 MiB by default."""
LIMITS = HttpLimits(connect_timeout_s=10.0, read_timeout_s=60.0, answer_bytes=ANSWER_BYTES_MAX)
_OUTAGE_MAX_S = 30.0
_RETRY_AFTER_MAX_S = 30
_MESSAGE_CHARS = 300
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_ABSENT = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_CONTENT = "application/vnd.schemaregistry.v1+json"
_MACHINE_TLS = TlsConfig(trusts_machine=True)
_URL_HINT = "write it as https://host:8081, with the path of the API where it has one (Apicurio: /apis/ccompat/v7)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicLogin:
    user: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAddress:
    """A registry, and how to log in there. `url`: as from `parse_registry_url`, empty for a login alone. `headers`:
    sent with each request, such as `target-sr-cluster` of Confluent Cloud. `allows_clear`: the login may go over a
    network without TLS."""

    url: str
    login: BasicLogin | TokenSource | None = None
    tls: TlsConfig = _MACHINE_TLS
    headers: tuple[tuple[str, str], ...] = ()
    allows_clear: bool = False

    @property
    def sends_login_in_clear(self) -> bool:
        """Whether a login goes over a network without TLS."""
        parts = urlsplit(self.url)
        return self.login is not None and parts.scheme == "http" and not is_loopback(parts.hostname or "")


def parse_registry_url(text: str) -> str:
    """Check the address of a registry, and return it without a slash at its end. Raises `BadOption`: for a login in the
    address too, which every list of processes would show."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadOption("the address of the registry cannot be read", hint=_URL_HINT) from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise BadOption(
            f"the address of the registry {parts.scheme}://{parts.hostname}… holds more than a place",
            hint="put the login into a file: basic.auth.user.info=USER:PASSWORD",
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or not text.isprintable():
        raise BadOption(f"{text[:300]!r} is not the address of a registry", hint=_URL_HINT)
    return text.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAnswer:
    """`value` is None where there is nothing (`is_absent`): no such subject, or a registry without this request."""

    status: int
    value: JsonValue = None
    message: str = ""

    @property
    def is_absent(self) -> bool:
        return self.status in _ABSENT

    @property
    def is_well(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    target: str
    body: bytes | None = None


class RegistryClient:
    """Asks one registry, for up to `outage_max_s` while it fails. Safe for threads: each has a connection of its own,
    which lasts until the thread ends."""

    def __init__(
        self,
        address: RegistryAddress,
        *,
        clock: Clock | None = None,
        limits: HttpLimits = LIMITS,
        outage_max_s: float = _OUTAGE_MAX_S,
    ) -> None:
        self._address, self._limits, self._outage_max_s = address, limits, outage_max_s
        self._clock = clock or SystemClock()
        self._of_thread = threading.local()
        self._peers: list[HttpPeer] = []
        self._is_closed = threading.Event()

    @property
    def place(self) -> str:
        """The address for people."""
        return place_of(self._address.url)

    def get(self, *path: str, **query: str | int) -> RegistryAnswer:
        """What the registry has at `path`, whose parts are escaped here. The answer is well or absent. Raises
        `RegistryUnavailable`, `RegistryDenied`, `BadRegistry`."""
        answer = self.send("GET", *path, query=query)
        if not answer.is_well and not answer.is_absent:
            raise BadRegistry(
                f"the registry {self.place} answers {answer.status} to GET /{'/'.join(path)}{answer.message}",
                hint="is the address that of a schema registry? does its log say more?",
            )
        return answer

    def send(
        self, method: str, *path: str, query: Mapping[str, str | int] | None = None, body: JsonValue = None
    ) -> RegistryAnswer:
        """Send a request that may be repeated: a registry that registers a schema twice gives one id. Any answer is
        returned but those of outages and of a refused login. Raises as `get`."""
        target = urlsplit(self._address.url).path + "".join(f"/{quote(part, safe='')}" for part in path)
        content = None if body is None else json.dumps(body).encode()
        request = _Request(method=method, target=f"{target}?{urlencode(query)}" if query else target, body=content)
        backoff = Backoff(self._clock, limit_s=self._outage_max_s)
        while not self._is_closed.is_set():
            try:
                return self._read(request, self._ask(request))
            except _LaterError as later:
                if self._is_closed.is_set():
                    raise later.error from later
                backoff.wait(later.error)
                for _ in range(later.wait_s):
                    if not self._is_closed.is_set():
                        self._clock.sleep(1)
        raise self._unavailable("is not asked any more")

    def close(self) -> None:
        """End all requests of all threads, and refuse new ones: they raise `RegistryUnavailable`."""
        self._is_closed.set()
        for peer in list(self._peers):
            peer.hang_up()

    def anew(self) -> RegistryClient:
        """A client of the same registry, to be closed by itself."""
        return RegistryClient(self._address, clock=self._clock, limits=self._limits, outage_max_s=self._outage_max_s)

    def _ask(self, request: _Request) -> HttpAnswer:
        peer = self._peer()
        headers = self._headers()
        try:
            if peer.is_connected:
                try:
                    return peer.ask(request.method, request.target, headers, request.body)
                except (OSError, HTTPException) as error:  # closed since the request before: nobody is to blame
                    if isinstance(error, TimeoutError) or self._is_closed.is_set():
                        raise
            return peer.ask(request.method, request.target, headers, request.body)
        except SSLCertVerificationError as error:
            raise BadRegistry(
                f"the certificate of the registry {self.place} is not accepted: {error.verify_message}",
                hint="put its authority into schema.registry.ssl.truststore.location; it must name the host",
            ) from error
        except (OSError, HTTPException) as error:
            raise _LaterError(self._unavailable(f"does not answer: {reason_of(error)}")) from error
        except ValueError as error:
            raise BadRegistry(
                f"the registry {self.place} gives an answer that is cut short, or longer than "
                f"{self._limits.answer_bytes // MIB} MiB"
            ) from error

    def _read(self, request: _Request, answer: HttpAnswer) -> RegistryAnswer:
        status = answer.status
        message = _message(answer.body, self._secrets()) if status >= HTTPStatus.MULTIPLE_CHOICES else ""
        if status in _DENIED:
            raise RegistryDenied(
                f"the registry {self.place} refuses {request.method} with {status}{message}",
                hint="check basic.auth.user.info or bearer.auth.*, and what this login may do",
            )
        if status in _LATER or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _ABSENT):
            wait_s = whole_number(answer.retry_after, most=_RETRY_AFTER_MAX_S) or 0
            raise _LaterError(self._unavailable(f"answers {status}{message}"), wait_s=wait_s)
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise BadRegistry(
                f"the registry {self.place} redirects to another place ({status})",
                hint="name the address that it redirects to",
            )
        if status >= HTTPStatus.BAD_REQUEST or not answer.body:
            return RegistryAnswer(status=status, message=message)
        return RegistryAnswer(status=status, value=self._parse(answer.body))

    def _parse(self, body: bytes) -> JsonValue:
        try:
            value = parse_json(body, max_bytes=ANSWER_BYTES_MAX, decoder=STRICT)
        except BadJson as error:
            raise BadRegistry(f"the registry {self.place} answers with {error}", hint=_URL_HINT) from error
        if has_halves(body, value):
            raise BadRegistry(f"the registry {self.place} answers with text that is no Unicode", hint=_URL_HINT)
        return value  # type: ignore[return-value]

    def _unavailable(self, what: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the registry {self.place} {what}", hint="check the address and the network, and https_proxy"
        )

    def _peer(self) -> HttpPeer:
        peer: HttpPeer | None = getattr(self._of_thread, "peer", None)
        if peer is None:
            peer = self._of_thread.peer = HttpPeer(self._address.url, tls=self._address.tls, limits=self._limits)
            self._peers.append(peer)
        return peer

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT, "User-Agent": "offsite"}
        proof = self._proof()
        return headers | dict(self._address.headers) | ({"Authorization": proof} if proof else {})

    def _proof(self) -> str:
        match self._address.login:
            case BasicLogin(user=user, password=password):
                return f"Basic {base64.b64encode(f'{user}:{password.reveal()}'.encode()).decode()}"
            case TokenSource() as source:
                return f"Bearer {read_token(source, urlsplit(self._address.url).hostname or '')}"
            case None:
                return ""

    def _secrets(self) -> Iterator[str]:
        """The login in each form that a registry could repeat."""
        yield self._proof().partition(" ")[2]
        if isinstance(self._address.login, BasicLogin):
            yield self._address.login.password.reveal()


class _LaterError(Exception):
    """Worth another attempt after `wait_s`; else `error` is raised."""

    def __init__(self, error: RegistryUnavailable, *, wait_s: int = 0) -> None:
        super().__init__(error.message)
        self.error, self.wait_s = error, wait_s


def _message(body: bytes, secrets: Iterable[str]) -> str:
    """What the registry says of an error: of its JSON alone, since a page of a proxy says nothing to a person."""
    try:
        fields = parse_json(body[: 64 * 1024], decoder=STRICT)
    except BadJson:
        return ""
    text = fields.get("message") if isinstance(fields, dict) else None
    return f" ({printable(masked(text, secrets))[:_MESSAGE_CHARS]})" if isinstance(text, str) and text else ""
