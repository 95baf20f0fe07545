"""Whether an absent backup was removed on purpose, by the word of a ledger and not by its absence.

A replaced generation, and a declared backup that expired or whose resource was deleted, are entered in a ledger before
anything is deleted, and an audit line says by whom. A name may be used again: the last entry under a name counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.repository.declared import history as declared
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger, declared_uids
from offsite.repository.generation_sets.generation_set import GenerationPhase
from offsite.repository.generation_sets.ledger import SetLayout, set_ledger, set_of_backup
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import KEPT_MS, RemovedBackup
from offsite.repository.snapshots.audit_record import GENERATION, AuditLayout, AuditLine, read_audit
from offsite.repository.state import FIRST_SEQ
from offsite.stores.store import Store


def find_removal(store: Store, backup: str) -> RemovedBackup | None:
    """The removal of an absent backup; None where no removal is recorded. An unreadable ledger says nothing. Neither
    does a ledger contradicted by the place: the backup was brought back since, and is lost, if its history exists, or
    if the 30-day mark of a removal does not. Raises the errors of the store."""
    layout = BackupLayout(backup=backup)
    try:
        entered = [*_of_generation(store, backup), *_of_declared(store, backup)]
    except OffsiteError as error:
        warned("unread_ledger", why=error.message, backup=backup)
        return None
    if not entered or None in entered or store.head(layout.commit_key(FIRST_SEQ)) is not None:
        return None
    last = max((removal for removal in entered if removal is not None), key=lambda removal: removal.at_ms)
    is_late = store.now_ms() - last.at_ms >= KEPT_MS
    return last if is_late or store.head(layout.removed_key) is not None else None


def _of_generation(store: Store, backup: str) -> Iterator[RemovedBackup | None]:
    """The removal of the generation with the backup's name; None while not removed."""
    named = set_of_backup(backup)
    if named is None:
        return
    layout = SetLayout(name=named[0])
    generation = set_ledger(store, layout.name).read().generation(named[1])
    if generation is not None:
        is_removed = generation.phase in {GenerationPhase.REMOVING, GenerationPhase.REMOVED}
        yield _describe_removal(store, layout, backup, generation.removed_ms) if is_removed else None


def _of_declared(store: Store, backup: str) -> Iterator[RemovedBackup | None]:
    """For every resource with a backup of the name, the removal of the last; None while not removed."""
    for uid in declared_uids(store):
        layout = DeclaredLayout(uid=uid)
        backups = declared_ledger(store, layout.uid).read().backups
        if last := next(
            (declared_backup for declared_backup in reversed(backups) if declared_backup.beginning.backup == backup),
            None,
        ):
            is_removed = last.phase in {declared.BackupPhase.REMOVING, declared.BackupPhase.REMOVED}
            yield _describe_removal(store, layout, backup, last.removed_ms) if is_removed else None


def _describe_removal(store: Store, layout: AuditLayout, backup: str, entered_ms: int) -> RemovedBackup:
    """The removal as the last audit line tells, or else the ledger."""
    removed = RemovedBackup(backup=backup, at_ms=entered_ms)
    for line in read_audit(store, layout):
        if isinstance(line, AuditLine) and (line.deletion.kind, line.deletion.what) == (GENERATION, backup):
            removed = RemovedBackup(backup=backup, at_ms=line.at_ms, who=line.who, by=line.by, why=line.deletion.rule)
    return removed
