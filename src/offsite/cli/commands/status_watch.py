"""`offsite status --watch`: the status on a screen that renews itself, for as long as a person watches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from offsite.cli.live import Frame, LiveScreen
from offsite.cli.output import Table
from offsite.cli.views.live import Rates, status_frame, topic_ends
from offsite.model.errors import OffsiteError, StoreUnavailable
from offsite.model.units import format_time
from offsite.overview.several import RepositoryReading
from offsite.overview.status import Status, read_status

if TYPE_CHECKING:
    from offsite.model.clock import Clock
    from offsite.overview.verdict_changes import VerdictChanges
    from offsite.repository.repository import Repository

LOOK_EVERY_S = 5.0
"""Seconds between two readings of the commits: each is a few requests to the store for a backup."""
LATE_AFTER_S = 30.0
"""Age of the last reading from which the screen tells it: a store may hang."""


class StatusWatch:
    """Reads the status again and again. Raises the errors of the first reading; a store that does not answer later is
    told on the screen, above what was read last."""

    def __init__(self, repository: Repository, clock: Clock, changes: VerdictChanges | None = None) -> None:
        """`changes`: tells the changes of the verdict; None: nobody wants to know."""
        self._repository, self._clock, self._changes = repository, clock, changes
        self._rates = defaultdict[str, Rates](Rates)
        self._frame = self._last = Frame(lines=(f"reading {repository.store.url}",), table=Table())
        self._read_s = clock.monotonic_s()

    @property
    def frame(self) -> Frame:
        """What is shown now."""
        late_s = self._clock.monotonic_s() - self._read_s
        if self._frame is not self._last or late_s < LATE_AFTER_S:
            return self._frame
        problem = f"not read for {late_s:,.0f} s: below is what was read before"
        return replace(self._last, lines=(problem, *self._last.lines))

    def run(self) -> NoReturn:
        """Watch until an interrupt."""
        self.look()
        with LiveScreen(lambda: self.frame):
            while True:
                self._clock.sleep(LOOK_EVERY_S)
                self.look_again()

    def look(self) -> None:
        """Read the status. Raises `StoreUnavailable`, `StoreDenied`."""
        began_s, report = self._clock.monotonic_s(), read_status(self._repository)
        ends = self._ends(report)
        for backup, topics in ends.items():
            self._rates[backup].look(topics, now_s=self._clock.monotonic_s())
        self._read_s = began_s
        self._frame = self._last = status_frame(report, ends, dict(self._rates))
        self._tell(report)

    def look_again(self) -> None:
        try:
            self.look()
        except StoreUnavailable as error:
            now = format_time(self._clock.now_ms())
            problem = f"not read at {now}: [{error.id}] {error.message}; below is what was read before"
            self._frame = replace(self._last, lines=(problem, *self._last.lines))
            self._tell(None, f"{error.id}: {error.message}")

    def _tell(self, report: Status | None, problem: str = "") -> None:
        if self._changes is not None:
            place = self._repository.store.url
            self._changes.take(RepositoryReading(name="", place=place, status=report, problem=problem))

    def _ends(self, report: Status) -> Mapping[str, Mapping[str, int]]:
        """By backup, the ends of its topics; without those that cannot be read, as the report says."""
        ends = {}
        for backup in report.backups:
            try:
                ends[backup.backup] = topic_ends(self._repository.backup(backup.backup).readable_state())
            except StoreUnavailable:
                raise
            except OffsiteError:
                continue
        return ends
