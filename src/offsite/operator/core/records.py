"""The record of a resource, and the store of records of a home. Declarations come, change and go; the record is the
last valid state, with uid, generation, and the spec in force.

A record is changed in one way only (`RecordStore.change`): read, decide, replace. So two operators give a resource the
same uid and count the same generations, and a finalizer is cleared once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from offsite.model.errors import ResourceConflict
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.resources.model import API_VERSION, Resource
from offsite.operator.resources.parse import parse_resource


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord:
    """One resource. `spec`: the last accepted spec. `source`: name of the declaring file. `deletion_ms`: time of the
    deletion request, epoch ms; 0: none. `places`: all places in which the resource may have backups."""

    kind: str
    name: str
    uid: str
    generation: int
    spec: Mapping[str, JsonValue]
    source: str
    created_ms: int
    deletion_ms: int = 0
    finalizers: tuple[str, ...] = ()
    places: tuple[RepositoryPlace, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name

    @property
    def identity(self) -> str:
        """The identity of the shared backup; empty: not shared."""
        declared = self.spec.get("identity")
        return declared if isinstance(declared, str) else ""

    @property
    def ledger(self) -> str:
        """The name of the ledger of the backup."""
        return self.identity or self.uid

    @property
    def is_deleted(self) -> bool:
        return self.deletion_ms > 0

    def resource(self) -> Resource:
        """Return the resource with the spec in force. Raises `BadResource` if this version no longer accepts the
        spec."""
        metadata = {
            "name": self.name,
            "uid": self.uid,
            "generation": self.generation,
            "finalizers": list(self.finalizers),
            "deletionTimestamp": format_time(self.deletion_ms) if self.is_deleted else None,
        }
        document = {"apiVersion": API_VERSION, "kind": self.kind, "metadata": metadata, "spec": dict(self.spec)}
        return parse_resource(document, source=f"the record of {self.kind} {self.name}")


Edit = Callable[[ResourceRecord | None], ResourceRecord | None]
"""Return the new record from the present one; None: no record."""


class RecordStore(Protocol):
    """The store of records."""

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        """Return the record as changed by `edit`; concurrent changes are not lost."""

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        """Return the record of that name, in the namespace of the current resource; None if it does not exist."""

    def uids(self) -> Collection[str]:
        """Return the uids of all existing resources, at most minutes old."""


def add_place(
    records: RecordStore,
    record: ResourceRecord,
    place: RepositoryPlace,
    *,
    among: Sequence[RepositoryPlace] | None = None,
) -> ResourceRecord:
    """Return the current record, with the place recorded before anything starts there: nothing that started is ever
    lost. `among`: the places of `record` and `place` without aliases. Raises `ResourceConflict` if the resource is
    being deleted: nothing may start for the resource."""

    def edit(now: ResourceRecord | None) -> ResourceRecord | None:
        if now is None or now.uid != record.uid or now.is_deleted:
            return now
        spelt_otherwise = set(record.places) - set(among) if among is not None else set()
        places = tuple(noted_place for noted_place in now.places if noted_place not in spelt_otherwise)
        return replace(now, places=places if place in places else (*places, place))

    now = records.change(record.kind, record.name, edit)
    if now is None or now.uid != record.uid or now.is_deleted:
        raise ResourceConflict(f"{record.kind} {record.name} is being deleted", hint="try again")
    return now
