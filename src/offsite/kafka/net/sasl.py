"""Logins over a connection: the SASL handshake, the rounds of a mechanism, and the credentials.

The mechanisms are kafka-python's. Two parts are offsite's own. A SCRAM challenge is checked before the answer: a false
broker could ask for few iterations, to find the password from the proof by guessing, or for so many iterations that the
client never returns. An OAUTHBEARER token is read from a file or a command for every login, and never kept; only tokens
of an endpoint are (`token_endpoint`). Source: KIP-43, KIP-84, KIP-255, KIP-368 (sessions end), KIP-152
(SaslAuthenticate inside the Kafka protocol); RFC 5802, RFC 7677 (at least 4,096 iterations; Kafka allows no fewer).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from time import monotonic, sleep
from typing import Any

from offsite.kafka.config import MECHANISMS, TOKEN_TEXT, SaslConfig, TokenSource
from offsite.kafka.net import kerberos, msk
from offsite.kafka.protocol.broker_errors import error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, KafkaUnreachable
from offsite.model.secret import masked
from offsite.model.untrusted.text import NotUtf8, decode_text

_MAX_ROUNDS = 8  # SCRAM needs two, OAUTHBEARER's refusal two: more is a broker gone mad
_HANDSHAKE_VERSION = 1
_AUTHENTICATE_VERSION = 1
_UNSUPPORTED_MECHANISM = 33
_WRONG_PROOF_HINT = (
    "is this your broker? A server without a valid proof may be an impostor: check the address before you send a "
    "password"
)
_OF_PASSWORDS, _OF_TOKENS = (
    "check username, password and mechanism",
    "check the token's issuer, audience, scope and end, and the SASL extensions",
)
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""Of SCRAM. Half a second of one core; Kafka's own limit is 16,384."""
_MAX_DIGITS = 7
_KEYS_READ_S = 1.0
_COMMAND_TIMEOUT_S = 30  # a token command that asks a person or hangs must not hang a backup

