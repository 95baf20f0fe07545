"""A Backup of Kubernetes as the record that keepers look at, with all repositories that it may have backups in.

Each of those is noted in an annotation of its own before anything begins there. So a note is never lost to another one,
and goes with the resource.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsite.operator.decide.wanted import Place
from offsite.operator.folder.records import Edit, Record
from offsite.operator.kubernetes.cluster import Body, Cluster, Named
from offsite.operator.resources.model import GROUP

PLACE = f"place.{GROUP}/"
"""How annotations begin that note a repository."""


def record_of(body: Body) -> Record:
    metadata = body["metadata"]
    return Record(
        kind="Backup",
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata["generation"],
        spec=body.get("spec") or {},
        source="",
        created_ms=0,
        deletion_ms=1 if metadata.get("deletionTimestamp") else 0,
        finalizers=tuple(metadata.get("finalizers") or ()),
        places=tuple(sorted(set(_places(body)), key=lambda place: (place.repository, place.account))),
    )


def place_notes(places: Iterable[Place]) -> dict[str, str]:
    """The annotations for `places`."""
    fields = [{"account": each.account, "repository": each.repository} for each in places]
    return {PLACE + _hash(each): json.dumps(each, sort_keys=True) for each in fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """The port `Changes` for the one resource that is looked at."""

    cluster: Cluster
    named: Named

    def change(self, kind: str, name: str, edit: Edit) -> Record | None:  # noqa: ARG002  # there is but one
        """Only places are ever added to it."""
        body = self.cluster.get(self.named.path)
        before = record_of(body) if body is not None and body["metadata"]["uid"] == self.named.uid else None
        after = edit(before)
        if before is None or after is None or after == before:
            return after
        notes = place_notes(each for each in after.places if each not in before.places)
        is_noted = self.cluster.patch(self.named.path, {"metadata": {"uid": self.named.uid, "annotations": notes}})
        return after if is_noted else None


def _places(body: Body) -> Iterator[Place]:
    """Those that are noted, and those of the backups that the status tells of: notes are lost when somebody replaces
    the whole resource."""
    for name, text in (body["metadata"].get("annotations") or {}).items():
        if name.startswith(PLACE):
            yield _place(json.loads(text))
    for each in (body.get("status") or {}).get("backups") or ():
        if each.get("repository"):
            yield _place(each)


def _place(fields: Mapping[str, Any]) -> Place:
    return Place(account=str(fields.get("account", "")), repository=str(fields["repository"]))


def _hash(fields: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
