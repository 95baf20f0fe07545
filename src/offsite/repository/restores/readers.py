"""Who reads a backup: restores that have begun and did not end. One that was killed goes on with the same command, so
it reads until it has ended, however long it is silent; or until a later one of the same request takes its place, and
it gave no sign of life for a day: whoever can create objects can make up the later one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.repository.layout import BackupLayout, own
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.restores.record import succeeding, unfinished_restores
from offsite.stores.store import Store

_QUIET_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A restore that reads a backup. `is_live`: a process has it in hand now."""

    restore: str
    is_live: bool

    def __str__(self) -> str:
        return f"restore {self.restore} {'reads it' if self.is_live else 'did not end, and can go on'}"


def readers_of(store: Store, backup: BackupLayout) -> Iterator[Reader]:
    """The restores that read it. Raises `DamagedObject`, and what the store raises: then nobody can tell."""
    mine = ProcessIdentity.mine()
    for record in unfinished_restores(store, backup):
        terms = LeaseTerms(store=store, lease=RestoreLayout(backup=backup, restore=record.restore).lease)
        is_live = terms.holder(asking=mine) is not None
        if is_live or not (
            _is_quiet(store, backup.restores_prefix(record.restore)) and succeeding(store, backup, record)
        ):
            yield Reader(restore=record.restore, is_live=is_live)


def _is_quiet(store: Store, prefix: str) -> bool:
    """Whether nothing below `prefix` was written for a day."""
    return max((info.modified_ms for info in own(store.list(prefix))), default=0) < store.now_ms() - _QUIET_MS
