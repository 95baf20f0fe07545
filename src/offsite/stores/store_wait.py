"""The wait for a store, whatever it is: it is noted for as long as it lasts (see `model.waits`)."""

from __future__ import annotations

from time import monotonic

from offsite.model.waits import Wait


def store_wait(what: str, place: str) -> Wait:
    """The wait for the store, to `what` at `place`: a client tries again by itself for minutes, a network folder hangs
    for ever, and neither says anything."""
    return Wait(lambda: f"the store has not answered: {what} {place}", since_s=monotonic())
