"""What becomes of a record when files declare this or that. Pure.

What breaks a rule is told and changes nothing: the last spec that was accepted stays in force. A file that says
something else is acted on when it was the same for a while: one that is cut, or half of a save, is often a valid one
that says less. What no file declares any more is told for long before its deletion is asked for: a file that is back
ends that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.model.time import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.steady import Lasting
from offsite.operator.decide.wanted import foreign_query, refusal
from offsite.operator.folder.documents import Document, Key
from offsite.operator.folder.records import Record
from offsite.operator.resources.backup import FINALIZER, Backup
from offsite.operator.resources.model import Resource
from offsite.operator.resources.restore import Restore, RestoreState

ABSENT_AFTER_S = 3600.0
"""So long no file declares a resource before its deletion is asked for: a checkout, a mount or a copy that fails is
seen by somebody within the hour, for it is told all the while."""
SETTLE_S = 10.0
"""So long a file is the same before what it says counts: longer than a save over a slow line pauses, and short enough
for who waits for it. Nothing rests on it that could be lost: no spec, however it came about, deletes by itself."""
AWAY = "DeclarationMissing"
SETTLING = "DeclarationSettling"
"""Conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is seen of one resource: `documents` that declare it; `settling`: how long the only one was the same, None
    where it is known to be whole; `away`: how long none does, None while some file is there that cannot be read, and
    may declare it: files are renamed. `is_source_there`: the file that declared it is there. `uid`: for it, if it is
    new."""

    key: Key
    documents: Sequence[Document]
    now_ms: int
    uid: str
    settling: Lasting | None = None
    away: Lasting | None = None
    is_source_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The record as it is then, what is wrong with what is declared now, and what is waited for: conditions."""

    record: Record | None
    problem: str = ""
    waits: Mapping[str, str] = field(default_factory=dict)


def admit(record: Record | None, sight: Sight) -> Admission:
    if not sight.documents:
        return _vanished(record, sight)
    if len(sight.documents) > 1:
        files = " and ".join(each.source for each in sight.documents)
        kind, name = sight.key
        return Admission(record=record, problem=f"{kind} {name} is declared more than once: in {files}")
    (document,) = sight.documents
    if document.resource is None:
        return Admission(record=record, problem=document.problem)
    if problem := contradiction(document.resource):
        return Admission(record=record, problem=problem)
    if record is None:
        admission = Admission(record=_new(document.resource, document.source, sight))
    elif record.is_deleted:
        return Admission(record=record, problem="it waits until the former one of this name is deleted")
    else:
        admission = _changed(record, document.resource, document.source)
    return _settled(record, admission, sight)


def _settled(before: Record | None, admission: Admission, sight: Sight) -> Admission:
    """The admission, once what it rests on was the same for long enough."""
    is_change = admission.record is not None and (before is None or before.generation != admission.record.generation)
    if sight.settling is None or sight.settling.is_enough or not is_change:
        return admission
    said = f"{sight.documents[0].source} was changed; what it says is acted on once it was the same for a moment"
    return Admission(record=before, waits={SETTLING: said})


def forbidden_change(before: Resource, after: Resource) -> str:
    """Which rule a change breaks; empty: none."""
    name = after.metadata.name
    if isinstance(before, Backup) and isinstance(after, Backup):
        was, now = before.spec.cluster or name, after.spec.cluster or name
        if was != now:
            return f"spec.cluster is immutable: it is {was}, not {now}"
        was, now = before.spec.identity, after.spec.identity
        return f"spec.identity is immutable: it is {was or 'empty'}, not {now or 'empty'}" if was != now else ""
    if isinstance(before, Restore) and isinstance(after, Restore):
        if before.spec.model_copy(update={"state": after.spec.state}) != after.spec:
            return "spec is immutable: a restore is done once; declare another one under a new name"
        if before.spec.state is RestoreState.STOPPED and after.spec.state is RestoreState.RUNNING:
            return "spec.state is stopped for good: declare another restore under a new name"
    return ""


def contradiction(resource: Resource) -> str:
    """Which of its own parts a resource speaks against; empty: none."""
    match resource:
        case Backup(spec=spec):
            return refusal(spec)
        case Restore(spec=spec):
            return foreign_query(spec.backup_url.rpartition("#")[0], "spec.backupUrl")
        case _:
            return ""


def spec_of(resource: Resource) -> Mapping[str, JsonValue]:
    """Every field, as it is written in files."""
    found: Mapping[str, JsonValue] = resource.model_dump(mode="json", by_alias=True)["spec"]
    return found


def _vanished(record: Record | None, sight: Sight) -> Admission:
    if record is None or record.is_deleted or sight.away is None:
        return Admission(record=record)
    if sight.away.is_enough:
        return Admission(record=replace(record, deletion_ms=sight.now_ms))
    return Admission(record=record, waits={AWAY: _away(record, sight.away, sight)})


def _away(record: Record, away: Lasting, sight: Sight) -> str:
    """In whole minutes, so that a status is not written at each look."""
    kind, name = record.key
    goes = "is away" if not sight.is_source_there else f"declares {kind} {name} no more"
    earliest_ms = -(-away.until_ms(sight.now_ms) // 60_000) * 60_000
    what = "it is deleted, with its backups," if record.finalizers else "it is deleted"
    return (
        f"{record.source}, which declared {kind} {name}, {goes} since {format_time(away.since_ms)}: {what} at "
        f"{format_time(earliest_ms)} at the earliest. Put it back, or delete it now: "
        f"offsite operator delete {kind.lower()} {name}"
    )


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
