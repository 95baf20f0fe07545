"""Who the resources of a folder are. Files come, change and go; the record of a resource is what it was when it was
last as it may be: its uid, its generation, and the spec that is in force. Since when no file declares it is not
among it: each operator sees that for itself (`decide.steady`).

A record is changed in one way only (`Records.change`): read, think, put in place, while no other process does. So two
operators of a folder give a resource the same uid and count the same generations, and a finalizer is cleared once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from offsite.model.check import check
from offsite.model.errors import DamagedObject
from offsite.model.journal import warned
from offsite.model.time import format_time
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.operator.decide.wanted import Place
from offsite.operator.folder.files import create_whole, locked, read_json, write_whole
from offsite.operator.folder.layout import FolderLayout
from offsite.operator.resources.model import API_VERSION, Resource
from offsite.operator.resources.parse import parse_resource
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.posix_errors import wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One resource. `spec`: the last one that was accepted; `source`: the name of the file that declared it;
    `deletion_ms`: when its deletion was asked for, epoch ms, 0 for never. `places`: all that it may have backups in."""

    kind: str
    name: str
    uid: str
    generation: int
    spec: Mapping[str, JsonValue]
    source: str
    created_ms: int
    deletion_ms: int = 0
    finalizers: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Its kind and its name."""
        return self.kind, self.name

    @property
    def identity(self) -> str:
        """Of the backup that it shares with other resources; empty: with none."""
        declared = self.spec.get("identity")
        return declared if isinstance(declared, str) else ""

    @property
    def ledger(self) -> str:
        """What the ledger of its backup is named by."""
        return self.identity or self.uid

    @property
    def is_deleted(self) -> bool:
        return self.deletion_ms > 0

    def resource(self) -> Resource:
        """The resource as it is in force. Raises `BadResource` where this version takes it no more."""
        metadata = {
            "name": self.name,
            "uid": self.uid,
            "generation": self.generation,
            "finalizers": list(self.finalizers),
            "deletionTimestamp": format_time(self.deletion_ms) if self.is_deleted else None,
        }
        document = {"apiVersion": API_VERSION, "kind": self.kind, "metadata": metadata, "spec": dict(self.spec)}
        return parse_resource(document, source=f"the record of {self.kind} {self.name}")


Edit = Callable[[Record | None], Record | None]
"""What a record is to be, from what it is; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    layout: FolderLayout

    def all(self) -> tuple[Record, ...]:
        """Every record that can be read, by kind and name."""
        found = list[Record]()
        for path in self._paths():
            try:
                found += _read(path)
            except DamagedObject as error:  # `find` tells it to whoever asks for that one
                warned("damaged", why=error.message, hint=error.hint)
        return tuple(found)

    def uids(self) -> frozenset[str]:
        """Those of all resources that there are. Raises `DamagedObject` where that cannot be told."""
        return frozenset(each.uid for path in self._paths() for each in _read(path))

    def find(self, kind: str, name: str) -> Record | None:
        """Raises `DamagedObject`."""
        item = read_json(self.layout.record(kind, name))
        return None if item is None else _record(item)

    def change(self, kind: str, name: str, edit: Edit) -> Record | None:
        """The record as `edit` makes it. Nobody else changes one meanwhile."""
        path = self.layout.record(kind, name)
        with locked(self.layout.lock):
            before = self.find(kind, name)
            after = edit(before)
            if after == before:
                return before
            if after is None:
                with wrapped("remove", str(path)):
                    path.unlink(missing_ok=True)
                return None
            data = encode_object({"format": FORMAT, **_fields(after)})
            if before is None:
                check(create_whole(path, data), f"the record of {kind} {name} came into being under a lock")
            else:
                write_whole(path, data)
            return after

    def _paths(self) -> list[Path]:
        with wrapped("list", str(self.layout.records)):
            try:
                found = sorted(self.layout.records.iterdir())
            except FileNotFoundError:
                return []
        return [path for path in found if path.suffix == ".json" and not path.name.startswith(".")]


def _read(path: Path) -> list[Record]:
    """The record; none where it is gone since."""
    item = read_json(path)
    return [] if item is None else [_record(item)]


def _fields(record: Record) -> Mapping[str, JsonValue]:
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
        "places": [f"{each.account} {each.repository}" for each in record.places],
    }


def _record(item: JsonObject) -> Record:
    spec = item.fields.get("spec")
    if not isinstance(spec, Mapping):
        raise item.wrong("spec", "an object")
    return Record(
        kind=item.text("kind"),
        name=item.text("name"),
        uid=item.text("uid"),
        generation=item.count("generation"),
        spec=spec,
        source=item.text("source"),
        created_ms=item.count("created_ms"),
        deletion_ms=item.count("deletion_ms"),
        finalizers=tuple(item.texts("finalizers")),
        places=tuple(_place(text) for text in item.texts("places")),
    )


def _place(text: str) -> Place:
    account, _, repository = text.partition(" ")  # names of accounts hold no space
    return Place(account=account, repository=repository)
