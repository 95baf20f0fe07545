"""Implements `KubernetesApi` over HTTP: one connection per request, with the credentials of a login.

No request is repeated here: the next round asks again.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlsplit

from offsite.model.errors import BadResource, KubernetesDenied, KubernetesUnavailable, OffsiteError, ResourceConflict
from offsite.operator.kubernetes.cluster import Body

TIMEOUT_S = 30.0
ANSWER_MAX_BYTES = 256 * 1024 * 1024
OBJECT_MAX_BYTES = 1536 * 1024
"""The default limit of etcd. A page has a hundred objects: a truncated page is refused."""
PAGE = 100
_JSON = "application/json"
NAMES_ALONE = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The server returns only metadata."""
_MESSAGE_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The address of an API server. `headers`: credentials."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None = None


class HttpKubernetesApi:
    """`log_in` is called for every request: tokens change, and reading them is cheap."""

    def __init__(self, log_in: Callable[[], Access]) -> None:
        self._log_in = log_in

    def get(self, path: str) -> Body | None:
        status, answer = self._ask("GET", path)
        return None if status == HTTPStatus.NOT_FOUND else answer

    def labels(self, path: str) -> Mapping[str, str] | None:
        status, answer = self._ask("GET", path, accept=NAMES_ALONE)
        return None if status == HTTPStatus.NOT_FOUND else answer["metadata"].get("labels") or {}

    def list(self, path: str) -> Iterator[Body]:
        after = ""
        while True:
            status, page = self._ask("GET", f"{path}?limit={PAGE}{f'&continue={after}' if after else ''}")
            if status == HTTPStatus.NOT_FOUND:
                raise KubernetesUnavailable(f"there is nothing at {path}", hint="apply the definitions in deploy/")
            yield from page["items"]
            if not (after := page["metadata"].get("continue") or ""):
                return

    def create(self, path: str, body: Body) -> None:
        status, _ = self._ask("POST", path, body)
        if status == HTTPStatus.NOT_FOUND:
            raise KubernetesUnavailable(f"nothing can be created at {path}", hint="is its namespace being deleted?")

    def patch(self, path: str, patch: Body) -> bool:
        status, _ = self._ask("PATCH", path, patch, kind="application/merge-patch+json")
        return status != HTTPStatus.NOT_FOUND

    def delete(self, path: str, *, uid: str) -> None:
        self._ask("DELETE", path, {"preconditions": {"uid": uid}, "propagationPolicy": "Foreground"})

    def _ask(
        self, method: str, path: str, body: Body | None = None, *, kind: str = _JSON, accept: str = _JSON
    ) -> tuple[int, dict[str, Any]]:
        access = self._log_in()
        connection = _connection(access)
        headers = {**access.headers, "Accept": accept, "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, urlsplit(access.url).path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            text = answer.read(ANSWER_MAX_BYTES)
            document = json.loads(text) if text else {}
        except (OSError, HTTPException, ValueError) as error:
            raise KubernetesUnavailable(f"the API of Kubernetes did not answer: {error}") from error
        finally:
            connection.close()
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            raise _refused(f"{method} {path}", answer.status, document)
        return answer.status, cast("dict[str, Any]", document)


def _connection(access: Access) -> HTTPConnection:
    parts = urlsplit(access.url)
    if parts.scheme == "https":
        return HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=access.tls)
    return HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)


def _refused(request: str, status: int, answer: object) -> OffsiteError:
    said = str(answer.get("message", "") if isinstance(answer, Mapping) else "")[:_MESSAGE_MAX]
    message = f"{request}: {status} {said}".rstrip()
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        hint = "a quota or policy of the cluster refuses it, or the role differs from deploy/kubernetes/namespace.yaml"
        return KubernetesDenied(message, hint=hint)
    if status == HTTPStatus.CONFLICT:
        return ResourceConflict(message)
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return BadResource(message)
    return KubernetesUnavailable(message)
