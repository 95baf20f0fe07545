"""The wait for any store, noted while the wait lasts (see `model.waits`)."""

from __future__ import annotations

from time import monotonic

from offsite.model.waits import Wait


def store_wait(action: str, place: str) -> Wait:
    """Return the wait for the store to do `action` at `place`. A client retries by itself for minutes, a network folder
    hangs for ever, and neither says anything."""
    return Wait(lambda: f"the store has not answered: {action} {place}", since_s=monotonic())
