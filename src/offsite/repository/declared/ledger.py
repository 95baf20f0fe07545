"""The ledger of one resource, and the owners of backup names.

Entry numbers fence writers (see `numbered_log`). In addition, every entry carries the term of the lock under which the
entry was decided, and the ledger refuses a lower term.
"""

from __future__ import annotations

from typing import TypeAlias

from offsite.model.bounds import whole_number
from offsite.model.errors import BadName
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    OWNER,
    DeclaredEntry,
    Owner,
)
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, apply_entry
from offsite.repository.declared.layout import (
    DECLARED_PREFIX,
    DeclaredLayout,
    later_owner_key,
    later_owners,
    owner_key,
)
from offsite.repository.descriptor import BACKUP_FORM
from offsite.repository.layout import BackupLayout, folders_below, own_objects
from offsite.repository.removal import is_name_free
from offsite.stores.numbered_log import Ledger, LedgerForm
from offsite.stores.store import Store

_FORM = LedgerForm(
    encode=DECLARED_ENTRY.encode,
    decode=DECLARED_ENTRY.decode,
    apply=lambda history, entry, head: apply_entry(history, entry, head=head),
)

DeclaredLedger: TypeAlias = Ledger[DeclaredEntry, DeclaredHistory]


def declared_ledger(store: Store, uid: str) -> DeclaredLedger:
    """The ledger of a resource. Raises `BadName`."""
    return Ledger(store=store, prefix=DeclaredLayout(uid=uid).ledger_prefix, form=_FORM, first=DeclaredHistory(uid=uid))


def owner_of(store: Store, backup: str) -> str | None:
    """Return the uid that claimed the backup name last; None if the name is unclaimed. Raises `DamagedObject`, and the
    errors of the store."""
    key = _newest_claim(store, backup)
    data = store.get(key)
    return None if data is None else OWNER.decode(data, key=key).uid


def is_begun_by(store: Store, backup: str, uid: str) -> bool:
    """Whether the backup under the name may be a backup of the resource: the descriptor of the backup names the owner,
    unless an earlier version started the backup. So a forged claim or a forged ledger entry takes no other owner's
    backup. Raises `DamagedObject`, `FormatTooNew`, and the errors of the store."""
    key = BackupLayout(backup=backup).descriptor_key
    data = store.get(key)
    return data is None or BACKUP_FORM.decode(data, key=key).declared_by in {None, uid}


def claim_name(store: Store, backup: str, uid: str) -> str:
    """Claim the backup name for `uid`, and return the owner: `uid`, unless another owner has objects left under the
    name or removed them recently. Of several concurrent claims one wins. Raises the errors of `owner_of`."""
    data = OWNER.encode(Owner(uid=uid))
    store.put_if_absent(owner_key(backup), data)
    key = _newest_claim(store, backup)
    owner = OWNER.decode(store.get(key) or data, key=key).uid
    if owner == uid or not _is_given_up(store, backup, owner):
        return owner
    key = later_owner_key(backup, _number_of(key, backup) + 1)
    store.put_if_absent(key, data)
    return OWNER.decode(store.get(key) or data, key=key).uid


def may_claim(store: Store, backup: str, uid: str) -> bool:
    """Whether the name is unclaimed, owned by this resource, or free again. Writes nothing. Raises the errors of
    `owner_of`."""
    owner = owner_of(store, backup)
    return owner in {None, uid} or _is_given_up(store, backup, owner or "")


def _is_given_up(store: Store, backup: str, owner: str) -> bool:
    """Whether the ledger of the owner removed all objects under the name on purpose, so long ago that the removal mark
    is gone, and no object lies under the name."""
    layout = BackupLayout(backup=backup)
    lows = declared_ledger(store, owner).read().backups
    phases = {low.phase for low in lows if low.beginning.backup == backup}
    return (
        phases == {BackupPhase.REMOVED}
        and is_name_free(store, layout)
        and next(own_objects(store.list(layout.prefix)), None) is None
    )


def _newest_claim(store: Store, backup: str) -> str:
    keys = [info.key for info in own_objects(store.list(later_owners(backup)))]
    return max((key for key in keys if _number_of(key, backup)), default=owner_key(backup))


def _number_of(key: str, backup: str) -> int:
    return whole_number(key.removeprefix(later_owners(backup)).removesuffix(".json")) or 0


def declared_uids(store: Store) -> tuple[str, ...]:
    """Return the uids of the resources with a ledger in the repository, sorted."""
    return tuple(sorted(filter(_is_uid, folders_below(store, DECLARED_PREFIX))))


def _is_uid(name: str) -> bool:
    try:
        DeclaredLayout(uid=name)
    except BadName:
        return False
    return True
