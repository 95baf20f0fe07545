"""The declarations in the files of a folder: how they are read, how long this process has observed the same ones, and
how they become the records of resources.

A file that cannot be read completely is never taken for a file that declares nothing. A declaration that breaks a rule
is reported and changes nothing: the last accepted spec stays in force. A changed file takes effect after the file was
stable for a while: a truncated or half-saved file is often valid and says less. A resource that no file declares any
more is reported for a long time before its deletion is requested: a file that comes back ends the wait.

A wall clock may be set, and notes of another process come from foreign observations and a foreign clock. Neither
shows a value to be stable: only observations do. Nothing is observed between two observations, hence a gap counts
for a limited time only: after a stop of an hour, a process has observed nothing of the hour. A new process starts
from zero.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import BadOption, BadResource, OffsiteError
from offsite.model.ids import random_uuid
from offsite.model.units import format_time
from offsite.model.untrusted.json_object import JsonValue
from offsite.model.untrusted.text import printable
from offsite.operator.core.files import ACCOUNTS, STATUS_SUFFIX, read_text
from offsite.operator.core.records import ResourceRecord
from offsite.operator.core.status import Condition
from offsite.operator.decide.desired import find_refusal, foreign_query
from offsite.operator.folder.resources import ResourceRecords
from offsite.operator.resources.backup import FINALIZER, Backup
from offsite.operator.resources.jobs import Restore, RestoreState
from offsite.operator.resources.model import NAME_MAX, Resource, ResourceKey
from offsite.operator.resources.parse import KINDS, load_documents, parse_resource
from offsite.stores.plain_files import wrap_errors

ABSENT_AFTER_S = 3600.0
"""Seconds that no file declares a resource before its deletion is requested: somebody notices a failed checkout, mount
or copy within the hour, because the condition is reported all the time."""
SETTLE_S = 10.0
"""Seconds that a file must be stable before its content counts: longer than a pause in a slow save, and short enough
for a waiting person. No data depend on the value: no spec deletes by itself."""
DECLARATION_MISSING = "DeclarationMissing"
DECLARATION_SETTLING = "DeclarationSettling"
"""Types of conditions."""
LOOKS_MIN = 4
"""Minimum number of observations after the first one, until a value counts as stable."""
_NAME = re.compile(rf"[a-z0-9]([-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document with kind and name. `resource`: None if `problem` explains an error. `digest`: hash of all bytes of
    the file."""

    key: ResourceKey
    source: str
    resource: Resource | None = None
    problem: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDocuments:
    """`unclear`: by file name, why the declarations of a file are unknown."""

    documents: tuple[Document, ...]
    unclear: Mapping[str, str]


def read_declared(root: Path) -> DeclaredDocuments:
    """Read all declarations in the files of `root`. Raises `BadOption` if the folder does not exist, and the errors of
    files."""
    if not root.is_dir():
        raise BadOption(f"there is no folder {root}", hint="create the folder, and put resources into it")
    with wrap_errors("list", str(root)):
        paths = sorted(path for path in root.iterdir() if _may_declare(path))
    documents, unclear = list[Document](), dict[str, str]()
    for path in paths:
        if (name := printable(path.name)) != path.name:  # a record holds the name, and is JSON
            unclear[name] = "its name is not valid text: rename the file"
            continue
        try:
            documents += list(read_file(path))
        except BadResource as error:
            unclear[path.name] = f"{error.message}{'; ' if error.hint else ''}{error.hint}"
    return DeclaredDocuments(documents=tuple(documents), unclear=unclear)


def read_file(path: Path) -> Iterator[Document]:
    """Yield the documents of one file. Raises `BadResource` if the declarations cannot be read."""
    yield from documents_of(read_text(path), path.name)


def documents_of(text: str, source: str) -> Iterator[Document]:
    """Yield the documents in `text`, the content of the file `source`. Raises `BadResource`."""
    digest = digest_of(text.encode())
    for document in load_documents(text, source=source):
        yield replace(_document(document, source), digest=digest)


