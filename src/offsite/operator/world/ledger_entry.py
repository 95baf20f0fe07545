"""Enters a decision about a backup into the ledger of its resource, under the lock of operators.

`enter` asks until its entry is in; `enter_once` asks once, and leaves the rest to the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from offsite.model.errors import DamagedObject, ExpiryNotDone, LeaseTakenOver
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.repository.declared.entry import (
    BackupSettings,
    BackupStart,
    DeclaredEntry,
    DeclaredEntryKind,
    MemberStatement,
    Origin,
    Release,
    TopicChoice,
)
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger, declared_ledger
from offsite.repository.lease import Lease, LeaseClaim, ProcessIdentity
from offsite.stores.numbered_log import EntryRefusedError
from offsite.stores.store import Store

_TRIES = 20
"""Attempts to append an entry while other operators append theirs first."""


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
