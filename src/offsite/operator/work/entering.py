"""Enters into the ledger of a resource what a job or a person decided of a backup, under the lock of operators."""

from __future__ import annotations

from collections.abc import Callable

from offsite.model.errors import ExpiryNotDone
from offsite.model.ids import random_id
from offsite.repository.declared.entry import Entry, Kind, Release
from offsite.repository.declared.history import History
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger
from offsite.repository.restores.lease import LeaseTerms
from offsite.repository.restores.process_identity import ProcessIdentity
from offsite.stores.store import Store

_TRIES = 20
"""Operators may be faster so often."""


def anything(history: History) -> None:
    """Any state will do."""


def enter(  # noqa: PLR0913  # all by keyword but where, and of whose backup
    store: Store,
    uid: str,
    *,
    number: int,
    kind: Kind,
    release: Release | None = None,
    check: Callable[[History], None] = anything,
) -> History:
    """Enter it, and give the state behind it; `check` raises where the state before does not allow it. Raises
    `RestoreRunning` while an operator holds the lock, `ExpiryNotDone` where others are always faster, and
    `NotAllowedError`."""
    layout, mine = DeclaredLayout(uid=uid), ProcessIdentity.mine()
    ledger = DeclaredLedger(store=store, layout=layout)
    with LeaseTerms(store=store, lease=layout.lock).held(mine) as claim:
        for _ in range(_TRIES):
            history = ledger.read()
            check(history)
            entry = Entry(
                seq=history.seq + 1,
                previous=history.head,
                kind=kind,
                generation=history.generation,
                fence=claim.term,
                word=random_id(16),
                at_ms=store.now_ms(),
                number=number,
                by=mine.text,
                release=release,
            )
            if (after := ledger.append(entry, to=history)) is not None:
                return after
    raise ExpiryNotDone("others decide about it all the time", hint="it is tried again")
