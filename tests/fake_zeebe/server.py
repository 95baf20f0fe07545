"""The fake cluster behind HTTP on loopback, with the codes and bodies of Zeebe's management API, and with faults.

A fault is what somebody does about the next requests that match: answer something else, do it and lose the answer, be
slow, or speak no HTTP.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.fake_zeebe.cluster import VERSION, Exporter, FakeZeebe, HigherId, Part, State

ACTUATOR_JSON = "application/vnd.spring-boot.actuator.v3+json"
PROBLEM_JSON = "application/problem+json"
PLAIN_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer as the fake gives it."""

    code: int
    body: Any = None
    media: str = ACTUATOR_JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def data(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    body: bytes
    authorization: str


Fault = Callable[["Exchange"], None]


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request, which a fault may carry out (`do`) and answer (`send`), or not."""

    asked: Asked
    do: Callable[[], Said]
    send: Callable[[Said], None]
    raw: Callable[[bytes], None]


@dataclass(kw_only=True)
class ZeebeServer:
    zeebe: FakeZeebe
    port: int
    route: str = "backups"
    authorization: str = ""
    exporting_says_200: bool = True
    asked: list[Asked] = field(default_factory=list)
    faults: list[tuple[str, Fault]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fail_next(self, what: str, *faults: Fault) -> None:
        """The next requests whose `METHOD path` has `what` in it."""
        self.faults += [(what, each) for each in faults]

    def requests(self, what: str) -> list[Asked]:
        return [each for each in self.asked if what in f"{each.method} {each.path}"]

    def fault_for(self, asked: Asked) -> Fault | None:
        for index, (what, fault) in enumerate(self.faults):
            if what in f"{asked.method} {asked.path}":
                del self.faults[index]
                return fault
        return None

    def answer(self, asked: Asked) -> Said:
        if self.authorization and asked.authorization != self.authorization:
            return Said(code=401)
        path, _, query = asked.path.removeprefix("/actuator/").partition("?")
        room, _, rest = path.partition("/")
        with self.zeebe.lock:
            if room == self.route:
                return self._backups(asked, rest)
            if room == "exporting":
                return self._exporting(asked, rest, query)
        return _problem(404, "Not Found", asked)

    def _backups(self, asked: Asked, rest: str) -> Said:
        match asked.method, rest:
            case "POST", "":
                return self._take(asked)
            case "GET", "":
                return self._guarded(lambda: Said(code=200, body=[self._info(each) for each in self.zeebe.ids]))
            case "GET", _ if re.fullmatch(r"-?\d{1,19}", rest):
                return self._guarded(lambda: self._one(int(rest)))
            case "DELETE", _ if re.fullmatch(r"-?\d{1,19}", rest):
                self.zeebe.delete(int(rest))
                return Said(code=204)
            case (("GET" | "DELETE"), _):
                return _problem(400, "Bad Request", asked, detail="Parameter mapping failure")
        return _problem(405, "Method Not Allowed", asked)

    def _guarded(self, answer: Callable[[], Said]) -> Said:
        return answer() if self.zeebe.has_store else _error(400, "Expected backup to be enabled, but it is not")

    def _take(self, asked: Asked) -> Said:
        wanted = json.loads(asked.body or b"{}").get("backupId")
        if wanted is None:
            return _problem(400, "Bad Request", asked, detail="Missing parameters: backupId")
        if self.zeebe.is_continuous:
            return _error(400, "Cannot take backup with predetermined backupId when continuous backups are enabled.")
        if int(wanted) <= 0:
            return _error(400, "A backupId must be provided and it must be > 0")
        if self.zeebe.is_scaling:
            return _error(409, "Cannot take backup while scaling is in progress.")
        return self._guarded(lambda: self._begun(int(wanted)))

    def _begun(self, wanted: int) -> Said:
        try:
            self.zeebe.take(wanted)
        except HigherId as error:
            return _error(409, str(error))
        return Said(code=202, body={"message": f"A backup with id {wanted} has been scheduled."})

    def _one(self, wanted: int) -> Said:
        info = self._info(wanted)
        if info["state"] == State.DOES_NOT_EXIST:
            return _error(404, f"Backup with id {wanted} does not exist")
        return Said(code=200, body=info)

    def _info(self, backup: int) -> dict[str, Any]:
        found = self.zeebe.parts(backup)
        state = self.zeebe.state(found)
        info: dict[str, Any] = {"backupId": backup, "state": state.value}
        if state is State.FAILED:
            info["failureReason"] = "".join(
                f"Backup on partition {number} failed due to {part.failure}. "
                for number, part in found.items()
                if part.state is State.FAILED
            )
        return info | {"details": [_detail(number, found.get(number)) for number in self.zeebe.partitions]}

    def _exporting(self, asked: Asked, rest: str, query: str) -> Said:
        if asked.method != "POST":
            return _problem(405, "Method Not Allowed", asked)
        wanted = {"pause": Exporter.SOFT_PAUSED if "soft=true" in query else Exporter.PAUSED}
        wanted["resume"] = Exporter.EXPORTING
        if rest not in wanted:
            return self.exporting_said(500, None)
        self.zeebe.export(wanted[rest])
        return self.exporting_said(204, None)

    def exporting_said(self, code: int, why: str | None) -> Said:
        """The code in the body, under a 200, as 8.5.8 does and the manual of 8.9 says; or as the code of the answer."""
        body = None if code == 204 else {"message": why, "stackTrace": [{"methodName": "post"}], "suppressed": []}
        if self.exporting_says_200:
            return Said(code=200, media=PLAIN_JSON, body={"body": body, "status": code, "contentType": None})
        return Said(code=code, body=body)


def _detail(number: int, part: Part | None) -> dict[str, Any]:
    if part is None:
        return {"partitionId": number, "state": State.DOES_NOT_EXIST.value}
    at = datetime.fromtimestamp(part.created_s, tz=UTC).isoformat(timespec="microseconds").replace("+00:00", "114Z")
    said: dict[str, Any] = {"partitionId": number, "state": part.state.value, "createdAt": at, "lastUpdatedAt": at}
    if part.failure:
        return said | {"failureReason": part.failure}
    return said | {"checkpointPosition": 1, "brokerId": 0, "brokerVersion": VERSION}


def _error(code: int, message: str) -> Said:
    return Said(code=code, body={"message": message})


def _problem(code: int, title: str, asked: Asked, *, detail: str = "") -> Said:
    body = {"type": "about:blank", "title": title, "status": code, "instance": asked.path.partition("?")[0]}
    return Said(code=code, media=PROBLEM_JSON, body=body | ({"detail": detail} if detail else {}))


def says(code: int, message: str = "the gateway is busy") -> Fault:
    """Not carried out."""
    return lambda exchange: exchange.send(_error(code, message))


def answers(said: Said) -> Fault:
    return lambda exchange: exchange.send(said)


def answers_bytes(data: bytes) -> Fault:
    """Whatever those are, instead of HTTP."""
    return lambda exchange: exchange.raw(data)


def loses_answer(exchange: Exchange) -> None:
    """Carried out, and the connection breaks."""
    exchange.do()


def cuts_answer(exchange: Exchange) -> None:
    said = exchange.do()
    head = f"HTTP/1.1 {said.code} X\r\nContent-Type: {said.media}\r\nContent-Length: {len(said.data)}\r\n\r\n"
    exchange.raw(head.encode() + said.data[: len(said.data) // 2])


def slow(seconds: float) -> Fault:
    def answer(exchange: Exchange) -> None:
        time.sleep(seconds)
        exchange.send(exchange.do())

    return answer


def drips(exchange: Exchange) -> None:
    """A header that never ends, a byte at a time."""
    with suppress(OSError):
        exchange.raw(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(200):
            exchange.raw(b"x")
            time.sleep(0.05)


@contextmanager
def serving(
    zeebe: FakeZeebe | None = None, *, certificate: Path | None = None, **options: Any
) -> Iterator[ZeebeServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization", "")
            asked = Asked(method=self.command, path=self.path, body=body, authorization=authorization)
            server.asked.append(asked)
            fault, self.close_connection = server.fault_for(asked), True
            exchange = Exchange(asked=asked, do=lambda: server.answer(asked), send=self._send, raw=self._raw)
            with suppress(OSError):
                (fault or (lambda each: each.send(each.do())))(exchange)

        do_GET = do_POST = do_DELETE = _any  # noqa: N815  # names of the standard library

        def _send(self, said: Said) -> None:
            self.send_response(said.code)
            for name, value in said.headers:
                self.send_header(name, value)
            if said.body is not None:
                self.send_header("Content-Type", said.media)
            self.send_header("Content-Length", str(len(said.data)))
            self.end_headers()
            self.wfile.write(said.data)

        def _raw(self, data: bytes) -> None:
            self.connection.sendall(data)

        def log_message(self, *given: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, address_family = True, socket.AF_INET

    http = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        http.socket = context.wrap_socket(http.socket, server_side=True)
    server = ZeebeServer(zeebe=zeebe or FakeZeebe(), port=http.server_address[1], **options)
    running = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    running.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        running.join(10)
