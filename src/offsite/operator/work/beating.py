"""Renews a lease from a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from offsite.model.errors import OffsiteError, RestoreTakenOver
from offsite.model.journal import warned
from offsite.repository.restores.lease import BEAT_S, LeaseClaim, LeaseTerms


@contextmanager
def keep_lease(terms: LeaseTerms, claim: LeaseClaim) -> Iterator[Callable[[], bool]]:
    """Renew the lease during a block. The value tells whether another process has the lease."""
    over, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            try:
                terms.beat(claim)
            except RestoreTakenOver:
                lost.set()
                return
            except OffsiteError as error:  # the next renewal may succeed
                warned("beat", error=error.id, why=error.message, lease=terms.lease.resource)

    thread = threading.Thread(target=beat, name="offsite-beat", daemon=True)
    thread.start()
    try:
        yield lost.is_set
    finally:
        over.set()
        thread.join()
