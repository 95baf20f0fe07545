"""What a broker of Amazon MSK does at a login by IAM: a judge of signatures, and a TLS listener that hands those who
pass on to a broker.

The signature is computed from the words of AWS on Signature Version 4 and of aws-msk-iam-auth on the message, by
nothing of what is tested.
"""

from __future__ import annotations

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
from dataclasses import dataclass
from pathlib import Path

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
    """Knows the access keys, the region and the name of its broker; `refusals` is what it did not let pass."""

    keys: dict[str, AwsKey]
    host: str
    region: str = "eu-west-1"
    now: Callable[[], datetime.datetime] = utc_now

    def refusal(self, message: bytes) -> str:
        """Why the message does not pass; empty if it does."""
        said = json.loads(message)
        access_key, _, scope = said["x-amz-credential"].partition("/")
        key = self.keys.get(access_key)
        if key is None:
            return "unknown access key"
        made = datetime.datetime.strptime(said["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        lifetime_s = int(said["x-amz-expires"])
        checks = {
            "other fields": said.keys() == _FIELDS | ({"x-amz-security-token"} if key.token else set()),
            "wrong session token": said.get("x-amz-security-token", "") == key.token,
            "another version": (said["action"], said["version"]) == ("kafka-cluster:Connect", "2020_10_22"),
            "for another broker": said["host"] == self.host,
            "for another region": scope == f"{made:%Y%m%d}/{self.region}/kafka-cluster/aws4_request",
            "good for too long": 0 < lifetime_s <= _LATEST_S,
            "expired": -60 <= (self.now() - made).total_seconds() <= lifetime_s,
            "wrong signature": hmac.compare_digest(_signature(said, key.secret, scope), said["x-amz-signature"]),
        }
        return next((why for why, passes in checks.items() if not passes), "")


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
    """`verdicts`: of each login, in order; empty for those that passed."""

    def __init__(self, judge: MskJudge, *, certificate: Path, broker: tuple[str, int], port: int = 0) -> None:
        self._judge, self._broker = judge, broker
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
                self._pass_on(client, server)

    def _logged_in(self, client: ssl.SSLSocket, server: socket.socket) -> bool:
        while True:
            frame = _frame(client)
            api, _, correlation = struct.unpack_from(">hhi", frame)
            (name_bytes,) = struct.unpack_from(">h", frame, 8)
            body = frame[10 + max(0, name_bytes) :]
            if api == API_VERSIONS:
                server.sendall(_sized(frame))
                client.sendall(_sized(_frame(server)))
            elif api == HANDSHAKE:
                code = 0 if body[2:] == MECHANISM.encode() else UNSUPPORTED_MECHANISM
                client.sendall(_sized(struct.pack(">ihi", correlation, code, 1) + _text(MECHANISM)))
            elif api == AUTHENTICATE:
                verdict = self._judge.refusal(body[4:])
                self.verdicts.append(verdict)
                code, reason = (FAILED, _text(f"Access denied: {verdict}")) if verdict else (0, struct.pack(">h", -1))
                data = b"" if verdict else b'{"version":"2020_10_22","request-id":"1"}'
                answer = struct.pack(">ih", correlation, code) + reason + struct.pack(">i", len(data)) + data
                client.sendall(_sized(answer + bytes(8)))
                if not verdict:
                    return True
            else:
                return False

    def _pass_on(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        self._start(self._pump, server, client)
        self._pump(client, server)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


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
    judge: MskJudge, *, certificate: Path, broker: tuple[str, int], port: int = 0
) -> Iterator[MskListener]:
    listener = MskListener(judge, certificate=certificate, broker=broker, port=port)
    try:
        yield listener
    finally:
        listener.close()
