"""A schema registry for tests, with Confluent's API in memory over http. It has contexts, soft deletion and IMPORT mode
as Confluent's server has them, and the gaps of other servers on request. The soak reads real servers by the same
client, so that the double is held against them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]
CONTENT = "application/vnd.schemaregistry.v1+json"


@dataclass(slots=True)
class Version:
    id: int
    body: dict[str, Any]
    is_deleted: bool = False


@dataclass(slots=True)
class SchemaRegistryServer:
    """`lists`: whether `/schemas` shows anything of use, `pages`: whether lists come in pages, `list_max`: where
    a list without pages is cut off (Apicurio 3.0), `hides_deleted`: whether
    a subject that is deleted as a whole is not shown (Apicurio), `deletes_modes`: whether the mode of a subject can be
    deleted. `interfere`: answers in the place of the registry,
    where it returns something. `asked`: method, target and headers of each request."""

    lists: bool = True
    pages: bool = True
    hides_deleted: bool = False
    page_max: int = 1000
    list_max: int | None = None
    imports: bool = True
    deletes_modes: bool = True
    first_id: int = 1
    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    config: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {"compatibilityLevel": "BACKWARD"}})
    modes: dict[str, str] = field(default_factory=lambda: {"": "READWRITE"})
    interfere: Callable[[str, str], tuple[int, bytes, dict[str, str]] | None] = lambda _method, _target: None
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def register(self, subject: str, text: str, **more: Any) -> int:
        status, answer = self._register(subject, {"schema": text, **more})
        assert status == 200, answer
        return int(answer["id"])

    def answer(self, method: str, target: str, body: dict[str, Any]) -> Answer:
        parts = urlsplit(target)
        path = [unquote(part) for part in parts.path.split("/")[1:]]
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            return self._answer(method, path, query, body)

    def _answer(self, method: str, path: list[str], query: dict[str, str], body: dict[str, Any]) -> Answer:  # noqa: C901, PLR0911, PLR0912
        deleted = query.get("deleted") == "true"
        match method, path:
            case "GET", ["subjects"]:
                return 200, self._page([name for name in sorted(self.subjects) if self._seen(name, deleted)], query)
            case "GET", ["subjects", subject, "versions"]:
                numbers = self._seen(subject, deleted)
                return (200, numbers) if numbers else (404, _error(40401, f"Subject '{subject}' not found."))
            case "GET", ["subjects", subject, "versions", number]:
                is_hidden = self.hides_deleted and not self._seen(subject, False)
                if int(number) not in self._seen(subject, deleted) or is_hidden:
                    return 404, _error(40402, "Version not found.")
                return 200, self._shown(subject, int(number))
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "POST", ["subjects", subject]:
                return self._look_up(subject, body, deleted)
            case "DELETE", ["subjects", subject, *_] if self.modes.get(subject) == "READONLY":
                return 422, _error(42205, f"Subject {subject} is in read-only mode")
            case "DELETE", ["subjects", subject]:
                return self._delete(subject, self._seen(subject, True), query)
            case "DELETE", ["subjects", subject, "versions", number]:
                return self._delete(subject, [int(number)], query)
            case "GET", ["schemas", "ids", number]:
                every = (
                    v.body for versions in self.subjects.values() for v in versions.values() if v.id == int(number)
                )
                body = next(every, None)
                return (404, _error(40403, "Schema not found")) if body is None else (200, body)
            case "GET", ["schemas"]:
                places = [(name, number) for name in sorted(self.subjects) for number in self._seen(name, deleted)]
                shown = [self._shown(name, number) for name, number in self._page(places, query)]
                return 200, shown if self.lists else [{"schema": schema["schema"]} for schema in shown]
            case (("GET" | "PUT"), ["config", *rest]):
                return self._setting(self.config, method, rest, {"compatibilityLevel": body.get("compatibility")})
            case "DELETE", ["mode", subject] if self.deletes_modes and subject in self.modes:
                return 200, {"mode": self.modes.pop(subject)}
            case "PUT", ["mode", subject] if self._refuses_import(subject, body, query):
                return 422, _error(42205, "Cannot import since found existing subjects")
            case (("GET" | "PUT"), ["mode", *rest]):
                stored = {name: {"mode": mode} for name, mode in self.modes.items()}
                answer = self._setting(stored, method, rest, {"mode": body.get("mode")})
                self.modes = {name: value["mode"] for name, value in stored.items()}
                return answer
        return 404, _error(404, "HTTP 404 Not Found")

    def _refuses_import(self, subject: str, body: dict[str, Any], query: dict[str, str]) -> bool:
        is_open = self.modes.get(subject) == "IMPORT" or query.get("force") == "true"
        return body.get("mode") == "IMPORT" and bool(self._seen(subject, True)) and not is_open

    def _page(self, entries: Sequence[Any], query: dict[str, str]) -> list[Any]:
        if not self.pages:
            return list(entries[: self.list_max])
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", self.page_max))
        return list(entries[offset : offset + min(limit, self.page_max)])

    def _seen(self, subject: str, deleted: bool) -> list[int]:
        return [number for number, v in self.subjects.get(subject, {}).items() if deleted or not v.is_deleted]

    def _shown(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject][number]
        return {"subject": subject, "version": number, "id": version.id, **version.body}

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        versions = self.subjects.setdefault(subject, {})
        asked_id, asked_version = body.pop("id", None), body.pop("version", None)
        imports = self.imports and self.modes.get(subject, self.modes[""]) == "IMPORT"
        if imports != (asked_id is not None) and self.imports:
            return 422, _error(42205, f"Subject {subject} is not in import mode")
        if body.get("schemaType") == "AVRO":
            del body["schemaType"]
        for reference in body.get("references", ()):
            if reference["version"] not in self.subjects.get(reference["subject"], {}):
                return 422, _error(42201, "Invalid schema")
        if not imports and (same := [v for v in versions.values() if v.body == body and not v.is_deleted]):
            return 200, {"id": same[0].id}
        every = [(name, v) for name, others in self.subjects.items() for v in others.values()]
        taken = {v.id: v.body for name, v in every if _context(name) == _context(subject)}
        same_id = next(
            (number for number, other in taken.items() if other == body), max(taken, default=self.first_id - 1) + 1
        )
        schema_id = asked_id if imports else same_id
        if imports and taken.get(schema_id, body) != body:
            return 422, _error(42207, f"Overwrite new schema with id {schema_id} is not permitted.")
        versions[asked_version if imports and asked_version else max(versions, default=0) + 1] = Version(
            schema_id, body
        )
        return 200, {"id": schema_id}

    def _look_up(self, subject: str, body: dict[str, Any], deleted: bool) -> Answer:
        for number in self._seen(subject, deleted):
            if self.subjects[subject][number].body == body:
                return 200, self._shown(subject, number)
        return 404, _error(40403, "Schema not found")

    def _delete(self, subject: str, numbers: list[int], query: dict[str, str]) -> Answer:
        for number in numbers:
            if query.get("permanent") == "true":
                del self.subjects[subject][number]
            else:
                self.subjects[subject][number].is_deleted = True
        if not self.subjects[subject]:
            del self.subjects[subject]
        return 200, numbers

    @staticmethod
    def _setting(stored: dict[str, dict[str, Any]], method: str, rest: list[str], value: dict[str, Any]) -> Answer:
        subject = rest[0] if rest else ""
        if method == "PUT":
            stored[subject] = value
        if subject not in stored:
            return 404, _error(40408, f"Subject '{subject}' has no such setting")
        return 200, stored[subject]


def _context(subject: str) -> str:
    return subject[2:].partition(":")[0] if subject.startswith(":.") else ""


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


@contextmanager
def serving(registry: SchemaRegistryServer) -> Iterator[SchemaRegistryServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16
        disable_nagle_algorithm = True

        def _respond(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            registry.asked.append((self.command, self.path, dict(self.headers.items())))
            other = registry.interfere(self.command, self.path)
            if other is not None:
                return self._send(*other)
            status, answer = registry.answer(self.command, self.path, json.loads(data or b"{}"))
            return self._send(status, json.dumps(answer).encode(), {})

        do_GET = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in ({"Content-Type": CONTENT, "Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
