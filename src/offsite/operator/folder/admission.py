"""What becomes of a record when files declare this or that. Pure.

What breaks a rule is told and changes nothing: the last spec that was accepted stays in force. What no file declares
any more is asked to be deleted, when that has been so for a while: editors and copies take files away for moments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.folder.documents import Document, Key
from offsite.operator.folder.records import Record
from offsite.operator.resources.backup import FINALIZER, Backup
from offsite.operator.resources.model import Resource
from offsite.operator.resources.restore import Restore, RestoreState

VANISHED_MS = 10_000
"""So long no file declares a resource before it counts as taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is seen of one resource: `documents` that declare it; `is_unclear`: some file is there that cannot be
    read, and may declare it: files are renamed; `uid`: for it, if it is new."""

    key: Key
    documents: Sequence[Document]
    is_unclear: bool
    now_ms: int
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The record as it is then, and what is wrong with what is declared now."""

    record: Record | None
    problem: str = ""


def admit(record: Record | None, sight: Sight) -> Admission:
    if not sight.documents:
        return Admission(record=_vanished(record, sight))
    there = replace(record, missing_ms=0) if record is not None and not record.is_deleted else record
    if len(sight.documents) > 1:
        files = " and ".join(each.source for each in sight.documents)
        kind, name = sight.key
        return Admission(record=there, problem=f"{kind} {name} is declared more than once: in {files}")
    (document,) = sight.documents
    if document.resource is None:
        return Admission(record=there, problem=document.problem)
    if there is None:
        return Admission(record=_new(document.resource, document.source, sight))
    if there.is_deleted:
        return Admission(record=there, problem="it waits until the former one of this name is deleted")
    return _changed(there, document.resource, document.source)


def forbidden_change(before: Resource, after: Resource) -> str:
    """Which rule a change breaks; empty: none."""
    name = after.metadata.name
    if isinstance(before, Backup) and isinstance(after, Backup):
        was, now = before.spec.cluster or name, after.spec.cluster or name
        return f"spec.cluster is immutable: it is {was}, not {now}" if was != now else ""
    if isinstance(before, Restore) and isinstance(after, Restore):
        if before.spec.model_copy(update={"state": after.spec.state}) != after.spec:
            return "spec is immutable: a restore is done once; declare another one under a new name"
        if before.spec.state is RestoreState.STOPPED and after.spec.state is RestoreState.RUNNING:
            return "spec.state is stopped for good: declare another restore under a new name"
    return ""


def spec_of(resource: Resource) -> Mapping[str, JsonValue]:
    """Every field, as it is written in files."""
    found: Mapping[str, JsonValue] = resource.model_dump(mode="json", by_alias=True)["spec"]
    return found


def _vanished(record: Record | None, sight: Sight) -> Record | None:
    if record is None or record.is_deleted:
        return record
    if sight.is_unclear:
        return replace(record, missing_ms=0)
    if not record.missing_ms:
        return replace(record, missing_ms=sight.now_ms)
    if sight.now_ms - record.missing_ms < VANISHED_MS:
        return record
    return replace(record, deletion_ms=sight.now_ms)


def _new(resource: Resource, source: str, sight: Sight) -> Record:
    kind, name = sight.key
    return Record(
        kind=kind,
        name=name,
        uid=sight.uid,
        generation=1,
        spec=spec_of(resource),
        source=source,
        created_ms=sight.now_ms,
        finalizers=_finalizers(resource),
    )


def _changed(record: Record, resource: Resource, source: str) -> Admission:
    before = record.resource()
    if problem := forbidden_change(before, resource):
        return Admission(record=record, problem=problem)
    known = replace(record, source=source)
    if spec_of(before) == spec_of(resource):
        return Admission(record=known)
    generation = record.generation + 1
    changed = replace(known, spec=spec_of(resource), generation=generation, finalizers=_finalizers(resource))
    return Admission(record=changed)


def _finalizers(resource: Resource) -> tuple[str, ...]:
    is_kept = isinstance(resource, Backup) and resource.spec.expiry.deletion_finalizer
    return (FINALIZER,) if is_kept else ()
