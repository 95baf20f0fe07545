"""Whether a backup that is not there was removed on purpose: as a ledger says, not as its absence does.

A generation that another one took the place of, and a declared backup that expired or whose resource was deleted, are
entered before anything of them is deleted, and a line of the audit says by whom. A name may be used again: what counts
is the last that was entered under it.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.declared import history as declared
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger, declared_uids
from offsite.repository.generations.generation_set import Phase
from offsite.repository.generations.layout import SetLayout, set_of_backup
from offsite.repository.generations.ledger import Ledger
from offsite.repository.generations.removal import KEPT_MS, RemovedBackup
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.audit_record import GENERATION, AuditLayout, AuditLine, read_audit
from offsite.repository.state import FIRST_SEQ
from offsite.stores.store import Store


def find_removal(store: Store, backup: str) -> RemovedBackup | None:
    """The removal of a backup that is not there; None where nothing says that it was one. A ledger that cannot be read
    says nothing. Neither does one where the place speaks against it, for the backup was brought back since, and is
    lost: its history is there, or the mark that a removal leaves for 30 days is not. Raises what the store raises."""
    layout = BackupLayout(backup=backup)
    try:
        entered = [*_of_generation(store, backup), *_of_declared(store, backup)]
    except OffsiteError as error:
        warned("unread_ledger", why=error.message, backup=backup)
        return None
    if not entered or None in entered or store.head(layout.commit_key(FIRST_SEQ)) is not None:
        return None
    last = max((each for each in entered if each is not None), key=lambda each: each.at_ms)
    is_late = store.now_ms() - last.at_ms >= KEPT_MS
    return last if is_late or store.head(layout.removed_key) is not None else None


def _of_generation(store: Store, backup: str) -> Iterator[RemovedBackup | None]:
    """The removal of the generation that a backup of that name was; None while it is not removed."""
    named = set_of_backup(backup)
    if named is None:
        return
    layout = SetLayout(name=named[0])
    found = Ledger(store=store, layout=layout).read().generation(named[1])
    if found is not None:
        is_removed = found.phase in {Phase.REMOVING, Phase.REMOVED}
        yield _told(store, layout, backup, found.removed_ms) if is_removed else None


def _of_declared(store: Store, backup: str) -> Iterator[RemovedBackup | None]:
    """For each resource that had a backup of that name the removal of the last one; None while it is not removed."""
    for uid in declared_uids(store):
        layout = DeclaredLayout(uid=uid)
        backups = DeclaredLedger(store=store, layout=layout).read().backups
        if last := next((each for each in reversed(backups) if each.beginning.backup == backup), None):
            is_removed = last.phase in {declared.Phase.REMOVING, declared.Phase.REMOVED}
            yield _told(store, layout, backup, last.removed_ms) if is_removed else None


def _told(store: Store, layout: AuditLayout, backup: str, entered_ms: int) -> RemovedBackup:
    """As the last line of the audit tells it, and else the ledger."""
    removed = RemovedBackup(backup=backup, at_ms=entered_ms)
    for line in read_audit(store, layout):
        if isinstance(line, AuditLine) and (line.deletion.kind, line.deletion.what) == (GENERATION, backup):
            removed = RemovedBackup(backup=backup, at_ms=line.at_ms, who=line.who, by=line.by, why=line.deletion.rule)
    return removed
