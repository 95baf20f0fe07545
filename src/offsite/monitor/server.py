"""What the server beside a following backup shows: the newest view, and a scrape of the view.

A scrape is made at most once a second, however often clients ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.units import format_duration
from offsite.monitor.address import ListenAddress
from offsite.monitor.exposition import OPEN_METRICS, TOPICS_MAX, Exposition, expose
from offsite.monitor.health import Health, liveness, readiness
from offsite.monitor.http import StatusServer
from offsite.monitor.view import FollowView
from offsite.monitor.waiting import Waiting

_SCRAPE_FOR_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedScrape:
    """A scrape, its view, and its time by the monotonic clock."""

    view: FollowView
    at_s: float
    exposition: Exposition


@dataclass(slots=True, kw_only=True)
class FollowMonitor:
    """The newest view, its arrival, and the arrival of its newest round. Readers in other threads see a whole view."""

    clock: Clock
    topics_max: int
    newest: tuple[FollowView, float, float]
    waiting: Callable[[], Waiting | None]
    scrapes: dict[bool, _CachedScrape] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def health(self) -> Health:
        view, shown_s, _ = self.newest
        return liveness(view, silent_s=self.clock.monotonic_s() - shown_s)

    def ready(self) -> Health:
        (view, shown_s, ended_s), now_s, waiting = self.newest, self.clock.monotonic_s(), self.waiting()
        return readiness(
            view,
            silent_s=now_s - shown_s,
            round_ended_s=now_s - ended_s,
            now_ms=self.clock.now_ms(),
            waiting="" if waiting is None else f"{waiting.subject}, for {format_duration(waiting.waited_s)}",
        )

    def show(self, view: FollowView) -> None:
        """Replace the view. A newly finished round is recognized by the number of rounds."""
        now_s, (before, _, ended_s) = self.clock.monotonic_s(), self.newest
        self.newest = (view, now_s, ended_s if view.rounds == before.rounds else now_s)

    def metrics(self, accept: str) -> Exposition:
        """The text of a scrape of the newest view, at most a second old."""
        kind = OPEN_METRICS in accept
        with self.lock:
            (view, _, _), now_s, scrape = self.newest, self.clock.monotonic_s(), self.scrapes.get(kind)
            if scrape is None or scrape.view is not view or now_s - scrape.at_s >= _SCRAPE_FOR_S:
                text = expose(view, now_ms=self.clock.now_ms(), accept=accept, topics_max=self.topics_max)
                scrape = self.scrapes[kind] = _CachedScrape(view=view, at_s=now_s, exposition=text)
            return scrape.exposition


class MonitorServer(StatusServer):
    """The server of a following backup. `show` replaces the view."""

    def __init__(
        self,
        view: FollowView,
        *,
        listen: ListenAddress,
        clock: Clock,
        topics_max: int = TOPICS_MAX,
        waiting: Callable[[], Waiting | None] = lambda: None,
    ) -> None:
        now_s = clock.monotonic_s()
        self._shown = FollowMonitor(clock=clock, topics_max=topics_max, newest=(view, now_s, now_s), waiting=waiting)
        super().__init__(self._shown, listen=listen, clock=clock)

    def show(self, view: FollowView) -> None:
        """Show `view` from now on. A call is the sign of life behind `/healthz`."""
        self._shown.show(view)
