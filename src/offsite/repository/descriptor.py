"""Objects written once: the repository's descriptor (`offsite.json`) and each backup's descriptor (`backup.json`).

A place for restore records alone, beside a repository without write access (decision 0050), has a copy of the backup's
descriptor. Records have the same layout as in a repository, so several backups may share the place. Two backups of the
same name cannot: an existing copy must be equal. An imported backup belongs to its archive, as others do to a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from offsite.model.errors import DamagedObject, RestoreRefused, StoreDenied, StoreUnreachable
from offsite.model.selection import TopicSelection
from offsite.model.untrusted.json_codec import Inline, Spare
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import ROOT_KEY, BackupLayout
from offsite.stores.open_store import places_above
from offsite.stores.store import PutResult, Store

IMPORTED_FROM = "import.from"
"""The option of an imported backup that names its archive."""
_IMPORT_FORMAT = "import.format"


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

    selection: Inline[TopicSelection]
    name: str
    cluster_id: str
    created_at_ms: int
    options: tuple[tuple[str, str], ...] = ()
    fidelity: Spare[tuple[str, ...]] = ()
    declared_by: Spare[str | None] = None

    @property
    def is_import(self) -> bool:
        """Whether the backup holds the records of an archive: the commit times are not those of the records' source."""
        return IMPORTED_FROM in dict(self.options)


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore this object from another copy of the repository")


REPOSITORY_FORM = StoredForm(RepositoryDescriptor, damaged=_damaged)
BACKUP_FORM = StoredForm(BackupDescriptor, damaged=_damaged)


def origin_options(format_name: str, place: str) -> tuple[tuple[str, str], ...]:
    """The options of a backup imported from the place."""
    return (_IMPORT_FORMAT, format_name), (IMPORTED_FROM, place)


def import_origin(descriptor: BackupDescriptor) -> str:
    """A description of the archive of an imported backup; empty for a backup of a cluster."""
    options = dict(descriptor.options)
    return f"the {options[_IMPORT_FORMAT]} archive {options[IMPORTED_FROM]}" if descriptor.is_import else ""


def repositories_above(store: Store) -> Iterator[Store]:
    """The repositories in the folders above a place, the nearest first. A folder without access, or with an irregular
    object in place of the repository object, does not count."""
    for above in places_above(store):
        with suppress(StoreDenied, DamagedObject):
            if above.head(ROOT_KEY) is not None:
                yield above


def check_records_of(store: Store, descriptor: BackupDescriptor) -> None:
    """Return if `store` is a place for records of this backup. Raises `RestoreRefused`, `DamagedObject`, and errors of
    the store."""
    key = BackupLayout(backup=descriptor.name).records_of_key
    try:
        next(store.list("", start_after="~"), None)  # a missing folder must raise, not look empty
        is_repository, data = store.head(ROOT_KEY) is not None, store.get(key)
    except StoreUnreachable as error:
        error.hint = f"{error.hint}; a new place for records must be an empty folder that you create"
        raise
    if (above := next(repositories_above(store), None)) is not None:  # its folders would look like backups
        raise RestoreRefused(
            f"{store.url} is inside the repository {above.url}", hint="name an empty folder or prefix elsewhere"
        )
    if is_repository:
        raise RestoreRefused(
            f"{store.url} is a repository, not a place for records only", hint="name an empty folder or prefix"
        )
    if data is not None and BACKUP_FORM.decode(data, key=key) != descriptor:
        raise RestoreRefused(
            f"{store.url} has records of another backup {descriptor.name}",
            hint="use another folder or prefix for the records of this backup",
        )


def begin_records(store: Store, descriptor: BackupDescriptor) -> None:
    """Bind `store` to this backup, before any record is written. Raises as `check_records_of`."""
    key = BackupLayout(backup=descriptor.name).records_of_key
    if store.put_if_absent(key, BACKUP_FORM.encode(descriptor)) is PutResult.OTHER:
        check_records_of(store, descriptor)
