"""Durations of the process's requests to its store, summed up for monitoring."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from offsite.monitor.view import REQUEST_BUCKETS_S, Durations
from offsite.repository.repository import Repository
from offsite.stores.wrapped_store import TimedStore


class StoreRequests:
    """Histograms by operation and outcome. Several threads may note requests at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[tuple[str, ...], Durations] = {}

    def note(self, operation: str, outcome: str, took_s: float) -> None:
        """Note a finished request."""
        key = operation, outcome
        with self._lock:
            before = self._durations.get(key) or Durations.within(REQUEST_BUCKETS_S)
            self._durations[key] = before.with_one(took_s)

    def durations(self) -> Mapping[tuple[str, ...], Durations]:
        """All requests until now."""
        with self._lock:
            return dict(self._durations)


def counted(repository: Repository, requests: StoreRequests) -> Repository:
    """The repository with a store that reports every request of the process to `requests`."""
    return replace(repository, store=TimedStore(repository.store, requests.note))
