"""The port to the API of Kubernetes, and the paths of its objects: a few objects, read and changed one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import GROUP, VERSION

Body = Mapping[str, Any]
"""An object in the form of the API."""


class KubernetesApi(Protocol):
    """The API of Kubernetes. All methods raise `KubernetesUnavailable` without an answer, `KubernetesDenied` without
    permission, `BadResource` for a refused object, `ResourceConflict` for an existing or another object."""

    def get(self, path: str) -> Body | None:
        """Return the object; None if it does not exist."""

    def labels(self, path: str) -> Mapping[str, str] | None:
        """Return only the labels of an object that may hold secrets; None if it does not exist."""

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
