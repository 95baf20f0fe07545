"""A store for commands that only look. A store tells the time through a write. Where no write is allowed, this
machine's time is used instead: good enough to show ages, and for no decision."""

from __future__ import annotations

from typing import Protocol

from offsite.model.clock import SystemClock
from offsite.model.errors import StoreDenied
from offsite.model.journal import decided
from offsite.stores.store import Store
from offsite.stores.timed_store import TimedStore


class HasClock(Protocol):
    """A place with a clock."""

    def now_ms(self) -> int: ...


class ClockFallbackStore(TimedStore):
    """Passes everything to `inner`. `now_ms` is this machine's time where the store denies the write for the store's
    time.

    For commands that change nothing: nothing shown by such a command must be carried out. `uses_own_clock`: whether the
    machine's time was used.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, lambda _operation, _outcome, _took_s: None)
        self.uses_own_clock = False

    def now_ms(self) -> int:
        told_ms = None if self.uses_own_clock else _store_now_ms(self.inner)  # a denied right does not come back
        self.uses_own_clock = told_ms is None
        return SystemClock().now_ms() if told_ms is None else told_ms


def display_now_ms(place: HasClock) -> int:
    """Return epoch ms, for ages that are shown. Nothing may be decided by the time. Raises the errors of the place,
    except a missing right."""
    told_ms = _store_now_ms(place)
    return SystemClock().now_ms() if told_ms is None else told_ms


def _store_now_ms(place: HasClock) -> int | None:
    try:
        return place.now_ms()
    except StoreDenied as error:
        decided("clock", why=f"the clock of this machine is used: {error.message}")
        return None


def uses_own_clock(store: Store) -> bool:
    """Whether `store` has used this machine's time: such a time proves nothing about the store's contents."""
    return isinstance(store, ClockFallbackStore) and store.uses_own_clock
