"""The records of resources. Declarations come, change and go; the record of a resource is its last valid state: uid,
generation, and the spec in force. The time since when no file declares a resource is not stored: every operator
measures the time itself.

A record is changed in one way only (`ResourceRecords.change`): read, decide, replace, under a lock. So two
operators of a folder give a resource the same uid and count the same generations, and a finalizer is cleared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import DamagedObject, check
from offsite.model.journal import warned
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.operator.core.files import FolderLayout, create_whole, locked, read_json, write_whole
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.resources.model import API_VERSION, Resource
from offsite.operator.resources.parse import parse_resource
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.plain_files import wrap_errors


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecords:
    layout: FolderLayout

    def all(self) -> tuple[ResourceRecord, ...]:
        """Return every readable record, by kind and name."""
        records = list[ResourceRecord]()
        for path in self._paths():
            try:
                records += _read(path)
            except DamagedObject as error:  # `find` reports the damage of that record
                warned("damaged", why=error.message, hint=error.hint)
        return tuple(records)

    def uids(self) -> frozenset[str]:
        """Return the uids of all existing resources. Raises `DamagedObject` if a record cannot be read."""
        return frozenset(record.uid for path in self._paths() for record in _read(path))

    def find(self, kind: str, name: str) -> ResourceRecord | None:
        """Return the record. Raises `DamagedObject`."""
        document = read_json(self.layout.record(kind, name))
        return None if document is None else _record(document)

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None:
        """Return the record as changed by `edit`. No other process changes a record meanwhile."""
        path = self.layout.record(kind, name)
        with locked(self.layout.lock):
            before = self.find(kind, name)
            after = edit(before)
            if after == before:
                return before
            if after is None:
                with wrap_errors("remove", str(path)):
                    path.unlink(missing_ok=True)
                return None
            data = encode_object({"format": FORMAT, **_fields(after)})
            if before is None:
                check(create_whole(path, data), f"the record of {kind} {name} came into being under a lock")
            else:
                write_whole(path, data)
            return after

    def _paths(self) -> list[Path]:
        with wrap_errors("list", str(self.layout.records)):
            try:
                paths = sorted(self.layout.records.iterdir())
            except FileNotFoundError:
                return []
        return [path for path in paths if path.suffix == ".json" and not path.name.startswith(".")]


def _read(path: Path) -> list[ResourceRecord]:
    """Return the record; empty if the record was deleted meanwhile."""
    document = read_json(path)
    return [] if document is None else [_record(document)]


def _fields(record: ResourceRecord) -> Mapping[str, JsonValue]:
    return {
        "kind": record.kind,
        "name": record.name,
        "uid": record.uid,
        "generation": record.generation,
        "spec": dict(record.spec),
        "source": record.source,
        "created_ms": record.created_ms,
        "missing_ms": 0,  # as earlier versions read it
        "deletion_ms": record.deletion_ms,
        "finalizers": list(record.finalizers),
        "places": [f"{place.account} {place.repository}" for place in record.places],
    }


def _record(document: JsonObject) -> ResourceRecord:
    spec = document.fields.get("spec")
    if not isinstance(spec, Mapping):
        raise document.wrong("spec", "an object")
    return ResourceRecord(
        kind=document.text("kind"),
        name=document.text("name"),
        uid=document.text("uid"),
        generation=document.count("generation"),
        spec=spec,
        source=document.text("source"),
        created_ms=document.count("created_ms"),
        deletion_ms=document.count("deletion_ms"),
        finalizers=tuple(document.texts("finalizers")),
        places=tuple(_place(text) for text in document.texts("places")),
    )


def _place(text: str) -> RepositoryPlace:
    account, _, repository = text.partition(" ")  # names of accounts hold no space
    return RepositoryPlace(account=account, repository=repository)
