"""Looks at the living source again and again, and keeps what the newest looks told: readers wait for no cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from offsite.kafka.admin import ClusterAdmin
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import failed, safe_line, safe_trace, warned
from offsite.model.units import format_duration
from offsite.overview.comparison import SourceComparison
from offsite.overview.remembered_sightings import SightingsMemory
from offsite.overview.source_evidence import Sightings
from offsite.overview.source_judgement import compare_topics
from offsite.overview.source_look import look_at_source
from offsite.repository.backup import Backup
from offsite.repository.descriptor import import_origin
from offsite.stores.wrapped_store import display_now_ms

LATE_INTERVALS = 3
LATE_AT_LEAST_S = 90.0
"""A look that finds nobody in takes this long at most; what is older is told to be old."""


_NO_LOOK = "the first look at the source has not ended yet"
_ARCHIVE = "the backup holds an archive, which no cluster changes"
_NO_BACKUP = "the newest look found no such backup in the repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What is known of the source of one backup. `looked_s`: by the monotonic clock."""

    comparison: SourceComparison = field(default_factory=SourceComparison)
    sightings: Sightings = field(default_factory=Sightings)
    memory: SightingsMemory | None = None
    looked_s: float | None = None


class SourceWatch:
    """The newest comparisons by backup. One look is made at a time; readers get what is known now."""

    def __init__(
        self,
        *,
        open_cluster: Callable[[], ClusterAdmin],
        list_backups: Callable[[], Iterable[str]],
        open_backup: Callable[[str], Backup],
        clock: Clock,
        interval_s: float = 0.0,
    ) -> None:
        """`interval_s`: the pause between two looks; 0 for a single look. Otherwise what is seen is remembered on this
        machine, for the next process."""
        self._open_cluster, self._list_backups, self._open_backup = open_cluster, list_backups, open_backup
        self._clock, self._interval_s = clock, interval_s
        self._sources: Mapping[str, _Source] = {}
        self._problem = ""
        self._has_looked = False
        self._began_s: float | None = None
        self._looking = threading.Lock()

    def run(self) -> None:
        """Look for ever."""
        while True:
            self.look()
            self._clock.sleep(self._interval_s)

    def look(self) -> None:
        """Look at the source of every backup. A failure is told to readers, and never raised."""
        with self._looking:
            self._began_s = self._clock.monotonic_s()
            try:
                self._look()
                self._problem = ""
            except OffsiteError as error:
                self._problem = f"{error.id}: {error.message}"
            except Exception as error:  # noqa: BLE001  # the next look may succeed, and nobody else restarts the watch
                failed("source_look", why=safe_line(error), trace=safe_trace(error))
                self._problem = "a mistake of offsite; see the log"
            finally:
                self._began_s = None

    def _look(self) -> None:
        admin = self._open_cluster()
        self._sources = {name: self._after_look(admin, name) for name in self._list_backups()}
        self._has_looked = True

    def _after_look(self, admin: ClusterAdmin, name: str) -> _Source:
        before = self._sources.get(name, _Source())
        looked_s = self._clock.monotonic_s()
        try:
            backup = self._open_backup(name)
            if import_origin(backup.descriptor):
                return _Source(comparison=SourceComparison(absent=_ARCHIVE))
            state = backup.readable_state()
            looked_ms = display_now_ms(backup.store)
            look = look_at_source(admin, backup, state, looked_ms=looked_ms)
            memory, earlier = self._remembered(before, backup, name, looked_ms)
            sightings = earlier.after(state, look)
            comparison = SourceComparison.of(compare_topics(state, look, sightings), looked_ms)
        except OffsiteError as error:
            problem = f"{error.id}: {error.message}"
            return replace(before, comparison=replace(before.comparison, problem=problem))
        self._tell(name, before.comparison, comparison)
        if memory is not None:
            memory.keep(sightings, looked_ms)
        return _Source(comparison=comparison, sightings=sightings, memory=memory, looked_s=looked_s)

    def _remembered(
        self, before: _Source, backup: Backup, name: str, now_ms: int
    ) -> tuple[SightingsMemory | None, Sightings]:
        """Return the sightings before a look, which are those of the last process before the first look."""
        if before.memory is not None or not self._interval_s:
            return before.memory, before.sightings
        memory = SightingsMemory(backup.store.url, name)
        return memory, memory.recall(now_ms)

    @staticmethod
    def _tell(backup: str, before: SourceComparison, now: SourceComparison) -> None:
        """Write each new alarm into the journal."""
        earlier = {(topic.topic, topic.state) for topic in before.topics if topic.alarm}
        for topic in now.topics:
            if topic.alarm and (topic.topic, topic.state) not in earlier:
                warned("source_loss", why=topic.detail, backup=backup, topic=topic.topic, state=topic.state.value)

    def comparison(self, backup: str) -> SourceComparison:
        """What is known of the source of a backup now."""
        now_s, source = self._clock.monotonic_s(), self._sources.get(backup)
        if source is not None and source.comparison.absent:
            return source.comparison
        if source is None or source.looked_s is None:
            comparison = source.comparison if source else SourceComparison()
            problem = comparison.problem or self._problem or self._late(now_s)
            return replace(comparison, problem=problem or (_NO_BACKUP if self._has_looked else _NO_LOOK))
        age_s = max(0.0, now_s - source.looked_s)
        problem = source.comparison.problem or self._problem or self._late(now_s)
        return replace(source.comparison, age_s=age_s, problem=problem)

    def _late(self, now_s: float) -> str:
        """The problem of a look that does not end."""
        began_s = self._began_s
        took_s = 0.0 if began_s is None else now_s - began_s
        is_late = took_s > max(LATE_AT_LEAST_S, LATE_INTERVALS * self._interval_s)
        return f"the look that began {format_duration(took_s)} ago has not ended" if is_late else ""
