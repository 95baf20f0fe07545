"""What came back into declared backups that were removed: objects that a process put which slept meanwhile.

A resource that is deleted has nobody who looks after its rest: so the expiry jobs of all resources of a repository see
to what was removed there, whoever had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offsite.model.errors import OffsiteError
from offsite.model.journal import decided, warned
from offsite.repository.declared.history import LowLevel, Phase
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger, declared_uids
from offsite.repository.generations.removal import KEPT_MS, sweep
from offsite.repository.layout import BackupLayout
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.stores.store import Store

RULE = "it came back into a backup that was removed"


def sweep_removed(store: Store, *, by: str) -> None:
    """Delete what came back into any declared backup of a repository. One that cannot be seen to stops no other."""
    for uid in declared_uids(store):
        try:
            if any(_has_returned(store, each) for each in _removed(store, uid)):
                _sweep(store, uid, by)
        except OffsiteError as error:  # the next job sees to it
            warned("sweep_failed", error=error.id, why=error.message, uid=uid)


def removed_lately(low: LowLevel, now_ms: int) -> bool:
    """Whether something may come back into it still."""
    return low.phase is Phase.REMOVED and now_ms - low.removed_ms < 2 * KEPT_MS


def _sweep(store: Store, uid: str, by: str) -> None:
    """Under the lock, so that nothing begins under one of the names meanwhile. Raises `RestoreRunning` while an
    operator holds it."""
    with LeaseTerms(store=store, lease=DeclaredLayout(uid=uid).lock).held(ProcessIdentity.mine()):
        for low in _removed(store, uid):
            layout = BackupLayout(backup=low.beginning.backup)
            sweep(store, layout, removed_ms=low.removed_ms, announce=_announced(store, uid, layout.backup, by))


def _removed(store: Store, uid: str) -> Iterator[LowLevel]:
    """Those whose name no later one goes on under."""
    backups, now_ms = DeclaredLedger(store=store, layout=DeclaredLayout(uid=uid)).read().backups, store.now_ms()
    newest = {low.beginning.backup: low for low in backups}
    return (low for low in newest.values() if removed_lately(low, now_ms))


def _has_returned(store: Store, low: LowLevel) -> bool:
    """Whether there is more than the mark of its removal, or that may go, too."""
    layout = BackupLayout(backup=low.beginning.backup)
    found = {info.key for info in store.list(layout.prefix)}
    is_old = store.now_ms() - low.removed_ms > KEPT_MS
    return bool(found) and (is_old or found != {layout.removed_key})


def _announced(store: Store, uid: str, backup: str, by: str) -> Callable[[int], None]:
    """What is going to be deleted is written down before."""

    def announce(size_bytes: int) -> None:
        layout = DeclaredLayout(uid=uid)
        line = Deletion(kind=GENERATION, what=backup, rule=RULE, bytes=size_bytes)
        note_deletions(store, layout, [line], by=by, commit=DeclaredLedger(store=store, layout=layout).read().seq)
        decided("sweep", why=RULE, uid=uid, backup=backup, bytes=size_bytes)

    return announce
