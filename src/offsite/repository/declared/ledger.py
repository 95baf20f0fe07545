"""The ledger of one resource: its entries, how a decision is entered, and the owners of backup names.

Entry numbers fence writers (see `numbered_log`). In addition, every entry carries the term of the lock under which the
entry was decided, and the ledger refuses a lower term. A decision is entered under the lock of operators: `enter` asks
until its entry is in; `enter_once` asks once, and leaves the rest to the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from offsite.model.bounds import whole_number
from offsite.model.errors import BadName, DamagedObject, ExpiryNotDone, LeaseTakenOver
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    OWNER,
    BackupSettings,
    BackupStart,
    DeclaredEntry,
    DeclaredEntryKind,
    MemberStatement,
    Origin,
    Owner,
    Release,
    TopicChoice,
)
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, apply_entry
from offsite.repository.declared.layout import DECLARED_PREFIX, DeclaredLayout, later_owner_key, later_owners, owner_key
from offsite.repository.descriptor import BACKUP_FORM
from offsite.repository.layout import BackupLayout, folders_below, own_objects
from offsite.repository.lease import Lease, LeaseClaim, ProcessIdentity
from offsite.repository.removal import is_name_free
from offsite.stores.numbered_log import EntryRefusedError, Ledger, LedgerForm
from offsite.stores.store import Store

_TRIES = 20
"""Attempts to append an entry while other operators append theirs first."""

_FORM = LedgerForm(
    encode=DECLARED_ENTRY.encode,
    decode=DECLARED_ENTRY.decode,
    apply=lambda history, entry, head: apply_entry(history, entry, head=head),
)

DeclaredLedger: TypeAlias = Ledger[DeclaredEntry, DeclaredHistory]


def declared_ledger(store: Store, uid: str) -> DeclaredLedger:
    """The ledger of a resource. Raises `BadName`."""
    return Ledger(store=store, prefix=DeclaredLayout(uid=uid).ledger_prefix, form=_FORM, first=DeclaredHistory(uid=uid))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEntry:
    """An entry to append. `generation`: of the resource; None: as in the ledger, and one more for a statement of a
    `member`, which fences decisions."""

    kind: DeclaredEntryKind
    number: int = 0
    generation: int | None = None
    beginning: BackupStart | None = None
    settings: BackupSettings | None = None
    origin: Origin | None = None
    release: Release | None = None
    chosen: TopicChoice | None = None
    member: MemberStatement | None = None


Propose = Callable[[DeclaredHistory], ProposedEntry | None]
"""Returns the entry to append to a state; None: no entry. Raises if the state does not allow the entry."""


def enter(store: Store, ledger: str, propose: Propose, *, by: ProcessIdentity) -> DeclaredHistory:
    """Append the entry, and return the new state. Raises `LeaseHeld` while another operator holds the lock,
    `LeaseTakenOver` if another operator took the lock over after a long stop of this process, `ExpiryNotDone` if
    other operators were faster at every attempt, `DamagedObject`, `EntryRefusedError`, and the errors of `propose` and
    of the store."""
    with _lock_ledger(store, ledger, by=by) as log:
        for _ in range(_TRIES):
            history = log.ledger.read()
            if (proposed := propose(history)) is None:
                return history
            if (after := log.append(proposed, to=history)) is not None:
                return after
    raise ExpiryNotDone("other operators change it all the time", hint="the operator tries again")


def enter_once(store: Store, ledger: str, propose: Propose, *, by: ProcessIdentity) -> DeclaredHistory | None:
    """Append the entry, and return the new state; None if nothing is proposed, another operator was first, or the entry
    does not fit any more. Raises `LeaseHeld` while another operator holds the lock, `DamagedObject`, and the errors of
    `propose` and of the store."""
    with _lock_ledger(store, ledger, by=by) as log:
        history = log.ledger.read()
        if (proposed := propose(history)) is None:
            return None
        try:
            return log.append(proposed, to=history)
        except (EntryRefusedError, LeaseTakenOver) as error:
            decided("not_any_more", why=str(error), uid=ledger, what=proposed.kind.value)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockedLedger:
    """The ledger of a resource, while this process holds its lock by `claim`."""

    ledger: DeclaredLedger
    lock: Lease
    claim: LeaseClaim

    def append(self, proposed: ProposedEntry, *, to: DeclaredHistory) -> DeclaredHistory | None:
        """Return the state with the entry after `to`; None if another operator was first. Raises `EntryRefusedError`,
        `LeaseTakenOver`, `DamagedObject`, and the errors of the store."""
        generation = proposed.generation
        entry = DeclaredEntry(
            seq=to.seq + 1,
            previous=to.head,
            kind=proposed.kind,
            generation=to.generation + (proposed.member is not None) if generation is None else generation,
            fence=self.claim.term,
            word=random_id(16),
            at_ms=self.ledger.store.now_ms(),
            number=proposed.number,
            by=self.claim.holder.text,
            beginning=proposed.beginning,
            settings=proposed.settings,
            origin=proposed.origin,
            release=proposed.release,
            chosen=proposed.chosen,
            member=proposed.member,
        )
        try:
            return self.ledger.append(entry, to=to)
        except EntryRefusedError:
            self._check_fence(to)
            raise

    def _check_fence(self, history: DeclaredHistory) -> None:
        """Check that an entry under this lock can follow the state. Raises `LeaseTakenOver` if another operator took
        the lock over, and `DamagedObject` for a state under a lock that never existed: all operators would wait for
        ever."""
        if history.fence <= self.claim.term:
            return
        self.lock.check(self.claim)
        raise DamagedObject(
            f"{self.ledger.key(history.seq)} is by lock {history.fence}, which never existed: no entry can follow it",
            hint="restore the missing objects in lock/ beside it. If no object is missing, no operator wrote the "
            "entry: delete it, and check who has write access",
        )


@contextmanager
def _lock_ledger(store: Store, ledger: str, *, by: ProcessIdentity) -> Iterator[_LockedLedger]:
    lock = DeclaredLayout(uid=ledger).lock(store)
    with lock.held(by) as claim:
        yield _LockedLedger(ledger=declared_ledger(store, ledger), lock=lock, claim=claim)


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
