"""A Kubernetes resource as the record of keepers, with all repositories that may hold data of the resource, and its
status: the status of all homes, merged into the stored status.

Every repository is recorded in a separate annotation before anything starts in the repository. Hence no record
overwrites another record, and the records are deleted with the resource.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from offsite.model.errors import BadResource, check
from offsite.model.units import parse_time
from offsite.operator.core.keeper import Reconciled
from offsite.operator.core.records import Edit, ResourceRecord
from offsite.operator.core.status import Condition, build_status
from offsite.operator.decide.backup import ConditionType
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.kubernetes.agents import UID
from offsite.operator.kubernetes.api import Body, KubernetesApi, ResourceReference, merge_patch, resources_path
from offsite.operator.resources.model import GROUP

PLACE = f"place.{GROUP}/"
"""The prefix of annotations that record a repository."""


def read_record(body: Body) -> ResourceRecord:
    """Read the record. Raises `BadResource`."""
    metadata = body["metadata"]
    return ResourceRecord(
        kind=body["kind"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata["generation"],
        spec=body.get("spec") or {},
        source="",
        created_ms=0,
        deletion_ms=parse_time(deleted_at, now_ms=0) if (deleted_at := metadata.get("deletionTimestamp")) else 0,
        finalizers=tuple(metadata.get("finalizers") or ()),
        places=tuple(sorted(set(_places(body)), key=lambda place: (place.repository, place.account))),
    )


def place_notes(places: Iterable[RepositoryPlace]) -> dict[str, str]:
    """Return the annotations of `places`."""
    fields = [{"account": place.account, "repository": place.repository} for place in places]
    return {PLACE + _hash(note): json.dumps(note, sort_keys=True) for note in fields}


class ListedUids(Collection[str]):
    """The listed uids of resources. After an incomplete listing any uid may exist."""

    def __init__(self, uids: Iterable[str], *, is_whole: bool) -> None:
        self._uids, self.is_whole = frozenset(uids), is_whole

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids or not self.is_whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._uids)

    def __len__(self) -> int:
        return len(self._uids)


@dataclass(slots=True, kw_only=True)
class KubernetesRecords:
    """Implements `RecordStore`. `named`: the current resource. `listed`: the uids of the last listing; None: not listed
    yet."""

    cluster: KubernetesApi
    named: ResourceReference | None = None
    listed: ListedUids | None = None

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        """Only places change, and only of the current resource."""
        named = self._looked_at
        check((kind, name) == (named.kind, named.name), "only what is looked at is changed")
        body = self.cluster.get(named.path)
        before = read_record(body) if body is not None and body["metadata"]["uid"] == named.uid else None
        after = edit(before)
        if before is None or after is None or after == before:
            return after
        notes: dict[str, str | None] = dict.fromkeys(place_notes(set(before.places) - set(after.places)))
        notes |= place_notes(place for place in after.places if place not in before.places)
        is_noted = self.cluster.patch(named.path, {"metadata": {"uid": named.uid, "annotations": notes}})
        return after if is_noted else None

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        body = self.cluster.get(f"{resources_path(kind, self._looked_at.namespace)}/{name}")
        return None if body is None else read_record(body)

    def uids(self) -> Collection[str]:
        listed, is_whole = (self.listed, self.listed.is_whole) if self.listed is not None else ((), True)
        return ListedUids({*listed, self._looked_at.uid}, is_whole=is_whole)

    @property
    def _looked_at(self) -> ResourceReference:
        check(self.named is not None, "something is looked at")
        return self.named  # type: ignore[return-value]  # as was checked


def _places(body: Body) -> Iterator[RepositoryPlace]:
    """Yield the recorded places, and the places in the status: annotations are lost when a person replaces the whole
    resource."""
    for name, text in (body["metadata"].get("annotations") or {}).items():
        if name.startswith(PLACE):
            yield _noted(name, text)
    for backup in (body.get("status") or {}).get("backups") or ():
        if backup.get("repository"):
            yield _place(backup)


def _noted(name: str, text: str) -> RepositoryPlace:
    """Parse an annotation: any person who may write the resource may write its annotations. Raises `BadResource`."""
    try:
        fields = json.loads(text)
        if isinstance(fields["account"], str) and isinstance(fields["repository"], str):
            return _place(fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadResource(f"annotation {name} was not written by an operator", hint="remove it")


def _place(fields: Mapping[str, Any]) -> RepositoryPlace:
    return RepositoryPlace(account=str(fields.get("account", "")), repository=str(fields["repository"]))


def _hash(fields: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def build_kubernetes_status(body: Body, reconciled: Reconciled, now_ms: int) -> dict[str, Any]:
    """Build the status of the resource `body`."""
    conditions = [_with_reason(condition, reconciled.status or {}, body) for condition in reconciled.conditions]
    return build_status(
        body["kind"],
        body["metadata"]["generation"],
        conditions,
        reconciled.status,
        before=body.get("status") or {},
        now_ms=now_ms,
    )


def status_patch(body: Body, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch from the stored status to `status`; empty if they are equal."""
    before = body.get("status") or {}
    if before == status:
        return {}
    return {"metadata": {"uid": body["metadata"]["uid"]}, "status": merge_patch(before, status)}


def _with_reason(condition: Condition, fields: Mapping[str, Any], body: Body) -> Condition:
    """Add the reason why agents do not run, if the Deployment has one, and the command that shows the state of the
    pods. Only pods have reasons such as a missing volume or too little memory, and the operator may not read pods."""
    if condition.type != ConditionType.DEPLOYMENT_ROLLING_OUT:
        return condition
    named, problem = ResourceReference.of(body), (fields.get("agents") or {}).get("problem")
    look = f"kubectl -n {named.namespace} describe pods -l {UID}={named.uid}"
    return replace(
        condition, message=f"{condition.message}{f': {problem}' if problem else ''}; see the reason with: {look}"
    )
