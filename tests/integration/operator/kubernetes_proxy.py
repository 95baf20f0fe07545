"""In front of the API server of the tests: what it lacks of Kubernetes as far as an operator asks for it. Discovery,
events, Secrets that are for agents, and Deployments as objects in memory, whose pods are ready at once. Everything else
is passed on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml

from offsite.model.errors import ResourceConflict
from offsite.operator.kubernetes.agents import FOR_AGENTS
from tests.integration.operator.api_server import ApiServer
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster

_APPS = "/apis/apps/v1/"
_GROUPS = {"offsite.dev": "v1alpha1", "apiextensions.k8s.io": "v1"}
_PASSED_ON = ("Accept", "Content-Type")


def _group(name: str, version: str) -> dict[str, Any]:
    known = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [known], "preferredVersion": known}


NAMESPACES: dict[str, Any] = {
    "name": "namespaces",
    "singularName": "namespace",
    "kind": "Namespace",
    "namespaced": False,
    "verbs": ["list", "watch"],
}
"""An operator waits until it knows of them, also where it looks at all of them at once."""
DISCOVERY: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [NAMESPACES]},
    "/apis": {"kind": "APIGroupList", "groups": [_group(*each) for each in _GROUPS.items()]},
}

FORBIDDEN: dict[str, Any] = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
"""The role of the operator lets it list no namespaces."""

NOT_FOUND: dict[str, Any] = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}


@dataclass(slots=True)
class Proxy:
    """`url`, and a kubeconfig that leads there. `deployments` may be looked into and changed. `versions`: of Secrets by
    their names, where a test changes them."""

    url: str
    kubeconfig: Path
    versions: dict[str, str] = field(default_factory=dict)
    deployments: MemoryCluster = field(default_factory=MemoryCluster)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pods_become_ready(self) -> None:
        for found in self.deployments.objects.values():
            ready = found["spec"]["replicas"]
            seen = {"observedGeneration": found["metadata"]["generation"]}
            found["status"] = {**seen, "replicas": ready, "readyReplicas": ready, "updatedReplicas": ready}


@contextmanager
def proxy_of(server: ApiServer, folder: Path) -> Iterator[Proxy]:
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    listener.daemon_threads = True
    url = f"http://127.0.0.1:{listener.server_address[1]}"
    kubeconfig = folder / "proxy-kubeconfig.yaml"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url)), encoding="utf-8")
    proxy = Proxy(url=url, kubeconfig=kubeconfig)
    listener.proxy, listener.upstream = proxy, server.client  # type: ignore[attr-defined]
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "somebody", "user": {"token": "word"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "somebody"}}],
        "current-context": "it",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        place = self.path.partition("?")[0]
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if place in DISCOVERY:
            self._tell(200, DISCOVERY[place])
        elif place == "/api/v1/namespaces":
            self._tell(403, FORBIDDEN)
        elif place.endswith("/events"):
            self._tell(201, {})
        elif "/secrets/" in place:
            self._tell(200, {"metadata": self._secret(place.rpartition("/")[2])})
        elif place.startswith(_APPS):
            self._tell(*self._deployment(place, json.loads(data) if data else {}))
        else:
            self._pass_on(data)

    do_POST = do_PATCH = do_DELETE = do_PUT = do_GET  # noqa: N815  # the names that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""

    def _secret(self, name: str) -> dict[str, Any]:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        return {"labels": {FOR_AGENTS: "true"}, "resourceVersion": proxy.versions.get(name, "1")}

    def _deployment(self, place: str, body: dict[str, Any]) -> tuple[int, Any]:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        found = proxy.deployments
        with proxy.lock:
            try:
                if self.command == "POST":
                    found.create(place, body)
                elif self.command == "PATCH" and not found.patch(place, body):
                    return 404, NOT_FOUND
                elif self.command == "DELETE":
                    found.delete(place, uid=body["preconditions"]["uid"])
            except ResourceConflict as error:
                return 409, {"message": error.message}
            proxy.pods_become_ready()
            it = found.get(place)
        is_missing = it is None and self.command == "GET"
        return (404, NOT_FOUND) if is_missing else (200, it or {"kind": "Status", "status": "Success"})

    def _pass_on(self, data: bytes) -> None:
        """A watch goes on for as long as its client listens."""
        upstream: httpx.Client = self.server.upstream  # type: ignore[attr-defined]
        headers = {name: self.headers[name] for name in _PASSED_ON if self.headers.get(name)}
        timeout = httpx.Timeout(30, read=None)
        try:
            with upstream.stream(self.command, self.path, content=data, headers=headers, timeout=timeout) as answer:
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Connection", "close")
                self.end_headers()
                for part in answer.iter_bytes():
                    self.wfile.write(part)
                    self.wfile.flush()
        except (OSError, httpx.TransportError):
            pass  # the client has gone, or the server: either asks again
        self.close_connection = True

    def _tell(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
