"""What a broker of Amazon MSK does at a login by IAM: a judge of signatures, and a TLS listener that hands those who
pass on to a broker.

The signature is computed from the words of AWS on Signature Version 4 and of aws-msk-iam-auth on the message, by
nothing of what is tested.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic

MECHANISM = "AWS_MSK_IAM"
HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
UNSUPPORTED_MECHANISM, FAILED = 33, 58
_FIELDS = {
    "version",
    "host",
    "user-agent",
    "action",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signedheaders",
    "x-amz-expires",
    "x-amz-signature",
}
_LATEST_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKey:
    """The secret of an access key; `token` is the session's, where there is one."""

    secret: str
    token: str = ""


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(slots=True, kw_only=True)
class MskJudge:
    """Knows the access keys, the region and the name of its broker. `passed`: the access keys of those it let in, in
    order."""

    keys: Mapping[str, AwsKey]
    host: str
    region: str = "eu-west-1"
    now: Callable[[], datetime.datetime] = utc_now
    passed: list[str] = field(default_factory=list)

    def refusal(self, message: bytes) -> str:
        """Why the message does not pass; empty if it does."""
        said = json.loads(message)
        return self._verdict(
            said,
            {
                "another version": said["version"] == "2020_10_22",
                "for another broker": said["host"] == self.host,
            },
            fields=_FIELDS,
        )

    def refusal_of_token(self, token: str) -> str:
        """Why the token of OAUTHBEARER does not pass: a signed URL of the region."""
        url = urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        said = {name.lower(): value for name, value in urllib.parse.parse_qsl(url.query)} | {"host": url.netloc}
        is_here = (url.scheme, url.netloc, url.path) == ("https", f"kafka.{self.region}.amazonaws.com", "/")
        return self._verdict(said, {"for another region": is_here}, fields=_FIELDS - {"version"})

    def _verdict(self, said: Mapping[str, str], own_checks: Mapping[str, bool], *, fields: set[str]) -> str:
        access_key, _, scope = said["x-amz-credential"].partition("/")
        key = self.keys.get(access_key)
        if key is None:
            return "unknown access key"
        made = datetime.datetime.strptime(said["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        lifetime_s = int(said["x-amz-expires"])
        checks = {
            "other fields": said.keys() == fields | ({"x-amz-security-token"} if key.token else set()),
            "wrong session token": said.get("x-amz-security-token", "") == key.token,
            "another action": said["action"] == "kafka-cluster:Connect",
            **own_checks,
            "for another region": scope == f"{made:%Y%m%d}/{self.region}/kafka-cluster/aws4_request",
            "good for too long": 0 < lifetime_s <= _LATEST_S,
            "expired": -60 <= (self.now() - made).total_seconds() <= lifetime_s,
            "wrong signature": hmac.compare_digest(_signature(said, key.secret, scope), said["x-amz-signature"]),
        }
        why = next((why for why, passes in checks.items() if not passes), "")
        self.passed += [] if why else [access_key]
        return why


def _signature(said: Mapping[str, str], secret: str, scope: str) -> str:
    query = {
        "Action": said["action"],
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": said["x-amz-credential"],
        "X-Amz-Date": said["x-amz-date"],
        "X-Amz-Expires": said["x-amz-expires"],
        "X-Amz-SignedHeaders": "host",
    }
    if token := said.get("x-amz-security-token"):
        query["X-Amz-Security-Token"] = token
    quoted = sorted((urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for k, v in query.items())
    canonical = "\n".join(
        ["GET", "/", "&".join(map("=".join, quoted)), f"host:{said['host']}", "", "host", hashlib.sha256().hexdigest()]
    )
    to_sign = f"AWS4-HMAC-SHA256\n{said['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4" + secret.encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


class MskListener:
    """`verdicts`: of each login, in order; empty for those that passed. `session_s`: how long a login is good for, 0
    without an end; whoever sends a request after the end without another login is hung up on, and counted in
    `hung_up`, as a broker does (KIP-368)."""

    def __init__(
        self, judge: MskJudge, *, certificate: Path, broker: tuple[str, int], port: int = 0, session_s: float = 0
    ) -> None:
        self._judge, self._broker, self._session_s = judge, broker, session_s
        self.hung_up = 0
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self.verdicts: list[str] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        for end in (self._listener, *self._sockets):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _start(self, work: Callable[..., None], *ends: socket.socket) -> None:
        thread = threading.Thread(target=work, args=ends, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            suppress(OSError, EOFError),
            plain,
            self._context.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(self._broker) as server,
        ):
            self._sockets += [client, server]
            if self._logged_in(client, server):
                self._start(self._pump, server, client)
                self._pass_on(client, server)

    def _logged_in(self, client: ssl.SSLSocket, server: socket.socket) -> bool:
        while True:
            frame = _frame(client)
            api = _api(frame)
            if api == API_VERSIONS:
                server.sendall(_sized(frame))
                client.sendall(_sized(_frame(server)))
            elif api not in {HANDSHAKE, AUTHENTICATE}:
                return False
            elif self._passes(client, frame):
                return True

    def _passes(self, client: ssl.SSLSocket, frame: bytes) -> bool:
        """Answer a request of a login. Whether the client is logged in by it."""
        (correlation,) = struct.unpack_from(">i", frame, 4)
        (name_bytes,) = struct.unpack_from(">h", frame, 8)
        body = frame[10 + max(0, name_bytes) :]
        if _api(frame) == HANDSHAKE:
            code = 0 if body[2:] == MECHANISM.encode() else UNSUPPORTED_MECHANISM
            client.sendall(_sized(struct.pack(">ihi", correlation, code, 1) + _text(MECHANISM)))
            return False
        verdict = self._judge.refusal(body[4:])
        self.verdicts.append(verdict)
        code, reason = (FAILED, _text(f"Access denied: {verdict}")) if verdict else (0, struct.pack(">h", -1))
        data = b"" if verdict else b'{"version":"2020_10_22","request-id":"1"}'
        answer = struct.pack(">ih", correlation, code) + reason + struct.pack(">i", len(data)) + data
        client.sendall(_sized(answer + struct.pack(">q", int(self._session_s * 1000))))
        return not verdict

    def _pass_on(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        """Whoever logs in again has nothing in flight: its answers come between no others."""
        end_s = monotonic() + (self._session_s or inf)
        try:
            while True:
                frame = _frame(client)
                if _api(frame) in {HANDSHAKE, AUTHENTICATE}:
                    end_s = monotonic() + self._session_s if self._passes(client, frame) else end_s
                elif monotonic() < end_s:
                    server.sendall(_sized(frame))
                else:
                    self.hung_up += 1
                    return
        finally:
            for end in (client, server):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _api(frame: bytes) -> int:
    return int.from_bytes(frame[:2], "big")


def _frame(end: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", _exactly(end, 4))
    return _exactly(end, size_bytes)


def _exactly(end: socket.socket, size_bytes: int) -> bytes:
    data = b""
    while len(data) < size_bytes:
        part = end.recv(size_bytes - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@contextmanager
def msk_listener(
    judge: MskJudge, *, certificate: Path, broker: tuple[str, int], port: int = 0, session_s: float = 0
) -> Iterator[MskListener]:
    listener = MskListener(judge, certificate=certificate, broker=broker, port=port, session_s=session_s)
    try:
        yield listener
    finally:
        listener.close()
