"""An identity provider for tests of login (OpenID Connect), which misbehaves on demand. One that others wrote is in
`tests/integration/browser/certified.py`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "offsite", "client-secret-91c2"


@dataclass(slots=True)
class OidcProvider:
    """`claims`: of each ID token, over the usual ones; None leaves a claim out. `change`: makes other tokens from the
    usual ones. `document`: of the discovery, over the usual one. `delay_s`, `padding`: of each answer."""

    claims: dict[str, Any] = field(
        default_factory=lambda: {"sub": "1f", "preferred_username": "ann", "groups": ["ops"]}
    )
    document: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    make_token: Callable[[dict[str, Any]], str] | None = None
    delay_s: float = 0
    padding: int = 0
    issuer: str = ""
    key: RSAKey = field(default_factory=lambda: new_key("first"))
    published: list[RSAKey] | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def rotate(self, kid: str) -> None:
        self.key = new_key(kid)

    def authorize(self, url: str, **more: str) -> dict[str, str]:
        """What the provider sends a browser back with, which opened `url` and logged in there."""
        query = dict(parse_qsl(urlsplit(url).query))
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return {"code": code, "state": query["state"], **more}

    def discovery(self) -> dict[str, Any]:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "end_session_endpoint": f"{self.issuer}/logout",
        }
        return {name: value for name, value in {**usual, **self.document}.items() if value is not None}

    def jwks(self) -> dict[str, Any]:
        keys = [self.key] if self.published is None else self.published
        return {"keys": [key.as_dict(private=False) for key in keys]}

    def token(self, form: dict[str, str], login: str) -> tuple[int, dict[str, Any]]:
        begun = self.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        right = begun and _base64(challenge) == begun["code_challenge"]
        if begun is None or not right or login != f"{CLIENT}:{SECRET}" or form["redirect_uri"] != begun["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now_s = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT, "iat": now_s, "exp": now_s + 300, "nonce": begun["nonce"]}
        claims = {name: value for name, value in {**usual, **self.claims}.items() if value is not None}
        token = self.make_token(claims) if self.make_token else self.signed(claims)
        return 200, {"id_token": token, "access_token": "x", "token_type": "Bearer"}

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid, **self.header}, claims, self.key)

    def answer(self, path: str, body: bytes, login: str) -> tuple[int, bytes]:
        self.asked.append(path)
        time.sleep(self.delay_s)
        if path == "/.well-known/openid-configuration":
            status, fields = 200, self.discovery()
        elif path == "/jwks":
            status, fields = 200, self.jwks()
        else:
            status, fields = self.token(dict(parse_qsl(body.decode())), login)
        return status, json.dumps(fields).encode() + b" " * self.padding


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"}, private=True)


def hmac_token(claims: dict[str, Any], secret: bytes, kid: str) -> str:
    """A token that is signed by a secret which is no secret."""
    content = unsigned_token(claims, "HS256", kid).rstrip(".")
    return f"{content}.{_base64(hmac.digest(secret, content.encode(), 'sha256'))}"


def unsigned_token(claims: dict[str, Any], algorithm: str, kid: str) -> str:
    parts = ({"alg": algorithm, "kid": kid, "typ": "JWT"}, claims)
    return ".".join([*(_base64(json.dumps(part).encode()) for part in parts), ""])


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def serving(provider: OidcProvider) -> Iterator[OidcProvider]:
    """Serve on a port of this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            login = base64.b64decode(self.headers.get("Authorization", "").partition(" ")[2]).decode()
            status, content = provider.answer(self.path, body, login)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                self.wfile.write(content)
            except OSError:
                return

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