def digest_of(data: bytes) -> str:
    """Return a hash that shows whether a file holds exactly the bytes that were written."""
    return hashlib.sha256(data).hexdigest()


def _may_declare(path: Path) -> bool:
    """Whether a path may declare resources. True for a broken link or a pipe: its declarations are unknown."""
    is_own = path.name.endswith(STATUS_SUFFIX) or path.name == ACCOUNTS or path.name.startswith(".")
    return path.suffix in {".yaml", ".yml"} and not is_own and not os.path.isdir(path)  # noqa: PTH112  # never raises


def _document(document: object, source: str) -> Document:
    key = _key(document)
    try:
        resource = parse_resource(document, source=source)
    except BadResource as error:
        if key is None:
            raise
        return Document(key=key, source=source, problem=f"{error.message}{'; ' if error.hint else ''}{error.hint}")
    return Document(key=(str(resource.kind), resource.metadata.name), source=source, resource=resource)  # type: ignore[attr-defined]  # all kinds have it


def _key(document: object) -> ResourceKey | None:
    """Return kind and name of a document that may be wrong otherwise."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(metadata, Mapping):
        return None
    kind, name = document.get("kind"), metadata.get("name")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(name, str):
        return None
    return (kind, name) if _NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """A value that was the same in consecutive observations. `since_ms`: wall-clock time of the first observation, for
    people only. `remaining_s`: seconds until the value counts as stable; 0: stable."""

    value: Hashable
    since_ms: int
    remaining_s: float
    last_look_s: float

    @property
    def is_stable(self) -> bool:
        return self.remaining_s <= 0

    def until_ms(self, now_ms: int) -> int:
        """Return the earliest time at which the value can count as stable."""
        return now_ms + int(max(0.0, self.remaining_s) * 1000)


class StabilizationWindow:
    """The observed values of several keys. `enough_s`: seconds that a value must be the same before the value
    counts."""

    def __init__(self, *, enough_s: float) -> None:
        self._enough_s = enough_s
        self._seen: dict[Hashable, Stability] = {}

    def look(self, key: Hashable, value: Hashable, *, now_s: float, now_ms: int) -> Stability:
        """Record one observation: `value` for `key`. `now_s`: a monotonic clock."""
        before = self._seen.get(key)
        if before is None or before.value != value:
            now = Stability(value=value, since_ms=now_ms, remaining_s=self._enough_s, last_look_s=now_s)
        else:
            counted_s = min(max(0.0, now_s - before.last_look_s), self._enough_s / LOOKS_MIN)
            now = replace(before, remaining_s=max(0.0, before.remaining_s - counted_s), last_look_s=now_s)
        self._seen[key] = now
        return now

    def forget(self, key: Hashable) -> None:
        """Drop the value: the next observation is the first one."""
        self._seen.pop(key, None)

    def keep_only(self, keys: Collection[Hashable]) -> None:
        for key in self._seen.keys() - set(keys):
            del self._seen[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDeclaration:
    """The observed declarations of one resource. `documents`: documents that declare the resource. `settling`:
    stability of the only document; None if the document is known to be whole. `away`: stability of the absence; None
    while some file cannot be read and may declare the resource, because files are renamed. `is_source_there`: the file
    of the former declaration exists. `uid`: uid for a new resource."""

    key: ResourceKey
    documents: Sequence[Document]
    now_ms: int
    uid: str
    settling: Stability | None = None
    away: Stability | None = None
    is_source_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The new record, the problem of the present declaration, and the conditions of a wait."""

    record: ResourceRecord | None
    problem: str = ""
    waits: Mapping[str, str] = field(default_factory=dict)


