"""What the operator asks of Kubernetes: a few objects, read and changed one at a time. The port, and the paths of its
objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import GROUP, VERSION

Body = Mapping[str, Any]
"""An object as the API has it."""


class Cluster(Protocol):
    """The API of Kubernetes. All raise `KubernetesUnavailable` where it does not answer, `KubernetesDenied` where it
    does not let us, `BadResource` where it takes no such object, `ResourceConflict` where it is there already, or is
    another one."""

    def get(self, path: str) -> Body | None:
        """The object; None where there is none."""

    def labels(self, path: str) -> Mapping[str, str] | None:
        """The labels of an object, and nothing else of it, for it may hold secrets; None where there is none."""

    def list(self, path: str) -> Iterable[Body]:
        """All objects of a collection, read as they are asked for."""

    def create(self, path: str, body: Body) -> None:
        """Add an object to a collection."""

    def patch(self, path: str, patch: Body) -> bool:
        """Merge into an object (RFC 7396); whether there is one. A uid in `metadata` must be that of the object."""

    def delete(self, path: str, *, uid: str) -> None:
        """Let the object with that uid go, and wait for what it owns. One that is gone is no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A resource by its names, and the uid of the one that is meant."""

    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, body: Body) -> Named:
        metadata = body["metadata"]
        return cls(kind=body["kind"], namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])

    @property
    def path(self) -> str:
        return f"{resources_path(self.kind, self.namespace)}/{self.name}"

    def core_path(self, plural: str, name: str) -> str:
        """Of an object of the core group in the same namespace."""
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"

    @property
    def deployments_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    @property
    def deployment_path(self) -> str:
        """Of its agents, which have its name."""
        return f"{self.deployments_path}/{self.name}"


def resources_path(kind: str, namespace: str = "") -> str:
    """Of the resources of a kind in a namespace, or in all."""
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{GROUP}/{VERSION}{place}/{DEFINITIONS[kind].plural}"
