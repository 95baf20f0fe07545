"""Tells people what becomes of the repositories of a coordinator, in a thread of its own: changes, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsite.model.clock import Clock
from offsite.model.ids import random_id
from offsite.model.journal import failed, safe_line, safe_trace
from offsite.model.untrusted.place import absolute_place
from offsite.notify.changes import ALIVE_EVERY_S
from offsite.notify.event import Event, EventKind
from offsite.notify.outbox import Outbox
from offsite.notify.teller import Receiver
from offsite.overview.several import status_of_several
from offsite.overview.verdict_changes import VerdictChange, VerdictChanges
from offsite.serve.repository_watch import RepositoryWatch

LOOK_EVERY_S = 5.0
"""Between two looks at what the watches have read: costs no request."""
COMMAND = "serve"


class Notifier:
    """`subject`: who is told, for the memory of what was told."""

    def __init__(
        self, watches: Iterable[RepositoryWatch], receivers: Sequence[Receiver], *, clock: Clock, subject: str
    ) -> None:
        self._clock, self._outbox = clock, Outbox(receivers, clock=clock)
        self._run, self._began_ms, self._alive_s = random_id(16), clock.now_ms(), float("-inf")
        self._watched = [(watch, self._changes(watch, subject)) for watch in watches]

    def run(self) -> None:
        """Tell for ever."""
        while True:
            self.look()
            self._clock.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Tell what has changed. Never raises."""
        try:
            readings = [watch.reading() for watch, _ in self._watched]
            for reading, (_, changes) in zip(readings, self._watched, strict=True):
                changes.take(reading)
            now_s = self._clock.monotonic_s()
            if status_of_several(readings).safe and now_s - self._alive_s >= ALIVE_EVERY_S:
                self._alive_s = now_s
                self._tell(VerdictChange(kind=EventKind.ROUND, message="all repositories are safe"))
            self._outbox.send()
        except Exception as error:  # noqa: BLE001  # the next look may succeed, and nobody else restarts the thread
            failed("notifier", why=safe_line(error), trace=safe_trace(error))

    def _changes(self, watch: RepositoryWatch, subject: str) -> VerdictChanges:
        settings = watch.site.settings
        return VerdictChanges(
            lambda change: self._tell(change, repository=settings.name),
            clock=self._clock,
            subject=f"{subject} {absolute_place(settings.repo)} {COMMAND}",
        )

    def _tell(self, change: VerdictChange, *, repository: str = "") -> None:
        self._outbox.put(
            Event(
                kind=change.kind,
                command=COMMAND,
                run=self._run,
                at_ms=self._clock.now_ms(),
                began_ms=self._began_ms,
                repository=repository,
                backup=change.backup,
                message=change.message,
                hint=change.hint,
                details=change.details,
            )
        )