def admit(record: ResourceRecord | None, sight: ObservedDeclaration) -> Admission:
    if not sight.documents:
        return _vanished(record, sight)
    if len(sight.documents) > 1:
        files = " and ".join(document.source for document in sight.documents)
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
        return Admission(record=record, problem="it waits until the old resource of this name is deleted")
    else:
        admission = _changed(record, document.resource, document.source)
    return _settled(record, admission, sight)


def _settled(before: ResourceRecord | None, admission: Admission, sight: ObservedDeclaration) -> Admission:
    """Return the admission after the file was stable for long enough."""
    is_change = admission.record is not None and (before is None or before.generation != admission.record.generation)
    if sight.settling is None or sight.settling.is_stable or not is_change:
        return admission
    said = f"{sight.documents[0].source} was changed; the change is used when the file has been stable for a moment"
    return Admission(record=before, waits={DECLARATION_SETTLING: said})


def forbidden_change(before: Resource, after: Resource) -> str:
    """Return the rule that a change breaks; empty: none."""
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
            return "a stopped restore cannot run again: declare another restore under a new name"
    return ""


def contradiction(resource: Resource) -> str:
    """Return the contradiction within a resource; empty: none."""
    match resource:
        case Backup(spec=spec):
            return find_refusal(spec)
        case Restore(spec=spec):
            return foreign_query(spec.backup_url.rpartition("#")[0], "spec.backupUrl")
        case _:
            return ""


def spec_of(resource: Resource) -> Mapping[str, JsonValue]:
    """Return every field, as written in files."""
    spec: Mapping[str, JsonValue] = resource.model_dump(mode="json", by_alias=True)["spec"]
    return spec


def _vanished(record: ResourceRecord | None, sight: ObservedDeclaration) -> Admission:
    if record is None or record.is_deleted or sight.away is None:
        return Admission(record=record)
    if sight.away.is_stable:
        return Admission(record=replace(record, deletion_ms=sight.now_ms))
    return Admission(record=record, waits={DECLARATION_MISSING: _away(record, sight.away, sight)})


