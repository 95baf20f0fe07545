"""Enters into the ledger of a resource what was decided of its backup, under the lock of operators."""

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
from offsite.repository.restores.lease import LeaseClaim, LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.store import Store

_TRIES = 20
"""Operators may be faster so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedEntry:
    """What is to be entered. The word of a `member` raises the number by which decisions are fenced."""

    kind: DeclaredEntryKind
    number: int = 0
    release: Release | None = None
    member: MemberStatement | None = None


Propose = Callable[[DeclaredHistory], ProposedEntry | None]
"""What is to be entered behind a state; None: nothing. Raises where that state does not allow it."""


def enter(store: Store, ledger: str, say: Propose, *, by: ProcessIdentity) -> DeclaredHistory:
    """The state behind what was entered. Raises `RestoreRunning` while another operator holds the lock,
    `RestoreTakenOver` where one has taken it over from this process, which was stopped for long; `ExpiryNotDone` where
    others are always faster, `DamagedObject`, `EntryRefusedError`, and what `say` and the store raise."""
    layout = DeclaredLayout(uid=ledger)
    log, terms = DeclaredLedger(store=store, layout=layout), LeaseTerms(store=store, lease=layout.lock)
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


def check_fence(terms: LeaseTerms, claim: LeaseClaim, history: DeclaredHistory) -> None:
    """Check that something decided under a lock can follow. Raises `RestoreTakenOver` where another operator took the
    lock over, and `DamagedObject` for a state by a lock that nobody has held: all would wait for ever."""
    if history.fence <= claim.term:
        return
    terms.check(claim)
    entry = f"{DeclaredLayout(uid=history.uid).ledger_prefix}{history.seq:020d}.json"
    raise DamagedObject(
        f"{entry} is by lock {history.fence}, which never existed: no entry can follow it",
        hint="restore the missing objects in lock/ beside it. If no object is missing, no operator wrote the entry: "
        "delete it, and check who has write access",
    )
