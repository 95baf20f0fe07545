"""Objects written once: the repository's descriptor (`offsite.json`) and each backup's descriptor (`backup.json`)."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import DamagedObject
from offsite.model.selection import TopicSelection
from offsite.model.untrusted.json_object import JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object

IMPORTED_FROM = "import.from"
"""The option of an imported backup that names its archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryDescriptor:
    """The descriptor of a repository. `repository_id` is random and tells copies and mix-ups apart; `created_by` is the
    version of offsite."""

    repository_id: str
    created_at_ms: int
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDescriptor:
    """The descriptor of a backup: always of one cluster and one selection. Later runs must not change `options`.

    `fidelity`: for an imported backup, a sentence for each property of the source missing in the archive.
    `declared_by`: the uid of the declared resource whose agent created the backup, empty if no agent did; None: created
    by an earlier version.
    """

    name: str
    cluster_id: str
    selection: TopicSelection
    created_at_ms: int
    options: tuple[tuple[str, str], ...] = ()
    fidelity: tuple[str, ...] = ()
    declared_by: str | None = None

    @property
    def is_import(self) -> bool:
        """Whether the backup holds the records of an archive: the commit times are not those of the records' source."""
        return IMPORTED_FROM in dict(self.options)


def encode_repository(descriptor: RepositoryDescriptor) -> bytes:
    return encode_object(
        {
            "format": FORMAT,
            "repository_id": descriptor.repository_id,
            "created_at_ms": descriptor.created_at_ms,
            "created_by": descriptor.created_by,
        }
    )


def decode_repository(data: bytes, *, key: str) -> RepositoryDescriptor:
    """The repository descriptor in the object `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=_damaged)
    return RepositoryDescriptor(
        repository_id=document.text("repository_id"),
        created_at_ms=document.integer("created_at_ms"),
        created_by=document.text("created_by"),
    )


def encode_backup(descriptor: BackupDescriptor) -> bytes:
    """The bytes of a backup descriptor. Absent values are left out, as before the fields existed."""
    later: dict[str, JsonValue] = {"fidelity": list(descriptor.fidelity)} if descriptor.fidelity else {}
    if descriptor.declared_by is not None:
        later["declared_by"] = descriptor.declared_by
    return encode_object(
        {
            **later,
            "format": FORMAT,
            "name": descriptor.name,
            "cluster_id": descriptor.cluster_id,
            "include": list(descriptor.selection.include),
            "exclude": list(descriptor.selection.exclude),
            "internal": descriptor.selection.internal,
            "created_at_ms": descriptor.created_at_ms,
            "options": dict(descriptor.options),
        }
    )


def decode_backup(data: bytes, *, key: str) -> BackupDescriptor:
    """The backup descriptor in the object `key`. Raises `DamagedObject`, `FormatTooNew`."""
    document = parse_json_object(data, source=key, damaged=_damaged)
    selection = TopicSelection(
        include=document.texts("include"), exclude=document.texts("exclude"), internal=document.flag("internal")
    )
    return BackupDescriptor(
        name=document.text("name"),
        cluster_id=document.text("cluster_id"),
        selection=selection,
        created_at_ms=document.integer("created_at_ms"),
        options=document.text_map("options"),
        fidelity=document.texts("fidelity"),
        declared_by=document.optional_text("declared_by"),
    )


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore this object from another copy of the repository")
