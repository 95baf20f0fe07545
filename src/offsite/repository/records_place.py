"""Restores from a read-only repository: their records lie in another place. See decision 0050."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from offsite.model.errors import StoreDenied
from offsite.repository.backup import Backup
from offsite.repository.descriptor import begin_records
from offsite.repository.repository import check_create_only
from offsite.stores.wrapped_store import ClockFallbackStore

NEEDS_PLACE = (
    "if that place must not be written (read-only media, a snapshot, a copy), keep the records of restores in "
    "another place with --records FOLDER or URL"
)

GIVEN_AGAIN = "if the restore began with --records, give the same --records again"


@contextmanager
def writing_records(backup: Backup) -> Iterator[None]:
    """A block that may write records of restores. A denial by the repository gets a hint on the alternative."""
    try:
        yield
    except StoreDenied as error:
        if backup.records_at is None:
            error.hint = "; ".join(filter(None, (NEEDS_PLACE, error.hint)))
        raise


def prepare_records(backup: Backup) -> None:
    """Ensure that records of restores can be kept in their place; to be called before the first record. Raises
    `OverwritingStore`, `RestoreRefused`, and the errors of the store."""
    if backup.records_at is not None:
        check_create_only(backup.records_at)
        begin_records(backup.records_at, backup.descriptor)


def record_places(backup: Backup) -> tuple[Backup, ...]:
    """The backup with every place of its restore records, first the place of new records. Nothing is written to the
    second place, not even to learn its time."""
    if backup.records_at is None:
        return (backup,)
    return (backup, replace(backup, store=ClockFallbackStore(backup.store), records_at=None))
