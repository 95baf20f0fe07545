"""The time for who only looks: the store's, or this machine's where nothing may be written to ask the store for its."""

from __future__ import annotations

from offsite.model.clock import SystemClock
from offsite.model.errors import StoreDenied
from offsite.model.journal import decided
from offsite.stores.store import Store


def reading_now_ms(store: Store) -> int:
    """Epoch ms, for ages that are shown. Nothing may be decided by it. Raises what the store raises, but for a right
    that lacks."""
    try:
        return store.now_ms()
    except StoreDenied as error:
        decided("clock", why=f"this machine's counts: {error.message}")
        return SystemClock().now_ms()
