"""The status of a resource: the last observation of an operator, the same in all homes. In a folder: a file beside the
declaration, written as a whole, after a change and regularly, because the status holds the time of the last look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from offsite.model.errors import BadOption, BadResource
from offsite.model.units import format_time, parse_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.core.files import STATUS_SUFFIX, FolderLayout, read_text, write_whole
from offsite.operator.core.records import ResourceRecord
from offsite.operator.decide.observed import ObservedBackup, ObservedLowLevel
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import API_VERSION, ResourceKey
from offsite.operator.resources.parse import KINDS, dump_document, load_documents
from offsite.operator.resources.status import fit_to_model
from offsite.repository.declared.members import BackupMember
from offsite.stores.plain_files import wrap_errors

LAST_LOOK = "lastLookTime"
LAST_LOOK_MS = 30_000
"""Time between two look times in an unchanged status."""

Fields = Mapping[str, JsonValue]
_MODE = 0o644
"""A status holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition: a difference from the spec, with a message. `is_note`: no difference, but information for a
    person."""

    type: str
    message: str
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Statuses:
    """The status files of a folder."""

    layout: FolderLayout

    def read(self, kind: str, name: str) -> Fields:
        """Return the whole document; empty if the file does not exist or was not written by an operator."""
        return _read(self.layout.status(kind, name))

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
                    and _read(path).get("status")
                ):
                    path.unlink(missing_ok=True)


def build_status(  # noqa: PLR0913  # a status has so many parts
    kind: str, generation: int, conditions: Sequence[Condition], fields: Fields | None, *, before: Fields, now_ms: int
) -> dict[str, JsonValue]:
    """Build the status of a resource in any home, within the bounds of its model. `fields`: other observed fields;
    None: nothing was observed, and the fields of `before` stay. A condition that existed before keeps its time."""
    since = {condition.get("type"): condition.get("lastTransitionTime") for condition in _conditions(before)}
    current = before if fields is None else fields
    status: dict[str, JsonValue] = {
        **current,
        "observedGeneration": generation,
        "reconciled": all(condition.is_note for condition in conditions),
        "conditions": [
            {
                "type": condition.type,
                "status": "True",
                "reason": condition.type,
                "message": condition.message,
                "lastTransitionTime": since.get(condition.type) or format_time(now_ms),
                "observedGeneration": generation,
            }
            for condition in conditions
        ],
    }
    return fit_to_model(status, DEFINITIONS[kind].status)


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
    return "# Written by offsite operator: a change here is lost.\n" + dump_document(document)


def describe_backups(observed: ObservedBackup) -> list[JsonValue]:
    return [_backup(backup) for backup in observed.backups]


def describe_members(members: Sequence[BackupMember], counts: BackupMember | None, *, own: str) -> list[JsonValue]:
    """The resources that share a backup. `counts`: the resource with the spec in force. `own`: the id of the resource
    with this status."""
    return [
        {
            "id": member.id,
            "name": member.name,
            "operator": member.by,
            "since": format_time(member.at_ms),
            "counts": member is counts,
            "own": member.id == own,
        }
        for member in members
    ]


def _backup(observed: ObservedLowLevel) -> Fields:
    fields: dict[str, JsonValue] = {
        "tag": observed.low.beginning.tag,
        "account": observed.place.account,
        "repository": observed.place.repository,
        "backup": observed.low.beginning.backup,
        "phase": observed.low.phase.value,
        "restorable": observed.is_whole,
    }
    if observed.oldest_commit:
        fields["oldestData"] = {"commit": observed.oldest_commit, "timestamp": format_time(observed.oldest_ms)}
    if observed.latest_commit:
        fields["latestRestorable"] = {"commit": observed.latest_commit, "timestamp": format_time(observed.latest_ms)}
    if observed.problem:
        fields["problem"] = observed.problem
    return fields


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


def _read(path: Path) -> Fields:
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


def _conditions(status: Fields) -> list[Fields]:
    listed = status.get("conditions")
    conditions = (
        [condition for condition in listed if isinstance(condition, Mapping)] if isinstance(listed, list) else []
    )
    return [condition for condition in conditions if isinstance(condition.get("type"), str)]
