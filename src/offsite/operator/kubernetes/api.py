"""The API of Kubernetes: the port, the paths of its objects, their merges, and the port over HTTP. A few objects are
read and changed one at a time.

HTTP makes one connection per request, with the credentials of a login. No request is repeated here: the next round
asks again. Pod templates merge as in `kubectl apply`, patches as in an API server.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from offsite.model.errors import BadResource, KubernetesDenied, KubernetesUnavailable, OffsiteError, ResourceConflict
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import GROUP, VERSION

Body = Mapping[str, Any]
"""An object in the form of the API."""
TIMEOUT_S = 30.0
ANSWER_MAX_BYTES = 256 * 1024 * 1024
OBJECT_MAX_BYTES = 1536 * 1024
"""The default limit of etcd. A page has a hundred objects: a truncated page is refused."""
PAGE = 100
_JSON = "application/json"
NAMES_ALONE = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The server returns only metadata."""
_MESSAGE_MAX = 300
_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Lists that are merged, with the field that identifies an element. Other lists are replaced as a whole."""


class KubernetesApi(Protocol):
    """The API of Kubernetes. All methods raise `KubernetesUnavailable` without an answer, `KubernetesDenied` without
    permission, `BadResource` for a refused object, `ResourceConflict` for an existing or another object."""

    def get(self, path: str) -> Body | None:
        """Return the object; None if it does not exist."""

    def metadata(self, path: str) -> Body | None:
        """Return only the metadata of an object that may hold secrets; None if it does not exist."""

    def list(self, path: str) -> Iterable[Body]:
        """Yield all objects of a collection, page by page."""

    def create(self, path: str, body: Body) -> None:
        """Add an object to a collection."""

    def patch(self, path: str, patch: Body) -> bool:
        """Merge into an object (RFC 7396); return whether the object exists. A uid in `metadata` must match the
        object."""

    def delete(self, path: str, *, uid: str) -> None:
        """Delete the object with that uid, after its dependents. A missing object is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReference:
    """A resource by names and uid."""

    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, body: Body) -> ResourceReference:
        metadata = body["metadata"]
        return cls(kind=body["kind"], namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])

    @property
    def path(self) -> str:
        return f"{resources_path(self.kind, self.namespace)}/{self.name}"

    def core_path(self, plural: str, name: str) -> str:
        """The path of an object of the core group in the same namespace."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"

    @property
    def deployments_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    @property
    def deployment_path(self) -> str:
        """The path of the Deployment of its agents, which has the name of the resource."""
        return f"{self.deployments_path}/{self.name}"


def resources_path(kind: str, namespace: str = "") -> str:
    """The path of the resources of a kind in a namespace, or in all namespaces."""
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{place}/{DEFINITIONS[kind].plural}"


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

    def metadata(self, path: str) -> Body | None:
        status, answer = self._ask("GET", path, accept=NAMES_ALONE)
        return None if status == HTTPStatus.NOT_FOUND else answer["metadata"]

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
        if answer.status in {HTTPStatus.OK, HTTPStatus.NOT_FOUND} and not _is_answer(answer.status, document):
            raise KubernetesUnavailable(f"{method} {path}: {answer.status}, but not by the API of Kubernetes")
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            raise _refused(f"{method} {path}", answer.status, document)
        return answer.status, cast("dict[str, Any]", document)


def _is_answer(status: int, document: object) -> bool:
    """Whether a document is by an API server. Of the 404 of anything before the server (a balancer, a proxy) nobody may
    conclude that an object is gone."""
    if not isinstance(document, dict) or not document:
        return False
    return status != HTTPStatus.NOT_FOUND or document.get("kind") == "Status"


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


Object = Mapping[str, Any]


def strategic_merge(base: Object, patch: Object) -> dict[str, Any]:
    """Merge `patch` into `base`. Maps are merged, and so are lists of named elements; new elements come last."""
    merged = dict(base)
    for name, value in patch.items():
        before = merged.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[name] = strategic_merge(before, value)
        elif name in _KEYS and before is not None:
            merged[name] = _merged(before, value, _KEYS[name])
        else:
            merged[name] = value
    return merged


def _merged(base: Sequence[Object], patch: Sequence[Object], key: str) -> list[Object]:
    patches = {part[key]: part for part in patch}
    existing = [strategic_merge(part, patches.pop(part[key], {})) for part in base]
    return [*existing, *patches.values()]


def merge_patch(before: Object, after: Object) -> dict[str, Any]:
    """Return the RFC 7396 patch that changes an object with `before` (and possibly more) into one with `after`. The
    patch format merges maps, so removed keys are named with null."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        was = before.get(name)
        is_merged = isinstance(value, Mapping) and isinstance(was, Mapping)
        patch[name] = merge_patch(was, value) if is_merged else value  # type: ignore[arg-type]  # as was asked
    return patch
