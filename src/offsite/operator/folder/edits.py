"""Changes of a folder by commands: resources put into the folder, and taken out. An operator does the rest.

A resource is checked by itself first: errors that its agents, jobs and times would hit are reported where the
resource is declared. A file with unknown declarations is never overwritten and never skipped: its declarations
would count as removed, and their backups would be deleted. A file written by `apply` is whole, and its digest is
recorded first: an operator that finds exactly these bytes need not wait until the file is stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from offsite.model.errors import (
    BadName,
    BadOption,
    BadResource,
    OffsiteError,
    ResourceConflict,
    ResourceImmutable,
    ResourceNotFound,
)
from offsite.model.selection import parse_groups, parse_selection, split_patterns
from offsite.model.topic_choices import parse_renames
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.strict_yaml import dump_yaml
from offsite.operator.core.files import FolderLayout, create_whole, read_json, write_json, write_whole
from offsite.operator.core.records import ResourceRecord
from offsite.operator.decide.desired_restore import restore_words
from offsite.operator.decide.options import check_words, parse_parameters
from offsite.operator.decide.schedule import resolve_schedule
from offsite.operator.folder.declarations import (
    DeclaredDocuments,
    Document,
    contradiction,
    digest_of,
    forbidden_change,
    read_declared,
    spec_of,
)
from offsite.operator.folder.moves import check_own
from offsite.operator.folder.resources import ResourceRecords
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.jobs import Restore, Schedule
from offsite.operator.resources.model import Resource, ResourceKey
from offsite.operator.resources.parse import load_documents, parse_resource
from offsite.stores.plain_files import wrap_errors

_MODE = 0o666
"""The umask removes bits from the mode: an operator may run as another user."""


def check_declared(resource: Resource) -> None:
    """Raises `BadResource`."""
    match resource:
        case Backup(metadata=metadata) | Restore(metadata=metadata) | Schedule(metadata=metadata):
            try:
                _check(resource)
            except (BadOption, BadName, BadResource) as error:
                said = f"{type(resource).__name__} {metadata.name}: {error.message}"
                raise BadResource(said, hint=error.hint) from error


def _check(resource: Backup | Restore | Schedule) -> None:
    match resource:
        case Backup(spec=spec):
            if not spec.topics:
                raise BadResource("it names no topics", hint="omit topics to back up all topics of the cluster")
            parse_selection(spec.topics, spec.exclude)
            parameters = parse_parameters(spec.parameters)
            check_words(spec, parameters)
            for field, seconds in (
                ("snapshotDuration", parse_duration_s(spec.snapshot_duration)),
                ("parameters.interval", parameters.interval_s),
            ):
                if not seconds:
                    raise BadResource(f"spec.{field} would run without a pause", hint="choose 1s or more")
        case Restore(spec=spec):
            restore_words(spec, "backup", f"restore {resource.metadata.name}")
            parse_selection(spec.topics)
            parse_renames(spec.rename)
            parse_groups(split_patterns(spec.groups))
        case Schedule(spec=spec):
            resolve_schedule(resource)
            parse_selection(spec.topics or ["*"])


class ChangeKind(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedResource:
    """A resource that was put into the folder, and the name of its file."""

    kind: str
    name: str
    file: str
    change: ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedAll:
    resources: tuple[AppliedResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRemoval:
    """The effect of a deletion: the `files` are removed; the `backups` in the last status are deleted from their
    repositories, unless they are kept or shared by `identity`."""

    kind: str
    name: str
    files: tuple[str, ...]
    backups: tuple[str, ...]
    keeps_backups: bool
    identity: str = ""


def apply(layout: FolderLayout, text: str, *, source: str) -> AppliedAll:
    """Put the resources in `text` into the folder, each into its file; none if one resource is not allowed. Raises
    `BadResource`, `ResourceImmutable`, `FolderCopied`, `ResourceConflict` if its file was created meanwhile, and the
    errors of files."""
    check_own(layout)
    documents = load_documents(text, source=source)
    resources = [parse_resource(document, source=source) for document in documents]
    declared, records = read_declared(layout.root), ResourceRecords(layout=layout)
    planned = [_planned(layout, declared, records, resource) for resource in resources]
    if len({(applied.kind, applied.name) for applied in planned}) < len(planned):
        raise BadResource(f"{source} declares a resource twice", hint="keep one of them")
    for applied, document in zip(planned, documents, strict=True):
        key = (applied.kind, applied.name)
        if applied.change is ChangeKind.UNCHANGED:
            _note_whole(layout, key, _of(declared, key)[0].digest)
        else:
            data = (text if len(documents) == 1 else dump_yaml(document)).encode()
            _note_whole(layout, key, digest_of(data))
            _put(layout, applied, data)
    return AppliedAll(resources=tuple(planned))


def plan_removal(
    layout: FolderLayout, key: ResourceKey, backups: Sequence[str], *, keeps_backups: bool
) -> ResourceRemoval:
    """Raises `ResourceNotFound`, `FolderCopied`, and `BadResource` if a file declares other resources as well, or
    cannot be read and may declare the resource: the resource would be created again after the file is repaired."""
    check_own(layout)
    declared = read_declared(layout.root)
    files = tuple(dict.fromkeys(document.source for document in _of(declared, key)))
    record = ResourceRecords(layout=layout).find(*key)
    if not files and record is None:
        raise ResourceNotFound(f"there is no {key[0]} {key[1]} in {layout.root}", hint="see: offsite operator get")
    _check_clear(declared, key, record.source if record is not None else "")
    if not files:
        _check_clear(declared, key, min(declared.unclear, default=""))
    for file in files:
        _check_alone(declared, file, key)
    keeps = keeps_backups or (record is not None and not record.finalizers)
    identity = record.identity if record is not None else ""
    return ResourceRemoval(
        kind=key[0], name=key[1], files=files, backups=tuple(backups), keeps_backups=keeps, identity=identity
    )


def remove(layout: FolderLayout, removal: ResourceRemoval, *, now_ms: int) -> None:
    """Remove the files, then request the deletion. After a crash in between, an operator reports the missing file and
    the command to request the deletion. Raises the errors of `plan_removal`, and `ResourceConflict` if the files
    changed since."""
    key = (removal.kind, removal.name)
    if plan_removal(layout, key, removal.backups, keeps_backups=removal.keeps_backups).files != removal.files:
        raise ResourceConflict(
            f"{removal.kind} {removal.name} is declared in another file now", hint="run the command again"
        )
    for file in removal.files:
        path = layout.root / file
        with wrap_errors("remove", str(path)):
            path.unlink(missing_ok=True)

    def edit(record: ResourceRecord | None) -> ResourceRecord | None:
        if record is None:
            return None
        finalizers = () if removal.keeps_backups else record.finalizers
        return replace(record, deletion_ms=record.deletion_ms or now_ms, finalizers=finalizers)

    ResourceRecords(layout=layout).change(removal.kind, removal.name, edit)


def _planned(
    layout: FolderLayout, declared: DeclaredDocuments, records: ResourceRecords, resource: Resource
) -> AppliedResource:
    key = (str(resource.kind), resource.metadata.name)  # type: ignore[attr-defined]  # all kinds have it
    documents, record = _of(declared, key), records.find(*key)
    file = documents[0].source if documents else layout.declared(*key).name
    for source in (file, record.source if record is not None else ""):
        _check_clear(declared, key, source)
    _check_alone(declared, file, key)
    _target(layout.root / file, layout.root)
    if problem := contradiction(resource):
        raise BadResource(f"{key[0]} {key[1]}: {problem}", hint="nothing was put into the folder")
    check_declared(resource)
    before = record.resource() if record is not None else documents[0].resource if documents else None
    is_followed = record is not None and record.is_deleted  # by another resource
    if before is not None and not is_followed and (problem := forbidden_change(before, resource)):
        raise ResourceImmutable(f"{key[0]} {key[1]}: {problem}", hint="declare another resource with its own name")
    change = ChangeKind.CREATED
    if documents:
        is_same = documents[0].resource is not None and spec_of(documents[0].resource) == spec_of(resource)
        change = ChangeKind.UNCHANGED if is_same else ChangeKind.CHANGED
    return AppliedResource(kind=key[0], name=key[1], file=file, change=change)


def is_whole(layout: FolderLayout, document: Document) -> bool:
    """Whether the file of a document holds exactly the bytes that `apply` wrote or read as a whole. False if the record
    cannot be read."""
    try:
        noted = read_json(layout.applied(*document.key))
        return noted is not None and noted.text("sha256") == document.digest
    except OffsiteError:
        return False


def _note_whole(layout: FolderLayout, key: ResourceKey, digest: str) -> None:
    write_json(layout.applied(*key), {"sha256": digest})


def _put(layout: FolderLayout, applied: AppliedResource, data: bytes) -> None:
    path = layout.root / applied.file
    if applied.change is ChangeKind.CHANGED:
        write_whole(_target(path, layout.root), data, mode=_MODE)
    elif not create_whole(path, data, mode=_MODE):
        raise ResourceConflict(f"{applied.file} exists already", hint="check its contents, and try again")


def _target(path: Path, root: Path) -> Path:
    """Return the file to write: a link stays a link. Raises `BadResource` if the link leads out of the folder."""
    if not path.is_symlink():
        return path
    target = path.resolve()
    if not target.is_relative_to(root.resolve()):
        raise BadResource(f"{path.name} is a link to {target}, outside the folder", hint="change that file yourself")
    return target


def _of(declared: DeclaredDocuments, key: ResourceKey) -> list[Document]:
    return [document for document in declared.documents if document.key == key]


def _check_clear(declared: DeclaredDocuments, key: ResourceKey, file: str) -> None:
    """Check that the declarations of a file are known before the file is written, or its resource deleted."""
    if why := declared.unclear.get(file):
        kind, name = key
        hint = f"fix {file}, which may declare {kind} {name} and other resources, then try again"
        raise BadResource(f"the resources in {file} are unknown: {why}", hint=hint)


def _check_alone(declared: DeclaredDocuments, file: str, key: ResourceKey) -> None:
    """Refuse a file with several resources: the comments and the order of its author would be lost."""
    other_documents = [document for document in declared.documents if document.source == file and document.key != key]
    if other_documents:
        named = " ".join(other_documents[0].key)
        raise BadResource(f"{file} also declares {named}", hint=f"change {key[0]} {key[1]} in {file} yourself")
