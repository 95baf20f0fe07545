"""The folder as a store of resources: a record of each, which operators change under a lock, and a status file beside
its declaration, for people.

The time since when no file declares a resource is not stored: every operator measures the time itself. A status is
written as a whole, after a change and regularly, because it holds the time of the last look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from offsite.model.errors import BadOption, BadResource, DamagedObject, check
from offsite.model.journal import warned
from offsite.model.units import format_time, parse_time
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.strict_yaml import dump_yaml
from offsite.operator.core.files import (
    STATUS_SUFFIX,
    FolderLayout,
    create_whole,
    locked,
    read_json,
    read_text,
    write_whole,
)
from offsite.operator.core.records import Edit, ResourceRecord
from offsite.operator.core.status import Fields
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.resources.model import API_VERSION, ResourceKey
from offsite.operator.resources.parse import KINDS, load_documents
from offsite.repository.json_form import FORMAT, encode_object
from offsite.stores.plain_files import wrap_errors

LAST_LOOK = "lastLookTime"
LAST_LOOK_MS = 30_000
"""Time between two look times in an unchanged status."""
_MODE = 0o644
"""A status holds no secret."""


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


@dataclass(frozen=True, slots=True)
class Statuses:
    """The status files of a folder."""

    layout: FolderLayout

    def read(self, kind: str, name: str) -> Fields:
        """Return the whole document; empty if the file does not exist or was not written by an operator."""
        return _read_status(self.layout.status(kind, name))

    def write(self, key: ResourceKey, record: ResourceRecord | None, status: Fields, *, now_ms: int) -> None:
        path, age_ms = self.layout.status(*key), now_ms - last_look_ms(self.read(*key))
        if 0 <= age_ms < LAST_LOOK_MS and _text(path) == _written(key, record, status, now_ms - age_ms):
            return
        write_whole(path, _written(key, record, status, now_ms).encode(), mode=_MODE)

    def keep_only(self, keys: Collection[ResourceKey]) -> None:
        """Remove the status files of deleted resources."""
        paths = {self.layout.status(*key) for key in keys}
        with wrap_errors("remove statuses from", str(self.layout.root)):
            for path in self.layout.root.glob(f"*{STATUS_SUFFIX}"):
                kind, _, _ = path.name.partition("-")
                if (
                    path not in paths
                    and kind in {known_kind.lower() for known_kind in KINDS}
                    and _read_status(path).get("status")
                ):
                    path.unlink(missing_ok=True)


def last_look_ms(document: Fields) -> int:
    """Return the time of the last look in a status, in epoch ms; -1 if unknown."""
    status = document.get("status")
    value = status.get(LAST_LOOK) if isinstance(status, Mapping) else None
    try:
        return parse_time(value, now_ms=0) if isinstance(value, str) else -1
    except BadOption:
        return -1


def _written(key: ResourceKey, record: ResourceRecord | None, status: Fields, at_ms: int) -> str:
    stamped = {**status, LAST_LOOK: format_time(at_ms)}
    document = {"apiVersion": API_VERSION, "kind": key[0], "metadata": _metadata(key, record), "status": stamped}
    return "# Written by offsite operator: a change here is lost.\n" + dump_yaml(document)


def _metadata(key: ResourceKey, record: ResourceRecord | None) -> Fields:
    if record is None:
        return {"name": key[1]}
    metadata: dict[str, JsonValue] = {
        "name": record.name,
        "uid": record.uid,
        "generation": record.generation,
        "creationTimestamp": format_time(record.created_ms),
    }
    if record.is_deleted:
        metadata["deletionTimestamp"] = format_time(record.deletion_ms)
    if record.finalizers:
        metadata["finalizers"] = list(record.finalizers)
    return metadata


def _read_status(path: Path) -> Fields:
    """Return the document; empty if the file cannot be read: nothing depends on the status, and any person may have
    written into the file."""
    try:
        document, *_ = load_documents(read_text(path), source=path.name)
    except BadResource:
        return {}
    return cast("Fields", document) if isinstance(document, Mapping) else {}


def _text(path: Path) -> str:
    """Return the text of a status; empty if the file cannot be read and will be overwritten."""
    try:
        return read_text(path)
    except BadResource:
        return ""
