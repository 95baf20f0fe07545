"""The identity provider over HTTPS: its discovery document, its keys, and the exchange of a code for an ID token.

The provider is trusted with who somebody is, and with nothing else. Its answers are bounded in bytes and time, and no
redirect is followed. At most `ASKED_AT_ONCE` threads wait for the provider: the others answer at once, so a slow or
dead provider leaves the coordinator to everybody who is logged in or has a token.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from math import inf
from urllib.parse import quote_plus, urlencode, urlsplit

from offsite.kafka.net.http_exchange import HttpAnswer, HttpLimits, HttpPeer, place_of, reason_of
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.machine import is_loopback
from offsite.model.secret import masked
from offsite.model.units import KIB
from offsite.model.untrusted.bounded_json import UNAMBIGUOUS, BadJson, parse_json
from offsite.model.untrusted.json_object import JsonValue
from offsite.model.untrusted.text import printable
from offsite.serve.oidc.id_token import TOKEN_MAX, BadIdToken, KnownKey, parse_keys
from offsite.serve.oidc.settings import ProviderSettings

ASKED_AT_ONCE = 4
"""Threads that may wait for the provider, of forty in the server."""
LIMITS = HttpLimits(connect_timeout_s=3.0, read_timeout_s=5.0, answer_bytes=512 * KIB)
KNOWN_FOR_S = 3600.0
"""The discovery document and the keys are read again after this time."""
KEYS_READ_EACH_S = 30.0
"""An unknown key makes the keys be read again, at most once in this time: anybody can name unknown keys."""
FAILS_FOR_S = 5.0
"""After a failure the provider is left alone for this time."""
_CODE_CHARS = 60


class NoLogin(Exception):  # an answer to a login, not a bug
    """Why a login did not succeed. `message`: for the person; `why`: for the journal, with more."""

    def __init__(self, status: HTTPStatus, message: str, *, why: str = "", who: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.why, self.who = status, message, why or message, who


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What the provider says of itself (OpenID Connect Discovery 1.0). `end_session`: empty if there is none."""

    authorization: str
    token: str
    keys: str
    end_session: str
    takes_basic: bool
    names_itself: bool
    """Whether each answer to a browser names the issuer (RFC 9207)."""


