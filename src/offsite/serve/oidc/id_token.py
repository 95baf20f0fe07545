"""ID tokens: signatures and claims (OpenID Connect Core 1.0, 3.1.3.7; RFC 8725). Pure: keys and time come in.

Algorithms are pinned to asymmetric ones, whatever a token or the provider says: no `none`, and no HMAC, whose key
would be the public key or the client secret.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from offsite.model.untrusted.bounded_json import STRICT, UNAMBIGUOUS, BadJson, decode_object
from offsite.model.untrusted.json_object import JsonValue

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
TOKEN_MAX = 128 * 1024
SKEW_S = 60
"""Seconds that the clocks of the provider and of this machine may differ."""
ISSUED_WITHIN_S = 10 * 60
"""A token that was issued for this login is younger."""
KEYS_MAX = 100
_RSA_BITS_MIN = 2048
_PARTS = 3
_SUBJECT_MAX = 255

Claims: TypeAlias = dict[str, JsonValue]
VerificationKey: TypeAlias = RSAKey | ECKey | OKPKey
_KINDS: Mapping[str, tuple[type[VerificationKey], tuple[str, ...]]] = {
    "RSA": (RSAKey, ("RS", "PS")),
    "EC": (ECKey, ("ES",)),
    "OKP": (OKPKey, ("Ed",)),
}


class BadIdToken(Exception):  # an answer to a login, not a bug
    """The token proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """A public key of the provider. `algorithm` empty: any that fits its kind."""

    kid: str
    kind: str
    algorithm: str
    key: VerificationKey

    def fits(self, algorithm: str) -> bool:
        return algorithm.startswith(_KINDS[self.kind][1]) and self.algorithm in {"", algorithm}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedToken:
    issuer: str
    client_id: str
    nonce: str


def parse_keys(document: JsonValue) -> tuple[KnownKey, ...]:
    """Return the usable keys of a JWK Set: public, for signatures, of a kind and size that is known. Others are left
    out (RFC 7517, 5). Raises `BadIdToken` where it is no JWK Set."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > KEYS_MAX:
        raise BadIdToken("the keys of the provider are no JWK Set")
    return tuple(key for entry in keys if isinstance(entry, dict) and (key := _key(entry)) is not None)


def _key(entry: Claims) -> KnownKey | None:
    kind, kid, algorithm = entry.get("kty"), entry.get("kid", ""), entry.get("alg", "")
    if not isinstance(kind, str) or not isinstance(kid, str) or not isinstance(algorithm, str):
        return None
    if kind not in _KINDS or entry.get("use", "sig") != "sig":
        return None
    public = {name: value for name, value in entry.items() if name in {"kty", "n", "e", "crv", "x", "y"}}
    try:
        key = _KINDS[kind][0].import_key(public)  # type: ignore[arg-type]
        is_large = kind != "RSA" or key.raw_value.key_size >= _RSA_BITS_MIN  # type: ignore[union-attr]
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return KnownKey(kid=kid, kind=kind, algorithm=algorithm, key=key) if is_large else None


def check_id_token(
    token: str, *, find_keys: Callable[[str | None], Iterable[KnownKey]], expected: ExpectedToken, now_s: int
) -> Claims:
    """Return the claims of a token that was issued to this client, for this login. `find_keys`: returns the keys with
    a `kid`; without one, all keys. Raises `BadIdToken`, and the errors of `find_keys`."""
    if len(token) > TOKEN_MAX or token.count(".") != _PARTS - 1 or not token.isascii():
        raise BadIdToken("the ID token is no signed JSON Web Token")
    algorithm, kid = _head(token)
    keys = [key for key in find_keys(kid) if key.fits(algorithm)]
    if len(keys) != 1:
        raise BadIdToken(f"the provider has {'several keys' if keys else 'no key'} that may have signed the ID token")
    try:
        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        signed = jws.deserialize_compact(token.encode(), keys[0].key, algorithms=list(ALGORITHMS), registry=registry)
        claims = decode_object(signed.payload or b"", decoder=UNAMBIGUOUS)
    except (JoseError, BadJson, ValueError) as error:
        raise BadIdToken("the signature of the ID token is wrong") from error
    _check_claims(claims, expected, now_s)
    return claims


def _head(token: str) -> tuple[str, str | None]:
    """The algorithm and the key id that the token names."""
    try:
        text = token.partition(".")[0]
        header = decode_object(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), decoder=STRICT)
    except (BadJson, ValueError) as error:
        raise BadIdToken("the ID token is no signed JSON Web Token") from error
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise BadIdToken("the ID token is not signed by an asymmetric algorithm")
    if kid is not None and not isinstance(kid, str):
        raise BadIdToken("the ID token names its key wrongly")
    return algorithm, kid


def _check_claims(claims: Claims, expected: ExpectedToken, now_s: int) -> None:
    if claims.get("iss") != expected.issuer:
        raise BadIdToken("the ID token is of another issuer")
    audience = claims.get("aud")
    clients = audience if isinstance(audience, list) else [audience]
    if expected.client_id not in clients:
        raise BadIdToken("the ID token is for another client")
    if claims.get("azp", expected.client_id if len(clients) == 1 else None) != expected.client_id:
        raise BadIdToken("the ID token was issued to another client")
    ends_s, issued_s, valid_from_s = (_time(claims, name) for name in ("exp", "iat", "nbf"))
    if ends_s is None or ends_s <= now_s - SKEW_S:
        raise BadIdToken("the ID token has expired")
    if issued_s is None or issued_s > now_s + SKEW_S or issued_s < now_s - ISSUED_WITHIN_S:
        raise BadIdToken("the ID token was not issued just now: compare the clocks")
    if valid_from_s is not None and valid_from_s > now_s + SKEW_S:
        raise BadIdToken("the ID token is not valid yet: compare the clocks")
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode("utf-8", "replace"), expected.nonce.encode()):
        raise BadIdToken("the ID token was issued for another login")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_MAX:
        raise BadIdToken("the ID token names nobody")


def _time(claims: Claims, name: str) -> float | None:
    """Raises `BadIdToken` for a value that is no time."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadIdToken(f"the ID token has no time as {name}")
    return value


def claim_texts(claims: Claims, path: Sequence[str]) -> tuple[str, ...] | None:
    """Return the text or the texts at `path`; None: there is no such claim, or it holds something else."""
    value: JsonValue = claims
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return None
    return tuple(text for text in value if isinstance(text, str))
