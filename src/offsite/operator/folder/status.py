"""The status of a resource: the last observation of an operator, the same in all homes. In a folder: a file beside the
declaration, written as a whole, after a change and regularly, because the status holds the time of the last look."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from offsite.model.errors import BadOption, BadResource
from offsite.model.time import format_time, parse_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.seen import BackupSeen, LowLevelSeen
from offsite.operator.folder.documents import Key, read_text
from offsite.operator.folder.files import write_whole
from offsite.operator.folder.layout import STATUS_SUFFIX, FolderLayout
from offsite.operator.folder.records import Record
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import API_VERSION
from offsite.operator.resources.parse import KINDS
from offsite.operator.resources.status import fitted
from offsite.operator.resources.yaml_text import dump_document, load_documents
from offsite.repository.declared.members import Member
from offsite.stores.posix_errors import wrapped

LAST_LOOK = "lastLookTime"
LAST_LOOK_MS = 30_000
"""Time between two look times in an unchanged status."""

Fields = Mapping[str, JsonValue]
_MODE = 0o644
"""A status holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
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

    def write(self, key: Key, record: Record | None, status: Fields, *, now_ms: int) -> None:
        path, age_ms = self.layout.status(*key), now_ms - looked_ms(self.read(*key))
        if 0 <= age_ms < LAST_LOOK_MS and _text(path) == _written(key, record, status, now_ms - age_ms):
            return
        write_whole(path, _written(key, record, status, now_ms).encode(), mode=_MODE)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Remove the status files of deleted resources."""
        kept = {self.layout.status(*key) for key in keys}
        with wrapped("remove statuses from", str(self.layout.root)):
            for path in self.layout.root.glob(f"*{STATUS_SUFFIX}"):
                kind, _, _ = path.name.partition("-")
                if path not in kept and kind in {each.lower() for each in KINDS} and _read(path).get("status"):
                    path.unlink(missing_ok=True)


def status_of(  # noqa: PLR0913  # a status has so many parts
    kind: str, generation: int, told: Sequence[Told], fields: Fields | None, *, before: Fields, now_ms: int
) -> dict[str, JsonValue]:
    """Build the status of a resource in any home, within the bounds of its model. `fields`: other observed fields;
    None: nothing was observed, and the fields of `before` stay. A condition that existed before keeps its time."""
    since = {each.get("type"): each.get("lastTransitionTime") for each in _conditions(before)}
    known = before if fields is None else fields
    status: dict[str, JsonValue] = {
        **known,
        "observedGeneration": generation,
        "reconciled": all(each.is_note for each in told),
        "conditions": [
            {
                "type": each.type,
                "status": "True",
                "reason": each.type,
                "message": each.message,
                "lastTransitionTime": since.get(each.type) or format_time(now_ms),
                "observedGeneration": generation,
            }
            for each in told
        ],
    }
    return fitted(status, DEFINITIONS[kind].status)


def looked_ms(document: Fields) -> int:
    """Return the time of the last look in a status, in epoch ms; -1 if unknown."""
    status = document.get("status")
    found = status.get(LAST_LOOK) if isinstance(status, Mapping) else None
    try:
        return parse_time(found, now_ms=0) if isinstance(found, str) else -1
    except BadOption:
        return -1


def _written(key: Key, record: Record | None, status: Fields, at_ms: int) -> str:
    told = {**status, LAST_LOOK: format_time(at_ms)}
    document = {"apiVersion": API_VERSION, "kind": key[0], "metadata": _metadata(key, record), "status": told}
    return "# Written by offsite operator: a change here is lost.\n" + dump_document(document)


def backups_of(seen: BackupSeen) -> list[JsonValue]:
    return [_backup(each) for each in seen.backups]


def members_of(there: Sequence[Member], counts: Member | None, *, own: str) -> list[JsonValue]:
    """The resources that share a backup. `counts`: the one whose word does; `own`: the id of the one that is told of
    it."""
    return [
        {
            "id": member.id,
            "name": member.name,
            "operator": member.by,
            "since": format_time(member.at_ms),
            "counts": member is counts,
            "own": member.id == own,
        }
        for member in there
    ]


def _backup(seen: LowLevelSeen) -> Fields:
    found: dict[str, JsonValue] = {
        "tag": seen.low.beginning.tag,
        "account": seen.place.account,
        "repository": seen.place.repository,
        "backup": seen.low.beginning.backup,
        "phase": seen.low.phase.value,
        "restorable": seen.is_whole,
    }
    if seen.oldest_commit:
        found["oldestData"] = {"commit": seen.oldest_commit, "timestamp": format_time(seen.oldest_ms)}
    if seen.latest_commit:
        found["latestRestorable"] = {"commit": seen.latest_commit, "timestamp": format_time(seen.latest_ms)}
    if seen.problem:
        found["problem"] = seen.problem
    return found


def _metadata(key: Key, record: Record | None) -> Fields:
    if record is None:
        return {"name": key[1]}
    found: dict[str, JsonValue] = {
        "name": record.name,
        "uid": record.uid,
        "generation": record.generation,
        "creationTimestamp": format_time(record.created_ms),
    }
    if record.is_deleted:
        found["deletionTimestamp"] = format_time(record.deletion_ms)
    if record.finalizers:
        found["finalizers"] = list(record.finalizers)
    return found


def _read(path: Path) -> Fields:
    """Return the document; empty if the file cannot be read: nothing depends on the status, and any person may have
    written into the file."""
    try:
        found, *_ = load_documents(read_text(path), source=path.name)
    except BadResource:
        return {}
    return cast("Fields", found) if isinstance(found, Mapping) else {}


def _text(path: Path) -> str:
    """Return the text of a status; empty if the file cannot be read and will be overwritten."""
    try:
        return read_text(path)
    except BadResource:
        return ""


def _conditions(status: Fields) -> list[Fields]:
    found = status.get("conditions")
    told = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    return [each for each in told if isinstance(each.get("type"), str)]
