"""A place for records of restores alone, beside a repository that cannot be written. See decision 0050.

Records lie there as they do in a repository, so several backups may share the place. Two backups of one name cannot:
the first record brings a copy of the backup's description along, and what is there must be of the same backup.
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
    """The repositories that a place lies in, the nearest first. What cannot be judged, for nobody may look there or it
    is no plain object, is none."""
    for above in places_above(store):
        with suppress(StoreDenied, DamagedObject):
            if above.head(ROOT_KEY) is not None:
                yield above


def check_records_of(store: Store, descriptor: BackupDescriptor) -> None:
    """Return if `store` is a place for records of this backup. Raises `RestoreRefused`, `DamagedObject`, and what the
    store raises."""
    key = BackupLayout(backup=descriptor.name).records_of_key
    try:
        next(store.list("", start_after="~"), None)  # a folder that is not there would say that it is empty
        is_repository, data = store.head(ROOT_KEY) is not None, store.get(key)
    except StoreUnreachable as error:
        error.hint = f"{error.hint}; a new place for records is an empty folder, which you make"
        raise
    if (above := next(repositories_above(store), None)) is not None:  # its folders would be taken for backups
        raise RestoreRefused(
            f"{store.url} lies in the repository {above.url}", hint="name an empty folder or prefix elsewhere"
        )
    if is_repository:
        raise RestoreRefused(
            f"{store.url} is a repository, and no place for records alone", hint="name an empty folder or prefix"
        )
    if data is not None and decode_backup(data, key=key) != descriptor:
        raise RestoreRefused(
            f"{store.url} holds records of another backup {descriptor.name}",
            hint="name another folder or prefix for those of this one",
        )


def begin_records(store: Store, descriptor: BackupDescriptor) -> None:
    """See to it that what is put into `store` from now on is of this backup. Raises as `check_records_of`."""
    key = BackupLayout(backup=descriptor.name).records_of_key
    if store.put_if_absent(key, encode_backup(descriptor)) is PutResult.OTHER:
        check_records_of(store, descriptor)
