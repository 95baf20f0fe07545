"""Access tokens from the token endpoint of an identity provider (RFC 6749, 4.4; RFC 7523), kept in the memory of the
process until they near their end, for all of its connections.

A fresh token is fetched by whoever logs in after the time for it, as in Kafka's client, which has a thread for that. A
provider that is down does no harm while the token at hand is valid, and is not asked again at once. An answer of the
endpoint is never shown whole: only the error code and its description, without the client's secret. Redirects are
refused, because a secret would go where nobody sent it.
"""

from __future__ import annotations

import base64
import json
import os
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from math import inf
from pathlib import Path
from socket import gethostname
from ssl import SSLCertVerificationError
from threading import Lock
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from offsite.kafka.config import BEARER_GRANT, TOKEN_TEXT, ClientAssertion, TokenEndpoint
from offsite.kafka.net.http_exchange import HttpLimits, HttpPeer, place_of, reason_of
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, TokenEndpointUnavailable, TokenRefused
from offsite.model.secret import masked
from offsite.model.units import MIB
from offsite.model.untrusted.text import printable

_MAX_ANSWER_BYTES = 1 * MIB
_MAX_REASON = 300
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_P_256_BITS = 256
_KEYS_READ_EVERY_S = 60  # of Kafka's brokers: how often they look for an unknown key
_REFUSED_HINT = "check the client id, its secret or assertion, and the scope, at the identity provider"
_UNAVAILABLE_HINT = "check sasl.oauthbearer.token.endpoint.url, the network, and https_proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """`lifetime_s`: None where the endpoint does not say, and the token cannot be read."""

    text: str = field(repr=False)
    lifetime_s: float | None


@dataclass(slots=True)
class _Kept:
    """What a process knows of one endpoint. Times are of the monotonic clock."""

    lock: Lock = field(default_factory=Lock)
    token: str = ""
    fetched_s: float = -inf
    refused_s: float = -inf
    refresh_s: float = -inf
    end_s: float = -inf
    error: TokenEndpointUnavailable | KafkaAuthenticationFailed | None = None
    asks_again_s: float = -inf


class TokenCache:
    """The tokens of a process, by endpoint and client. Thread-safe: one thread fetches, the others wait for it."""

    def __init__(self) -> None:
        self._kept: dict[TokenEndpoint, _Kept] = {}

    def token(self, endpoint: TokenEndpoint) -> str:
        """Return a valid token. Raises `TokenRefused`, `TokenEndpointUnavailable`, `KafkaAuthenticationFailed` or
        `BadKafkaConfig`."""
        kept = self._kept.setdefault(endpoint, _Kept())
        with kept.lock:
            now_s = time.monotonic()
            if now_s >= kept.refresh_s:
                self._refresh(endpoint, kept, now_s)
            return kept.token

    def discard(self, endpoint: TokenEndpoint, message: bytes, since_s: float) -> bool:
        """Forget the token of `message`, which a broker refused. Returns whether a fresh one may do: the token was
        fetched before `since_s`, another thread has a newer one already, or no fresh token was refused for a minute. A
        broker that does not know the key of a token refuses the token, and reads the provider's keys (Kafka's
        `RefreshingHttpsJwks`): at most once a minute for a key."""
        kept = self._kept.setdefault(endpoint, _Kept())
        with kept.lock:
            if not kept.token or kept.token.encode() not in message:
                return True
            kept.token, kept.refresh_s, kept.end_s = "", -inf, -inf
            if kept.fetched_s < since_s:
                return True
            earlier_s, kept.refused_s = kept.refused_s, time.monotonic()
            return kept.refused_s - earlier_s > _KEYS_READ_EVERY_S

    def clear(self) -> None:
        self._kept = {}

    def _refresh(self, endpoint: TokenEndpoint, kept: _Kept, now_s: float) -> None:
        try:
            token = self._fetch(endpoint, kept, now_s)
        except (TokenEndpointUnavailable, KafkaAuthenticationFailed):
            if now_s >= kept.end_s:
                raise
            return  # the token at hand is still valid
        lifetime_s = token.lifetime_s or 0.0  # of an unknown end: fetched for every login
        kept.token, kept.fetched_s, kept.error = token.text, time.monotonic(), None
        kept.refresh_s = now_s + refresh_delay_s(endpoint, lifetime_s, chance=random.random())  # noqa: S311
        kept.end_s = now_s + lifetime_s

    def _fetch(self, endpoint: TokenEndpoint, kept: _Kept, now_s: float) -> AccessToken:
        """Fetch a token, but repeat a failure of `retry_max_s` ago or less without a question."""
        if kept.error is not None and now_s < kept.asks_again_s:
            raise type(kept.error)(kept.error.message, hint=kept.error.hint)
        try:
            return fetch_token(endpoint)
        except (TokenEndpointUnavailable, KafkaAuthenticationFailed) as error:
            kept.error = type(error)(error.message, hint=error.hint)
            kept.asks_again_s = time.monotonic() + endpoint.retry_max_s
            raise


shared_tokens = TokenCache()
os.register_at_fork(after_in_child=shared_tokens.clear)  # another thread may have held a lock


def refresh_delay_s(endpoint: TokenEndpoint, lifetime_s: float, *, chance: float) -> float:
    """Return when a token is fetched anew, as Kafka's `ExpiringCredentialRefreshingLogin` counts. `chance`: from 0 to
    1. The minimum and the buffer do not count for a token that lives no longer than both."""
    delay_s = lifetime_s * min(endpoint.refresh_factor + endpoint.refresh_jitter * chance, 1)
    if endpoint.refresh_min_s + endpoint.refresh_buffer_s > lifetime_s:
        return delay_s
    return max(min(delay_s, lifetime_s - endpoint.refresh_buffer_s), endpoint.refresh_min_s)


def fetch_token(endpoint: TokenEndpoint) -> AccessToken:
    """Ask the endpoint, until it answers, for at most `retry_max_s` and one more attempt. Raises as
    `TokenCache.token`."""
    wait_s, end_s = endpoint.retry_s, time.monotonic() + endpoint.retry_max_s
    while True:
        try:
            return _ask(endpoint)
        except TokenEndpointUnavailable:
            if time.monotonic() + wait_s > end_s:
                raise
        time.sleep(wait_s)
        wait_s *= 2


def _ask(endpoint: TokenEndpoint) -> AccessToken:
    headers, form = _request(endpoint)
    try:
        status, answer = _post(endpoint, headers, urlencode(form).encode())
    except SSLCertVerificationError as error:
        raise TokenRefused(
            f"the certificate of the token endpoint {place_of(endpoint.url)} is not accepted: {error.verify_message}",
            hint="put its authority into ssl.truststore.location; the certificate must name the host",
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        raise TokenEndpointUnavailable(
            f"the token endpoint {place_of(endpoint.url)} does not answer: {reason_of(error)}", hint=_UNAVAILABLE_HINT
        ) from error
    if status in {HTTPStatus.OK, HTTPStatus.CREATED}:
        return _parse(endpoint, answer)
    text = f"{status}{_reason(_secrets(endpoint, headers, form), answer)}"
    if status in _LATER or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED):
        raise TokenEndpointUnavailable(
            f"the token endpoint {place_of(endpoint.url)} answers {text}", hint="ask who runs the identity provider"
        )
    raise TokenRefused(f"the token endpoint {place_of(endpoint.url)} refuses the client: {text}", hint=_REFUSED_HINT)


def _request(endpoint: TokenEndpoint) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers and the form of a request."""
    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Connection": "close",
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": "offsite",
    }
    form = {"grant_type": BEARER_GRANT if endpoint.is_bearer else "client_credentials"}
    if endpoint.assertion is None:
        secret = endpoint.client_secret.reveal() if endpoint.client_secret else ""
        pair = [quote_plus(part) if endpoint.encodes_header else part for part in (endpoint.client_id, secret)]
        headers["Authorization"] = f"Basic {base64.b64encode(':'.join(pair).encode()).decode()}"
    elif endpoint.is_bearer:
        form["assertion"] = client_assertion(endpoint.assertion)
    else:
        form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": client_assertion(endpoint.assertion)}
        form |= {"client_id": endpoint.client_id} if endpoint.client_id else {}
    return headers, form | ({"scope": endpoint.scope} if endpoint.scope else {})


