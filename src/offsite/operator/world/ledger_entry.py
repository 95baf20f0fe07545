"""Enters a decision about a backup into the ledger of its resource, under the lock of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from offsite.model.errors import DamagedObject, ExpiryNotDone
from offsite.model.ids import random_id
from offsite.repository.declared.entry import (
    DeclaredEntry,
    DeclaredEntryKind,
    EntryRefusedError,
    MemberStatement,
    Release,
)
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.lease import Lease, LeaseClaim, ProcessIdentity
from offsite.stores.store import Store

_TRIES = 20
"""Attempts to append an entry while other operators append theirs first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEntry:
    """An entry to append. A statement of a `member` raises the generation, which fences decisions."""

    kind: DeclaredEntryKind
    number: int = 0
    release: Release | None = None
    member: MemberStatement | None = None


Propose = Callable[[DeclaredHistory], ProposedEntry | None]
"""Returns the entry to append to a state; None: no entry. Raises if the state does not allow the entry."""


def enter(store: Store, ledger: str, say: Propose, *, by: ProcessIdentity) -> DeclaredHistory:
    """Append the entry, and return the new state. Raises `LeaseHeld` while another operator holds the lock,
    `RestoreTakenOver` if another operator took the lock over after a long stop of this process, `ExpiryNotDone` if
    other operators were faster at every attempt, `DamagedObject`, `EntryRefusedError`, and the errors of `say` and of
    the store."""
    layout = DeclaredLayout(uid=ledger)
    log, terms = DeclaredLedger(store=store, layout=layout), layout.lock(store)
    with terms.held(by) as claim:
        for _ in range(_TRIES):
            history = log.read()
            if (said := say(history)) is None:
                return history
            entry = DeclaredEntry(
                seq=history.seq + 1,
                previous=history.head,
                kind=said.kind,
                generation=history.generation + (said.member is not None),
                fence=claim.term,
                word=random_id(16),
                at_ms=store.now_ms(),
                number=said.number,
                by=by.text,
                release=said.release,
                member=said.member,
            )
            try:
                after = log.append(entry, to=history)
            except EntryRefusedError:
                check_fence(terms, claim, history)
                raise
            if after is not None:
                return after
    raise ExpiryNotDone("other operators change it all the time", hint="the operator tries again")


def check_fence(terms: Lease, claim: LeaseClaim, history: DeclaredHistory) -> None:
    """Check that an entry under this lock can follow the state. Raises `RestoreTakenOver` if another operator took the
    lock over, and `DamagedObject` for a state under a lock that never existed: all operators would wait for ever."""
    if history.fence <= claim.term:
        return
    terms.check(claim)
    entry = f"{DeclaredLayout(uid=history.uid).ledger_prefix}{history.seq:020d}.json"
    raise DamagedObject(
        f"{entry} is by lock {history.fence}, which never existed: no entry can follow it",
        hint="restore the missing objects in lock/ beside it. If no object is missing, no operator wrote the entry: "
        "delete it, and check who has write access",
    )
