"""Signatures of ID tokens, by each kind of key, and keys that are none."""

from __future__ import annotations

import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from offsite.serve.oidc.id_token import BadIdToken, ExpectedToken, check_id_token, parse_keys
from tests.oidc_provider import unsigned_token

NOW_S = int(time.time())
CLAIMS = {"iss": "https://id", "aud": "offsite", "nonce": "n", "sub": "1f", "iat": NOW_S, "exp": NOW_S + 60}
EXPECTED = ExpectedToken(issuer="https://id", client_id="offsite", nonce="n")
RSA, P256, P384 = RSAKey.generate_key(2048), ECKey.generate_key("P-256"), ECKey.generate_key("P-384")
ED, X = OKPKey.generate_key("Ed25519"), OKPKey.generate_key("X25519")


def checked(token: str, *keys: RSAKey | ECKey | OKPKey, **more: Any) -> dict[str, Any]:
    known_keys = parse_keys({"keys": [{**key.as_dict(private=False), "kid": "k", **more} for key in keys]})
    return check_id_token(token, find_keys=lambda _: known_keys, expected=EXPECTED, now_s=NOW_S)


def signed(key: RSAKey | ECKey | OKPKey, algorithm: str, **header: Any) -> str:
    return jwt.encode({"alg": algorithm, "kid": "k", **header}, CLAIMS, key, algorithms=[algorithm])


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS384"), (P256, "ES256"), (P384, "ES384"), (ED, "Ed25519")]
)
def test_a_token_of_each_kind_of_key_is_read(key: RSAKey | ECKey | OKPKey, algorithm: str) -> None:
    token = signed(key, algorithm, x5t="other")
    assert checked(token, key)["sub"] == "1f"
    assert checked(token, key, alg=algorithm)["sub"] == "1f"
    with pytest.raises(BadIdToken, match="no key"):
        checked(token, key, alg="RS512")
    with pytest.raises(BadIdToken, match="no key"):
        checked(token, key, use="enc")
    with pytest.raises(BadIdToken, match="several keys"):
        checked(token, key, key)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(P256, "RS256"), (RSA, "ES256"), (P384, "ES256"), (P256, "ES384"), (X, "Ed25519"), (ED, "ES256")],
)
def test_a_key_of_another_kind_or_curve_proves_nothing(key: RSAKey | ECKey | OKPKey, algorithm: str) -> None:
    token = f"{unsigned_token(CLAIMS, algorithm, 'k')}{'A' * 86}"
    with pytest.raises(BadIdToken):
        checked(token, key)


@pytest.mark.parametrize("header", [{"crit": ["x"], "x": 1}, {"b64": False, "crit": ["b64"]}])
def test_an_extension_that_nobody_knows_is_refused(header: dict[str, Any]) -> None:
    head = {"alg": "ES256", "kid": "k", **header}
    token = unsigned_token(CLAIMS, "ES256", "k").split(".")[1]
    with pytest.raises(BadIdToken):
        checked(f"{_encoded(head)}.{token}.{'A' * 86}", P256)


def _encoded(value: dict[str, Any]) -> str:
    import base64
    import json

    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "token", ["", "a.b", "a.b.c", "....", "e30.e30.", "eyJhbGciOjF9.e30.x", "\N{SNOWMAN}.a.b", "a" * 200_000]
)
def test_what_is_no_token_proves_nothing(token: str) -> None:
    with pytest.raises(BadIdToken):
        checked(token, P256)


def test_keys_that_are_none_are_left_out() -> None:
    small = {"kty": "RSA", "n": "AQAB", "e": "AQAB"}
    secret, curve = {"kty": "oct", "k": "AAAA"}, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}
    for key in (small, secret, curve, {"kty": "RSA", "n": 1, "e": []}, {"kty": "OKP", "crv": "no", "x": "!"}, 7, {}):
        assert parse_keys({"keys": [key]}) == ()
    for document in ({}, {"keys": 1}, {"keys": [{}] * 101}, [], "x"):
        with pytest.raises(BadIdToken):
            parse_keys(document)  # type: ignore[arg-type]
