"""The result of a run of a backup, for people; and the lines while a following run waits: at the beginning, every
minute, and at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite.cli.output import Line, first_lines, note
from offsite.cli.views.repository import hole_lines, render_not_carried
from offsite.model.head import Head
from offsite.model.names import amount, named
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from offsite.backup.outages import Outage
    from offsite.backup.registry import RegistryReport
    from offsite.backup.run import BackupResult
    from offsite.groups.snapshots import SavedGroups
    from offsite.model.clock import Clock
    from offsite.monitor.waiting import Waiting


_NAMED_MAX = 5
"""Topics named in a line."""

SHOWN_AGAIN_S = 60.0
"""Seconds between two lines about an outage."""


def render_result(result: BackupResult) -> Iterator[Line]:
    yield f"backup {result.backup}: commit {result.commit} at {format_time(result.committed_at_ms)}"
    yield (
        f"  {amount(result.records, 'record')}, {format_size(result.bytes)} from "
        f"{amount(result.partitions, 'partition')} of {amount(result.topics, 'topic')}, stored as "
        f"{format_size(result.stored_bytes)} in {amount(result.segments, 'segment')}"
    )
    if result.groups is not None:
        yield from _render_groups(result.groups)
    if result.registry is not None:
        yield from _render_registry(result.registry)
    yield from render_troubles(result)
    yield from render_not_carried(result.not_carried)
    yield f"  head {Head(commit=result.commit, hash=result.head_hash).short}"
    yield f"next: offsite show {result.backup} | offsite verify --backup {result.backup} --deep"


def render_commit(result: BackupResult) -> Iterator[Line]:
    """Show the result as a line, for successive runs."""
    yield (
        f"commit {result.commit} at {format_time(result.committed_at_ms)}: {amount(result.records, 'record')}, "
        f"{format_size(result.bytes)} in {amount(result.segments, 'segment')} of "
        f"{amount(result.partitions, 'partition')}"
    )
    yield from render_troubles(result)
    if result.registry is not None and result.registry.problem:
        yield from _render_registry(result.registry)


def render_troubles(result: BackupResult) -> Iterator[Line]:
    """Show the problems: holes, logs that were cut back, failed partitions."""
    yield from hole_lines(result.holes)
    if result.expected_deletions:
        deleted = sum(hole.end - hole.start for hole in result.expected_deletions)
        topics = sorted({hole.topic for hole in result.expected_deletions})
        yield (
            f"  expected deletions, no loss: {amount(deleted, 'offset')} of {named(topics, most=_NAMED_MAX)} had been "
            "read by all groups, or were declared"
        )
    for branch in result.cut_back:
        yield f"  ALARM: {branch}"
        if branch.last_commit:
            yield (
                f"    hint: offsite restore run --backup {result.backup} --commit {branch.last_commit} --topics "
                f"{branch.topic} restores the {amount(branch.records, 'record')} that the source has lost"
            )
    if result.late:
        more = "  and {:,} more topics with deleted keys that may come back (-o json has all)"
        yield from first_lines(result.late, lambda topic: f"  {topic}", most=_NAMED_MAX, more=more)
        yield (
            "    hint: run the backup more often than delete.retention.ms. Earlier restore points are not affected; a "
            "new backup (another --backup) begins without these keys"
        )
    if result.no_cut:
        yield f"  no consistent cut: a restore of this commit takes each partition as copied: {result.no_cut}"
    for topic in result.unread_topics:
        yield f"  no permission to read the settings of {topic}: the settings of an earlier run are kept"
        yield "    hint: grant the principal DESCRIBE_CONFIGS on the topic"
    for failure in result.failed:
        since = f" from {failure.start}" if failure.start >= 0 else ""
        yield f"  failed: {failure.topic}/{failure.partition}{since}: [{failure.error}] {failure.message}"
        if failure.hint:
            yield f"    hint: {failure.hint}"


def _render_groups(saved: SavedGroups) -> Iterator[Line]:
    if saved.groups:
        since = "" if saved.changed else ", as before"
        positions = f" and {amount(saved.positions, 'position')} of share groups" if saved.positions else ""
        yield f"  {amount(saved.groups, 'group')} with {amount(saved.offsets, 'committed offset')}{positions}{since}"
    if saved.note:
        yield f"  note: {saved.note}"
    for failure in saved.failed:
        how, kept = ("read only in part", "positions there") if failure.partitions else ("not read", "offsets")
        yield f"  group {failure.group} was {how}: {failure.message}; the backup keeps its earlier {kept}, if any"


def _render_registry(report: RegistryReport) -> Iterator[Line]:
    if report.problem:
        kept = f"the backup keeps its {amount(report.schemas, 'schema')}" if report.schemas else "no schema is held"
        yield f"  schema registry not read, {kept}: [{report.error}] {report.problem}"
        if report.hint:
            yield f"    hint: {report.hint}"
        return
    gone = f", {report.gone:,} of them gone by now" if report.gone else ""
    yield (
        f"  {amount(report.schemas, 'schema')}{gone} in {amount(report.versions, 'version')} of "
        f"{amount(report.subjects, 'subject')} of the registry {report.registry}"
    )
    yield from first_lines(report.unread, lambda line: f"  registry: {line}", most=_NAMED_MAX, more="  and {:,} more")


class OutageLines:
    """Prints lines on stderr about long waits and outages (`backup.outages.OnOutage`). Thread-safe: another thread
    than the waiting thread reports a wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began_s: float | None = None
        self._next_s = 0.0

    def __call__(self, outage: Outage | None) -> None:
        if outage is None:
            self.worked()
            return
        with self._lock:
            if self._is_due(since_s=self._clock.monotonic_s(), at_once=outage.attempts == 1):
                lasted = f"for {self._lasted()} now" if outage.attempts > 1 else "and trying again"
                note(f"waiting, {lasted}: [{outage.error.id}] {outage.error.message}")
                if outage.attempts == 1 and outage.error.hint:
                    note(f"hint: {outage.error.hint}")

    def waiting(self, waiting: Waiting) -> None:
        """Report a long wait: no error yet, and the first sign of most outages."""
        with self._lock:
            if self._is_due(since_s=self._clock.monotonic_s() - waiting.waited_s):
                note(f"waiting, for {self._lasted()} now: {waiting.subject}")

    def worked(self) -> None:
        """Report the end of a good round, or of an outage."""
        with self._lock:
            if self._began_s is not None:
                note(f"working again after {self._lasted()}")
                self._began_s = None

    def _is_due(self, *, since_s: float, at_once: bool = False) -> bool:
        """Whether a line is due about an event that began at `since_s`, unless an outage is already open."""
        now_s = self._clock.monotonic_s()
        is_new = self._began_s is None
        self._began_s = since_s if self._began_s is None else self._began_s
        if not is_new and not at_once and now_s < self._next_s:
            return False
        self._next_s = now_s + SHOWN_AGAIN_S
        return True

    def _lasted(self) -> str:
        return format_duration(self._clock.monotonic_s() - (self._began_s or 0.0))
