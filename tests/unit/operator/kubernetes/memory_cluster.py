"""Kubernetes as far as the operator asks for it, in memory: uids, generations, finalizers, status apart from spec."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offsite.model.errors import KubernetesDenied, KubernetesUnavailable, ResourceConflict
from offsite.model.units import format_time
from offsite.operator.kubernetes.api import Body

NOW = "2026-11-24T12:00:00Z"


@dataclass(slots=True)
class MemoryCluster:
    """`is_away`: it does not answer; `closed`: a namespace that lets nobody list what it has; `loses`: so many of the
    next changes arrive, and it is not heard that they did."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    patched: list[tuple[str, Body]] = field(default_factory=list)
    is_away: bool = False
    closed: str = ""
    loses: int = 0
    _numbers: Any = field(default_factory=itertools.count)

    def get(self, path: str) -> Body | None:
        self._answer()
        assert "/secrets/" not in path, "of a Secret nobody asks more than its labels"
        found = self.objects.get(path)
        return None if found is None else copy.deepcopy(found)

    def metadata(self, path: str) -> Body | None:
        self._answer()
        found = self.objects.get(path)
        return None if found is None else copy.deepcopy(found["metadata"])

    def list(self, path: str) -> Sequence[Body]:
        self._answer()
        if self.closed and f"/namespaces/{self.closed}/" in path:
            raise KubernetesDenied(f"GET {path}: 403")
        *place, kind = path.split("/")
        begin = "/".join(place)
        found = (each for key, each in self.objects.items() if key.startswith(begin) and key.split("/")[-2] == kind)
        return [copy.deepcopy(each) for each in found]

    def create(self, path: str, body: Body) -> None:
        self._answer()
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            raise ResourceConflict(f"{place} exists already")
        made = copy.deepcopy(dict(body))
        made["metadata"] |= {"uid": f"{next(self._numbers):08x}-0000-4000-8000-000000000000", "generation": 1}
        made["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[place] = made
        self._lose()

    def patch(self, path: str, patch: Body) -> bool:
        self._answer()
        place, is_status = path.removesuffix("/status"), path.endswith("/status")
        if (found := self.objects.get(place)) is None:
            return False
        if patch.get("metadata", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise ResourceConflict(f"{place} has another uid")
        self.patched.append((path, patch))
        shown = {name: value for name, value in patch.items() if (name == "status") == is_status}
        before = copy.deepcopy(found.get("spec"))
        merge(found, shown if is_status else {**shown, "metadata": patch.get("metadata", {})})
        found["metadata"]["resourceVersion"] = str(next(self._numbers))
        if found.get("spec") != before:
            found["metadata"]["generation"] += 1
        self._sweep(place)
        self._lose()
        return True

    def delete(self, path: str, *, uid: str) -> None:
        self._answer()
        found = self.objects.get(path)
        if found is None:
            return
        if found["metadata"]["uid"] != uid:
            raise ResourceConflict(f"{path} has another uid")
        found["metadata"]["deletionTimestamp"] = format_time(int(time.time() * 1000))
        self._sweep(path)
        self._lose()

    def _sweep(self, place: str) -> None:
        metadata = self.objects[place]["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[place]

    def _answer(self) -> None:
        if self.is_away:
            raise KubernetesUnavailable("the API of Kubernetes did not answer")

    def _lose(self) -> None:
        if self.loses:
            self.loses -= 1
            raise KubernetesUnavailable("the API of Kubernetes did not answer in time")


def merge(into: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """RFC 7396."""
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, Mapping):
            if not isinstance(into.get(name), dict):
                into[name] = {}
            merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)