Call = Callable[[Request[Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handshake:
    code: int
    mechanisms: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    code: int
    message: str
    data: bytes
    lifetime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A login that the broker ends (KIP-368). `began_s`: no later than the broker's own start, of the monotonic clock.
    `lifetime_s`: 0 for a session without an end."""

    began_s: float
    lifetime_s: float


def authenticate(sasl: SaslConfig, call: Call, *, host: str = "") -> Session:
    """Log in through `call`, one request after another. The credentials are read before the first request, so that
    nothing was sent where they cannot be had. `host`: the broker's name, for logins that are made for one broker.
    Raises `KafkaAuthenticationFailed` when the broker refuses the login, `BadKafkaConfig` when the broker lacks the
    mechanism."""
    if sasl.mechanism not in MECHANISMS:
        raise BadKafkaConfig(
            f"SASL mechanism {sasl.mechanism!r} is not supported", hint=f"one of {', '.join(MECHANISMS)}"
        )
    mechanism, login_s = _mechanism(sasl, host), monotonic()
    first = sent = mechanism.auth_bytes()
    _check_handshake(sasl, call(_handshake(sasl.mechanism)))
    for number in range(_MAX_ROUNDS):
        began_s = monotonic()
        answer: _Round = call(_round(sent))
        if answer.code:
            _discard_token(sasl, first, login_s)
            raise _refused(sasl, _without_secrets(answer.message, sasl, first) or error_name(answer.code))
        try:
            if number == 0 and sasl.mechanism.startswith("SCRAM"):
                check_challenge(sent, answer.data)
            mechanism.receive(answer.data)
        except (ValueError, KeyError) as error:
            raise _refused(sasl, f"the broker's proof is wrong: {error}", hint=_WRONG_PROOF_HINT) from error
        if mechanism.is_done():
            return Session(began_s=began_s, lifetime_s=answer.lifetime_ms / 1000)
        sent = mechanism.auth_bytes()
    raise _refused(sasl, "the exchange did not end")


def _mechanism(sasl: SaslConfig, host: str) -> Any:  # noqa: ANN401  (kafka-python has no types)
    if sasl.aws is not None:
        return msk.MskIam(sasl.aws, host)
    if sasl.kerberos is not None:
        return kerberos.Gssapi(sasl.kerberos, host)
    from kafka.net.sasl import get_sasl_mechanism  # type: ignore[import-untyped]
    from kafka.net.sasl.oauth import AbstractTokenProvider  # type: ignore[import-untyped]

    class _Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            if sasl.token is None:
                raise BadKafkaConfig("OAUTHBEARER needs a token", hint="set a token, a token file or a token command")
            return read_token(sasl.token, host)

        def extensions(self) -> dict[str, str]:
            return dict(sasl.token.extensions) if sasl.token else {}

    return get_sasl_mechanism(sasl.mechanism)(
        sasl_mechanism=sasl.mechanism,
        sasl_plain_username=sasl.username,
        sasl_plain_password=sasl.password.reveal(),
        sasl_oauth_token_provider=_Provider(),
    )


def _handshake(mechanism: str) -> Request[_Handshake]:
    def read(answer: Decoder) -> _Handshake:
        return _Handshake(code=answer.i16(), mechanisms=answer.array(Decoder.string))

    body = Encoder().string(mechanism).done()
    return Request(api=Api.SASL_HANDSHAKE, version=_HANDSHAKE_VERSION, body=body, read=read)


def _round(data: bytes) -> Request[_Round]:
    def read(answer: Decoder) -> _Round:
        return _Round(code=answer.i16(), message=answer.string(), data=answer.blob(), lifetime_ms=max(0, answer.i64()))

    body = Encoder().blob(data).done()
    return Request(api=Api.SASL_AUTHENTICATE, version=_AUTHENTICATE_VERSION, body=body, read=read)


def _check_handshake(sasl: SaslConfig, answer: _Handshake) -> None:
    if answer.code == _UNSUPPORTED_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise BadKafkaConfig(f"the broker does not offer {sasl.mechanism}, only {offered}", hint="set sasl.mechanism")
    if answer.code:
        raise BadKafkaConfig(
            f"the broker refuses SASL on this listener: {error_name(answer.code)}",
            hint="use security.protocol=PLAINTEXT or SSL, or another listener",
        )


def _discard_token(sasl: SaslConfig, message: bytes, login_s: float) -> None:
    """Forget the token of a message that a broker refused. Raises `KafkaUnreachable`, for another attempt, where
    another token may do: the identity provider may have called this one back, or signs by a key that the broker is
    about to read, for which the broker gets a second."""
    if sasl.token is None or sasl.token.endpoint is None:
        return
    from offsite.kafka.net.token_endpoint import shared_tokens

    if shared_tokens.discard(sasl.token.endpoint, message, login_s):
        sleep(_KEYS_READ_S)
        raise KafkaUnreachable(
            "a broker refused a token of the token endpoint", hint="the next login fetches a fresh one"
        )


def _refused_hint(sasl: SaslConfig) -> str:
    if sasl.aws is not None or (sasl.token is not None and sasl.token.aws is not None):
        return msk.REFUSED_HINT
    if sasl.kerberos is not None:
        return kerberos.REFUSED_HINT
    return _OF_TOKENS if sasl.token else _OF_PASSWORDS


def _refused(sasl: SaslConfig, why: str, *, hint: str = "") -> KafkaAuthenticationFailed:
    who = f" as {sasl.username}" if sasl.username else ""
    message = f"{sasl.mechanism} authentication{who} failed: {why}"
    return KafkaAuthenticationFailed(message, hint=hint or _refused_hint(sasl))


def _without_secrets(message: str, sasl: SaslConfig, first: bytes) -> str:
    """Return what a broker says of a refused login, without the password or the token that it may repeat. `first`: the
    first message of the login."""
    token = first.partition(b"auth=Bearer ")[2].partition(b"\x01")[0].decode(errors="replace")
    return masked(message, (sasl.password.reveal(), token))


def check_challenge(sent: bytes, answer: bytes) -> None:
    """Check the server-first-message against our client-first-message. Raises `ValueError` with the reason."""
    fields = dict(pair.partition(b"=")[::2] for pair in answer.split(b","))
    ours, whole = sent.rpartition(b",r=")[2], fields.get(b"r", b"")
    if not whole.startswith(ours) or len(whole) <= len(ours):
        raise ValueError("its nonce does not begin with the nonce of offsite")
    iterations = fields.get(b"i", b"")
    if not iterations.isdigit() or len(iterations) > _MAX_DIGITS:
        raise ValueError("its iteration count is not a valid number")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise ValueError(
            f"it asks for {int(iterations):,} iterations; only {MIN_ITERATIONS:,} to {MAX_ITERATIONS:,} are accepted"
        )


def read_token(source: TokenSource, host: str = "") -> str:
    """Read the token now; that of an endpoint may be kept. `host`: the broker's name. Raises
    `KafkaAuthenticationFailed`, `TokenEndpointUnavailable`; the message never holds the command's output."""
    if source.static is not None:
        return source.static.reveal()
    if source.endpoint is not None:
        from offsite.kafka.net.token_endpoint import shared_tokens

        return shared_tokens.token(source.endpoint)
    if source.aws is not None:
        return msk.signed_token(source.aws, host)
    token = (_read_file(source.file) if source.file else _run(source.command)).strip()
    if not TOKEN_TEXT.fullmatch(token):
        what = "more than a token: it has white space, or is not ASCII" if token else "no token"
        raise KafkaAuthenticationFailed(
            f"the OAUTHBEARER token source returned {what}",
            hint="check the token file" if source.file else "run the token command yourself",
        )
    return token


def _read_file(path: str) -> str:
    try:
        return decode_text(Path(path).read_bytes())
    except OSError as error:
        raise KafkaAuthenticationFailed(
            f"cannot read the OAUTHBEARER token file {path} on {gethostname()}: {error.strerror}"
        ) from error
    except NotUtf8:
        raise KafkaAuthenticationFailed(f"the OAUTHBEARER token file {path} is not UTF-8 text") from None


def _run(command: tuple[str, ...]) -> str:
    try:
        completed = subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise KafkaAuthenticationFailed(
            f"the OAUTHBEARER token command {command[:1]} failed on {gethostname()}: {type(error).__name__}",
            hint="run the token command yourself",
        ) from None
    return completed.stdout.decode(errors="replace")