def _away(record: ResourceRecord, away: Stability, sight: ObservedDeclaration) -> str:
    """The message, with times in whole minutes so that not every round writes the status."""
    kind, name = record.key
    goes = "is missing" if not sight.is_source_there else f"no longer declares {kind} {name}"
    earliest_ms = -(-away.until_ms(sight.now_ms) // 60_000) * 60_000
    consequence = "it is deleted, with its backups," if record.finalizers else "it is deleted"
    return (
        f"{record.source}, which declared {kind} {name}, {goes} since {format_time(away.since_ms)}: {consequence} at "
        f"{format_time(earliest_ms)} at the earliest. Put it back, or delete it now: "
        f"offsite operator delete {kind.lower()} {name}"
    )


def _new(resource: Resource, source: str, sight: ObservedDeclaration) -> ResourceRecord:
    kind, name = sight.key
    return ResourceRecord(
        kind=kind,
        name=name,
        uid=sight.uid,
        generation=1,
        spec=spec_of(resource),
        source=source,
        created_ms=sight.now_ms,
        finalizers=_finalizers(resource),
    )


def _changed(record: ResourceRecord, resource: Resource, source: str) -> Admission:
    before = record.resource()
    if problem := forbidden_change(before, resource):
        return Admission(record=record, problem=problem)
    updated = replace(record, source=source)
    if spec_of(before) == spec_of(resource):
        return Admission(record=updated)
    generation = record.generation + 1
    changed = replace(updated, spec=spec_of(resource), generation=generation, finalizers=_finalizers(resource))
    return Admission(record=changed)


def _finalizers(resource: Resource) -> tuple[str, ...]:
    is_kept = isinstance(resource, Backup) and resource.spec.expiry.deletion_finalizer
    return (FINALIZER,) if is_kept else ()


class Admissions:
    """`is_whole`: whether the file of a document is known to be whole, so that no second observation is needed."""

    def __init__(
        self,
        *,
        records: ResourceRecords,
        is_whole: Callable[[Document], bool],
        clock: Clock,
        absent_after_s: float,
        settle_s: float,
    ) -> None:
        self._records, self._is_whole, self._clock = records, is_whole, clock
        self._away = StabilizationWindow(enough_s=absent_after_s)
        self._settling = StabilizationWindow(enough_s=settle_s)

    def settles(self, declared: DeclaredDocuments) -> bool:
        """Observe without deciding; return whether some declaration is new and not known to be whole."""
        news = [
            document
            for document in declared.documents
            if self._lasting(document) is not None and self._is_news(document)
        ]
        return bool(news)

    def admit_all(self, declared: DeclaredDocuments) -> dict[ResourceKey, Sequence[Condition]]:
        """Update all records from the files. Return the problems and waits of every resource that a file declares, or
        may declare."""
        by_key = defaultdict[ResourceKey, list[Document]](list)
        for document in declared.documents:
            by_key[document.key].append(document)
        problems: dict[ResourceKey, Sequence[Condition]] = dict.fromkeys(by_key, ())
        keys = {**problems, **{record.key: () for record in self._records.all()}}
        for key in keys:
            try:
                said = self._admit(key, by_key.get(key, []), declared)
            except OffsiteError as error:
                said = [misconfigured(key, f"{error.id}: {error.message}")]
            if said or key in problems:
                problems[key] = said
        for steady in (self._away, self._settling):
            steady.keep_only(keys)
        return problems

    def _admit(self, key: ResourceKey, documents: Sequence[Document], declared: DeclaredDocuments) -> list[Condition]:
        conditions = list[Condition]()
        sight = ObservedDeclaration(
            key=key,
            documents=documents,
            now_ms=self._clock.now_ms(),
            uid=random_uuid(),
            settling=self._lasting(documents[0]) if len(documents) == 1 else None,
            away=self._absence(key) if not documents and not declared.unclear else None,
        )
        if sight.away is None:
            self._away.forget(key)

        def edit(record: ResourceRecord | None) -> ResourceRecord | None:
            sources = {document.source for document in declared.documents}
            admission = admit(record, replace(sight, is_source_there=record is not None and record.source in sources))
            unclear = "" if record is None or documents else _unclear(declared, record)
            conditions[:] = _told(key, admission, unclear)
            return admission.record

        self._records.change(*key, edit)
        return conditions

    def _lasting(self, document: Document) -> Stability | None:
        """Return how long the file was stable; None if the file is known to be whole."""
        lasting = self._look_at(self._settling, document.key, (document.source, document.digest))
        return None if self._is_whole(document) else lasting

    def _is_news(self, document: Document) -> bool:
        record = self._records.find(*document.key)
        return record is None or document.resource is None or spec_of(document.resource) != record.spec

    def _absence(self, key: ResourceKey) -> Stability:
        return self._look_at(self._away, key, "away")

    def _look_at(self, steady: StabilizationWindow, key: Hashable, value: Hashable) -> Stability:
        return steady.look(key, value, now_s=self._clock.monotonic_s(), now_ms=self._clock.now_ms())


def misconfigured(key: ResourceKey, why: str) -> Condition:
    return Condition(type=f"Misconfigured{key[0]}", message=why)


def _told(key: ResourceKey, admission: Admission, unclear: str) -> list[Condition]:
    """The problem of the declaration, and the waits, as conditions."""
    why = admission.problem or unclear
    waits = [Condition(type=kind, message=said) for kind, said in admission.waits.items()]
    return [*([misconfigured(key, why)] if why else []), *waits]


def _unclear(declared: DeclaredDocuments, record: ResourceRecord) -> str:
    """Return why a record may or may not be declared still; empty: known, or deletion requested."""
    if record.is_deleted or not declared.unclear:
        return ""
    if reason := declared.unclear.get(record.source):
        return reason
    return f"{record.source} is missing, and {min(declared.unclear)}, which may declare the resource, cannot be read"
