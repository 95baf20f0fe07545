"""Deletes objects in removed declared backups that came back: written by a process that slept during the removal.

A deleted resource has no keeper any more. Hence the expiry jobs of all resources of a repository check the removed
backups of the repository, of any owner. A place with a descriptor is a backup, and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from offsite.model.errors import Damaged, OffsiteError
from offsite.model.journal import decided, warned
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_ledger, declared_uids, owner_of
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.lease import ProcessIdentity
from offsite.repository.removal import KEPT_MS, find_returned, is_removed, sweep, unopened_backup
from offsite.repository.snapshots.audit_record import GENERATION, Deletion, note_deletions
from offsite.repository.state import FIRST_SEQ
from offsite.stores.store import Store
from offsite.upkeep.retention.pins import pinned_points

RULE = "it came back into a backup that was removed"


def sweep_removed(store: Store, *, by: str) -> None:
    """Delete returned objects of every removed declared backup of a repository. An unreadable backup does not stop the
    sweep."""
    for uid in declared_uids(store):
        with _left_to_the_next_job(uid):
            for low in _removed(store, uid):
                with _left_to_the_next_job(uid):
                    if _may_be_swept(store, uid, low) and _is_due(store, low):
                        _sweep(store, uid, low.beginning.backup, by)


@contextmanager
def _left_to_the_next_job(uid: str) -> Iterator[None]:
    try:
        yield
    except OffsiteError as error:
        warned("sweep_failed", error=error.id, why=error.message, uid=uid)


def _sweep(store: Store, uid: str, backup: str, by: str) -> None:
    """Sweep under the lock, so that no declared backup starts under the name meanwhile. Raises `LeaseHeld` while
    an operator holds the lock, and `LeaseTakenOver` after another process took the lock over."""
    terms = DeclaredLayout(uid=uid).lock(store)
    with terms.renewed(ProcessIdentity.current()) as lease:
        low = next((candidate for candidate in _removed(store, uid) if candidate.beginning.backup == backup), None)
        if low is None or not _may_be_swept(store, uid, low):
            return
        sweep(
            store,
            BackupLayout(backup=backup),
            removed_ms=low.removed_ms,
            announce=_announced(store, uid, backup, by),
            fence=lease.check,
        )


def was_removed_lately(low: LowLevelBackup, now_ms: int) -> bool:
    """Whether objects may still come back into the backup."""
    return low.phase is BackupPhase.REMOVED and now_ms - low.removed_ms < 2 * KEPT_MS


def _removed(store: Store, uid: str) -> Sequence[LowLevelBackup]:
    """Return the removed backups whose name no later backup uses, by the present ledger."""
    backups, now_ms = declared_ledger(store, uid).read().backups, store.now_ms()
    newest = {low.beginning.backup: low for low in backups}
    return [low for low in newest.values() if was_removed_lately(low, now_ms)]


def _may_be_swept(store: Store, uid: str, low: LowLevelBackup) -> bool:
    """Whether the objects at the place are the rest of a removed backup of this resource. The ledger is believed only
    as far as the name, the removal mark and the objects confirm the ledger: any process that can create objects can
    write a ledger."""
    layout = BackupLayout(backup=low.beginning.backup)
    why = ""
    if store.head(layout.descriptor_key) is not None:
        why = "there is a backup under the name of a removed one: somebody created or restored it"
    elif not is_removed(store, layout):
        return False
    elif store.head(layout.commit_key(FIRST_SEQ)) is not None:
        why = "its history exists from the first commit on: somebody restored it, and its backup.json is missing"
    elif not _is_owner(store, uid, layout.backup):
        why = "the name does not belong to this resource"
    elif _is_pinned(store, layout):
        why = "one of its restore points is pinned"
    if why:
        warned("left_alone", why=why, backup=layout.backup, uid=uid)
    return not why


def _is_owner(store: Store, uid: str, backup: str) -> bool:
    return owner_of(store, backup) == uid


def _is_pinned(store: Store, layout: BackupLayout) -> bool:
    """Whether a point is pinned, as far as the history can be read: a removal leaves no history, and objects that come
    back are fragments."""
    if next(own_objects(store.list(layout.commits_prefix)), None) is None:
        return False
    try:
        return any(pin.holds for pin in pinned_points(unopened_backup(store, layout)))
    except Damaged:
        return False


def _is_due(store: Store, low: LowLevelBackup) -> bool:
    """Whether there is something to delete: returned objects, or the removal mark."""
    is_old = store.now_ms() - low.removed_ms > KEPT_MS
    return is_old or bool(find_returned(store, BackupLayout(backup=low.beginning.backup)))


def _announced(store: Store, uid: str, backup: str, by: str) -> Callable[[int], None]:
    """Return a function that records the deletion in advance."""

    def announce(size_bytes: int) -> None:
        layout = DeclaredLayout(uid=uid)
        line = Deletion(kind=GENERATION, what=backup, rule=RULE, bytes=size_bytes)
        note_deletions(store, layout, [line], by=by, commit=declared_ledger(store, layout.uid).read().seq)
        decided("sweep", why=RULE, uid=uid, backup=backup, bytes=size_bytes)

    return announce
