"""How long the requests of this process to its store took, added up for whoever watches."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from offsite.repository.repository import Repository
from offsite.services.monitor.view import REQUEST_BUCKETS_S, Durations
from offsite.stores.timed_store import TimedStore


class StoreRequests:
    """Histograms by operation and outcome. Several threads may tell of requests at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations: dict[tuple[str, ...], Durations] = {}

    def note(self, operation: str, outcome: str, took_s: float) -> None:
        """Take a request that has ended."""
        key = operation, outcome
        with self._lock:
            before = self._durations.get(key) or Durations.within(REQUEST_BUCKETS_S)
            self._durations[key] = before.with_one(took_s)

    def durations(self) -> Mapping[tuple[str, ...], Durations]:
        """All requests until now."""
        with self._lock:
            return dict(self._durations)


def counted(repository: Repository, requests: StoreRequests) -> Repository:
    """The repository, of whose store each request of this process is told to `requests`."""
    return replace(repository, store=TimedStore(repository.store, requests.note))