def _post(endpoint: TokenEndpoint, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    parts = urlsplit(endpoint.url)
    limits = HttpLimits(
        connect_timeout_s=endpoint.connect_timeout_s,
        read_timeout_s=endpoint.read_timeout_s,
        answer_bytes=_MAX_ANSWER_BYTES,
    )
    with closing(HttpPeer(endpoint.url, tls=endpoint.tls, limits=limits)) as peer:
        target = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
        answer = peer.ask("POST", target, headers, body)
    return answer.status, answer.body


def _parse(endpoint: TokenEndpoint, answer: bytes) -> AccessToken:
    fields = _json_object(answer)
    token = fields.get("access_token") or fields.get("id_token")
    if not isinstance(token, str) or not TOKEN_TEXT.fullmatch(token):
        raise TokenRefused(
            f"the token endpoint {place_of(endpoint.url)} answers without an access_token",
            hint="is the URL that of the token endpoint?",
        )
    claims = token_claims(token)
    begin_s = _seconds(claims.get("iat")) or time.time()
    end_s = _seconds(claims.get("exp"))
    lifetimes = [_seconds(fields.get("expires_in")), end_s and end_s - begin_s]
    return AccessToken(text=token, lifetime_s=min((life for life in lifetimes if life and life > 0), default=None))


def _seconds(value: object) -> float | None:
    """A time or duration as providers write it: a number, or a text of digits."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 12:  # 30,000 years
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1e12 else None  # type: ignore[operator, arg-type]


def token_claims(token: str) -> Mapping[str, Any]:
    """Return what a JSON Web Token says of itself, unchecked; empty for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:  # header, payload, signature
        return {}
    try:
        return _json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _json_object(text: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _secrets(endpoint: TokenEndpoint, headers: Mapping[str, str], form: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of a request in all forms that it holds, the longer before their parts."""
    for name in ("assertion", "client_assertion"):
        yield form.get(name, "")
    yield headers.get("Authorization", "").removeprefix("Basic ")
    if endpoint.client_secret:
        yield quote_plus(endpoint.client_secret.reveal())
        yield endpoint.client_secret.reveal()


def _reason(secrets: Iterable[str], answer: bytes) -> str:
    """The error and its description (RFC 6749, 5.2), without `secrets`, whatever the endpoint repeats."""
    fields = _json_object(answer)
    texts = [
        fields.get("error") or fields.get("errorCode"),
        fields.get("error_description") or fields.get("errorSummary"),
    ]
    reason = ", ".join(text for text in texts if isinstance(text, str))
    return f" ({printable(masked(reason, secrets))[:_MAX_REASON]})" if reason else ""


def client_assertion(assertion: ClientAssertion) -> str:
    """Return a signed assertion: from its file, or made now. Raises `KafkaAuthenticationFailed`, `BadKafkaConfig`."""
    if assertion.file:
        return _read_assertion(assertion.file)
    template = json.loads(assertion.template or "{}")
    now_s = int(time.time())
    times = {"iat": now_s, "exp": now_s + assertion.lifetime_s, "nbf": now_s - assertion.backdated_s}
    header = template.get("header", {}) | {"alg": assertion.algorithm, "typ": "JWT"}
    payload = template.get("payload", {}) | dict(assertion.claims) | times
    if assertion.has_id:
        payload["jti"] = str(uuid.uuid4())
    content = b".".join(_base64(json.dumps(part).encode()) for part in (header, payload))
    return b".".join([content, _base64(_signature(assertion, content))]).decode()


def _read_assertion(path: str) -> str:
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise KafkaAuthenticationFailed(
            f"cannot read the client assertion {path} on {gethostname()}: {why}",
            hint="check sasl.oauthbearer.assertion.file",
        ) from error
    if not text:
        raise KafkaAuthenticationFailed(
            f"the client assertion {path} is empty", hint="check sasl.oauthbearer.assertion.file"
        )
    return text


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _signature(assertion: ClientAssertion, content: bytes) -> bytes:
    """Sign by RS256 or ES256 (RFC 7518)."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
    except ImportError:
        raise BadKafkaConfig(
            "a client assertion is signed by cryptography, which is not installed",
            hint="pip install 'offsite[oauth]'",
        ) from None

    pem = (assertion.key_pem.reveal() if assertion.key_pem else "").encode()
    password = assertion.key_password.reveal().encode() if assertion.key_password else None
    try:
        key = serialization.load_pem_private_key(pem, password)
    except (ValueError, TypeError) as error:  # no PEM; a passphrase that is wrong, missing or not needed
        raise BadKafkaConfig(
            f"the key of the client assertion cannot be used: {type(error).__name__}",
            hint="it has to be a private key in PEM format: check sasl.oauthbearer.assertion.private.key.*",
        ) from None
    if assertion.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if assertion.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey) and key.key_size == _P_256_BITS:
        numbers = utils.decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_P_256_BITS // 8, "big") for number in numbers)
    raise BadKafkaConfig(
        f"the key of the client assertion does not fit {assertion.algorithm}",
        hint="RS256 needs an RSA key, ES256 one of the curve P-256: set sasl.oauthbearer.assertion.algorithm",
    )