@dataclass(slots=True)
class _Known:
    """Times are of the monotonic clock."""

    discovered: Discovered | None = None
    discovered_s: float = -inf
    keys: tuple[KnownKey, ...] = ()
    keys_s: float = -inf
    failed_s: float = -inf
    failure: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Provider:
    """One identity provider. For several threads: no thread holds a lock while it waits for an answer."""

    def __init__(self, settings: ProviderSettings, clock: Clock, limits: HttpLimits = LIMITS) -> None:
        self.settings, self._clock, self._limits = settings, clock, limits
        self._known, self._turns = _Known(), threading.BoundedSemaphore(ASKED_AT_ONCE)

    def discovered(self) -> Discovered:
        """Return what the provider says of itself, an hour old at most. Raises `NoLogin`."""
        cache = self._known
        if cache.discovered is None or self._clock.monotonic_s() - cache.discovered_s > KNOWN_FOR_S:
            url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            with self._conversation():
                document = self._discovered(self._object(self._ask("GET", url)))
                cache.discovered, cache.discovered_s = document, self._clock.monotonic_s()
        return cache.discovered

    def end_session_url(self) -> str:
        """Return where a person logs out at the provider, as far as is known already; empty: nowhere."""
        return self._known.discovered.end_session if self._known.discovered is not None else ""

    def find_keys(self, kid: str | None) -> tuple[KnownKey, ...]:
        """Return the keys with this id; without an id, all keys. An unknown id makes the keys be read again. Raises
        `NoLogin`."""
        age_s = self._clock.monotonic_s() - self._known.keys_s
        matching = self._matching(kid)
        if age_s > KNOWN_FOR_S or (not matching and age_s > KEYS_READ_EACH_S):
            self._read_keys()
            matching = self._matching(kid)
        return matching

    def exchange(self, code: str, *, verifier: str) -> str:
        """Return the ID token for a code (RFC 6749, 4.1.3; RFC 7636). Raises `NoLogin`."""
        endpoint = self.discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
            "client_id": self.settings.client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if (secret := self.settings.client_secret) is not None and endpoint.takes_basic:
            pair = f"{quote_plus(self.settings.client_id)}:{quote_plus(secret.reveal())}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif secret is not None:
            form["client_secret"] = secret.reveal()
        with self._conversation():
            answer = self._object(self._ask("POST", endpoint.token, headers, urlencode(form).encode()))
        token = answer.get("id_token")
        if not isinstance(token, str) or len(token) > TOKEN_MAX:
            raise self._strange("it gave no ID token: is openid among the scopes?")
        return token

    @property
    def redirect_uri(self) -> str:
        return f"{self.settings.public_url}/login/oidc/done"

    def _matching(self, kid: str | None) -> tuple[KnownKey, ...]:
        return tuple(key for key in self._known.keys if kid is None or key.kid == kid)

    def _read_keys(self) -> None:
        endpoint = self.discovered()
        with self._conversation():
            document = self._object(self._ask("GET", endpoint.keys))
        try:
            keys = parse_keys(document)
        except BadIdToken as error:
            raise self._strange(str(error)) from error
        self._known.keys, self._known.keys_s = keys, self._clock.monotonic_s()

    @contextmanager
    def _conversation(self) -> Iterator[None]:
        """A request to the provider. Raises `NoLogin` if too many threads wait already, or just after a failure."""
        cache = self._known
        if self._clock.monotonic_s() - cache.failed_s < FAILS_FOR_S:
            raise NoLogin(HTTPStatus.BAD_GATEWAY, cache.failure)
        if not self._turns.acquire(blocking=False):
            raise NoLogin(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"The identity provider {self.settings.place} is slow, and others wait for it already. Try again.",
            )
        try:
            yield
        finally:
            self._turns.release()

    def _ask(self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> bytes:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        shared = {"Accept": "application/json", "User-Agent": "offsite", "Connection": "close"}
        try:
            with closing(HttpPeer(url, tls=self.settings.tls, limits=self._limits)) as peer:
                answer = peer.ask(method, target, shared | dict(headers or {}), body)
        except (OSError, HTTPException, ValueError) as error:
            raise self._unavailable(url, reason_of(error)) from error
        except OffsiteError as error:  # certificates or a proxy that cannot be used
            raise self._unavailable(url, error.message) from error
        if answer.status != HTTPStatus.OK:
            raise self._refused(url, answer)
        return answer.body

    def _unavailable(self, url: str, reason: str) -> NoLogin:
        message = f"The identity provider {self.settings.place} does not answer. Log in with a token, or try again."
        self._known.failure, self._known.failed_s = message, self._clock.monotonic_s()
        return NoLogin(HTTPStatus.BAD_GATEWAY, message, why=f"{place_of(url)}: {reason}")

    def _refused(self, url: str, answer: HttpAnswer) -> NoLogin:
        """The error of the provider goes to the journal: a code was used, the secret is wrong, and so on."""
        try:
            fields = parse_json(answer.body, max_bytes=self._limits.answer_bytes)
        except BadJson:
            fields = {}
        code = fields.get("error") if isinstance(fields, dict) else ""
        secret = [self.settings.client_secret.reveal()] if self.settings.client_secret else []
        said = f", {printable(masked(code, secret)[:_CODE_CHARS])}" if isinstance(code, str) and code else ""
        message = f"The identity provider {self.settings.place} did not complete this login. Log in again."
        return NoLogin(HTTPStatus.BAD_GATEWAY, message, why=f"{place_of(url)} answers {answer.status}{said}")

    def _strange(self, reason: str) -> NoLogin:
        message = f"The identity provider {self.settings.place} gave an answer that is not accepted: {reason}"
        return NoLogin(HTTPStatus.BAD_GATEWAY, message)

    def _object(self, body: bytes) -> dict[str, JsonValue]:
        try:
            fields = parse_json(body, max_bytes=self._limits.answer_bytes, decoder=UNAMBIGUOUS)
        except BadJson as error:
            raise self._strange("it is not JSON") from error
        if not isinstance(fields, dict):
            raise self._strange("it is not a JSON object")
        return fields

    def _discovered(self, document: Mapping[str, JsonValue]) -> Discovered:
        """Check the document. Another issuer in it would be the one whose tokens count (mix-up)."""
        if document.get("issuer") != self.settings.issuer:
            shown = printable(str(document.get("issuer"))[:200])
            raise self._strange(f"it calls itself {shown}, and the file of --oidc says {self.settings.issuer}")
        methods = document.get("token_endpoint_auth_methods_supported")
        return Discovered(
            authorization=self._endpoint(document, "authorization_endpoint"),
            token=self._endpoint(document, "token_endpoint"),
            keys=self._endpoint(document, "jwks_uri"),
            end_session=self._endpoint(document, "end_session_endpoint") if "end_session_endpoint" in document else "",
            takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        )

    def _endpoint(self, document: Mapping[str, JsonValue], name: str) -> str:
        """The URL of an endpoint: https, or a loopback address where the issuer is one."""
        url = document.get(name)
        try:
            parts = urlsplit(url if isinstance(url, str) else "")
            host, _ = parts.hostname or "", parts.port
        except ValueError as error:
            raise self._strange(f"its {name} is not a URL") from error
        is_local = is_loopback(host) and is_loopback(urlsplit(self.settings.issuer).hostname or "")
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_local)
        if not host or not is_safe or parts.username is not None or parts.fragment or not str(url).isprintable():
            raise self._strange(f"its {name} is not an https URL")
        return str(url)
