"""A place for restore records alone, beside a repository without write access. See decision 0050.

Records have the same layout as in a repository, so several backups may share the place. Two backups of the same name
cannot: the first record stores a copy of the backup's descriptor, and an existing copy must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from offsite.model.errors import DamagedObject, RestoreRefused, StoreDenied, StoreUnreachable
from offsite.repository.descriptor import BackupDescriptor, decode_backup, encode_backup
from offsite.repository.layout import ROOT_KEY, BackupLayout
from offsite.stores.open_store import places_above
from offsite.stores.store import PutResult, Store


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
    if data is not None and decode_backup(data, key=key) != descriptor:
        raise RestoreRefused(
            f"{store.url} has records of another backup {descriptor.name}",
            hint="use another folder or prefix for the records of this backup",
        )


def begin_records(store: Store, descriptor: BackupDescriptor) -> None:
    """Bind `store` to this backup, before any record is written. Raises as `check_records_of`."""
    key = BackupLayout(backup=descriptor.name).records_of_key
    if store.put_if_absent(key, encode_backup(descriptor)) is PutResult.OTHER:
        check_records_of(store, descriptor)
