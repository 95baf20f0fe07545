"""A store for who only looks. To ask a store for its time is to write; where nothing may be written this machine's time
stands in for it, which is good enough to show ages, and for nothing that is decided."""

from __future__ import annotations

from typing import Protocol

from offsite.model.clock import SystemClock
from offsite.model.errors import StoreDenied
from offsite.model.journal import decided
from offsite.stores.store import Store
from offsite.stores.timed_store import TimedStore


class Timed(Protocol):
    """A place that has a clock."""

    def now_ms(self) -> int: ...


class LookingStore(TimedStore):
    """Passes everything to `inner`; its time is this machine's where the store denies the write that tells it.

    For commands that change nothing: what they show must not be carried out. `is_time_own`: whether that has happened.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, lambda _operation, _outcome, _took_s: None)
        self.is_time_own = False

    def now_ms(self) -> int:
        told_ms = None if self.is_time_own else _told_ms(self.inner)  # who was denied it once is not let in later
        self.is_time_own = told_ms is None
        return SystemClock().now_ms() if told_ms is None else told_ms


def reading_now_ms(place: Timed) -> int:
    """Epoch ms, for ages that are shown. Nothing may be decided by it. Raises what the place raises, but for a right
    that lacks."""
    told_ms = _told_ms(place)
    return SystemClock().now_ms() if told_ms is None else told_ms


def _told_ms(place: Timed) -> int | None:
    try:
        return place.now_ms()
    except StoreDenied as error:
        decided("clock", why=f"this machine's counts: {error.message}")
        return None


def has_own_time(store: Store) -> bool:
    """Whether the time of `store` was not its own by now: then it says nothing of what is in there."""
    return isinstance(store, LookingStore) and store.is_time_own
