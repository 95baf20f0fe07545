"""An identity provider for tests: a token endpoint over https, and the keys of its tokens (JWKS) over http, as a broker
reads them. Tokens are signed by a key of its own."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT, SECRET = "backup", "client-secret-7f3a"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: form, headers, path."""

    form: dict[str, str]
    headers: dict[str, str]
    path: str


@dataclass(slots=True)
class IdentityProvider:
    """Gives tokens of `lifetime_s` for `subject` to the clients of `secrets`, and to who signs by the key of
    `assertion_key` (PEM, public). `failures`: the next answers, as status and body. `signs`: whether tokens have a
    signature. `delay_s`: how long each answer takes. `only_token`: given instead of a new one."""

    certificate: Path
    subject: str = "alice"
    lifetime_s: float = 600
    signs: bool = True
    secrets: dict[str, str] = field(default_factory=lambda: {CLIENT: SECRET})
    assertion_key: str = ""
    only_token: str = ""
    failures: list[tuple[int, bytes]] = field(default_factory=list)
    delay_s: float = 0
    asked: list[Asked] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""
    plain_url: str = ""
    jwks_url: str = ""
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    _key_id: str = "tests"

    def token(self) -> str:
        now_s = int(time.time())
        claims = {"iat": now_s, "exp": int(now_s + self.lifetime_s), "jti": uuid.uuid4().hex}
        claims |= {"sub": self.subject, "iss": "tests", "aud": "kafka", "scope": "backup"}
        head = {"alg": "RS256", "kid": self._key_id, "typ": "JWT"} if self.signs else {"alg": "none"}
        content = b".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(content, padding.PKCS1v15(), hashes.SHA256()) if self.signs else b""
        return b".".join([content, _base64(signature)]).decode()

    def jwks(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        encoded = {
            name: _base64(part.to_bytes((part.bit_length() + 7) // 8, "big")).decode() for name, part in parts.items()
        }
        return {"keys": [{"kty": "RSA", "kid": self._key_id, "alg": "RS256", "use": "sig", **encoded}]}

    def change_keys(self) -> None:
        """Sign by another key of another name from now on: a broker refuses its tokens until it has read the keys."""
        self._key, self._key_id = rsa.generate_private_key(65537, 2048), uuid.uuid4().hex

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        time.sleep(self.delay_s)
        self.asked.append(asked)
        if self.failures:
            return self.failures.pop(0)
        if not self._may(asked):
            return 401, b'{"error": "invalid_client", "error_description": "unknown client or secret"}'
        self.tokens.append(self.only_token or self.token())
        return 200, json.dumps({"access_token": self.tokens[-1], "expires_in": self.lifetime_s}).encode()

    def _may(self, asked: Asked) -> bool:
        assertion = asked.form.get("client_assertion") or asked.form.get("assertion")
        if assertion is None:
            _, _, pair = asked.headers.get("Authorization", "").partition(" ")
            client, _, secret = base64.b64decode(pair).decode().partition(":")
            return asked.form["grant_type"] == "client_credentials" and self.secrets.get(client) == secret
        is_bearer = asked.form["grant_type"] == BEARER_GRANT
        if not is_bearer and asked.form.get("client_assertion_type") != ASSERTION_TYPE:
            return False
        kind = ECKey if self._is_ec else RSAKey
        claims = jwt.decode(assertion, kind.import_key(self.assertion_key), algorithms=["RS256", "ES256"]).claims
        return bool(claims["nbf"] <= time.time() < claims["exp"]) and claims["iss"] == CLIENT

    @property
    def _is_ec(self) -> bool:
        key = serialization.load_pem_public_key(self.assertion_key.encode())
        return not isinstance(key, rsa.RSAPublicKey)


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@contextmanager
def serving(provider: IdentityProvider) -> Iterator[IdentityProvider]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, json.dumps(provider.jwks()).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(dict(parse_qsl(body.decode())), dict(self.headers.items()), self.path)
            self._send(*provider.answer(asked))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status in {301, 302, 307}:
                self.send_header("Location", provider.plain_url)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    secure, plain = (ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(provider.certificate)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    provider.url = f"https://127.0.0.1:{secure.server_port}/oauth2/token"
    provider.plain_url = f"http://127.0.0.1:{plain.server_port}/oauth2/token"
    provider.jwks_url = f"http://127.0.0.1:{plain.server_port}/jwks"
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in (secure, plain)]
    try:
        for thread in threads:
            thread.start()
        yield provider
    finally:
        for server in (secure, plain):
            server.shutdown()
            server.server_close()
