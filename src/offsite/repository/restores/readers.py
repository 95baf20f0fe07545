"""The readers of a backup: restores that began and did not end.

The same command continues a killed restore, so a restore counts as a reader until it ends, however long it is silent. A
later restore of the same request replaces it only after a day without a sign of life: anyone with the right to create
objects could forge the later restore.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.restores.record import find_successor, unfinished_restores
from offsite.stores.store import Store

_QUIET_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRestore:
    """A restore that reads a backup. `is_live`: a process holds its lease now."""

    restore: str
    is_live: bool

    def __str__(self) -> str:
        return f"restore {self.restore} {'reads it' if self.is_live else 'did not end, and can be continued'}"


def readers_of(store: Store, backup: BackupLayout) -> Iterator[ReadingRestore]:
    """The restores that read the backup. Raises `DamagedObject`, and errors of the store: the answer is unknown in that
    case."""
    mine = ProcessIdentity.current()
    for record in unfinished_restores(store, backup):
        terms = LeaseTerms(store=store, lease=RestoreLayout(backup=backup, restore=record.restore).lease)
        is_live = terms.holder(asking=mine) is not None
        if is_live or not (
            _is_quiet(store, backup.restores_prefix(record.restore)) and find_successor(store, backup, record)
        ):
            yield ReadingRestore(restore=record.restore, is_live=is_live)


def _is_quiet(store: Store, prefix: str) -> bool:
    """Whether no object below `prefix` was written for a day."""
    return max((info.modified_ms for info in own_objects(store.list(prefix))), default=0) < store.now_ms() - _QUIET_MS
