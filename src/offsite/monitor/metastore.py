"""What the server beside a metastore backup shows: `/metrics`, and whether the topic has lost commands."""

from __future__ import annotations

from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.model.clock import Clock
from offsite.model.names import amount
from offsite.model.units import format_duration
from offsite.monitor.backup_series import TOPIC
from offsite.monitor.metrics import Exposition, Metrics, Series, counter, gauge, seconds
from offsite.monitor.server import ListenAddress, StatusServer
from offsite.monitor.view import Health

SILENT_MAX_S = 60.0
"""Seconds without a look at the topic after which the backup counts as behind: the backup looks every second."""


METASTORE_SERIES: tuple[Series[MetastoreView], ...] = (
    gauge(
        "offsite_metastore_commands",
        "Commands in the backup file.",
        lambda view: view.commands,
    ),
    counter(
        "offsite_metastore_appended_commands",
        "Commands that this process has added to backup files.",
        lambda view: view.appended,
    ),
    gauge(
        "offsite_metastore_missing_commands",
        "Commands in the backup file that the topic no longer has: it was deleted, emptied or cut. Above 0 is an "
        "alarm.",
        lambda view: view.missing,
    ),
    gauge(
        "offsite_metastore_diverged",
        "1 when this process has started a new file, because the topic had another command than the file.",
        lambda view: float(bool(view.diverged)),
    ),
    gauge(
        "offsite_metastore_undecided_offsets",
        "Offsets from the oldest open transaction of the topic on: they cannot be read yet, and are not backed up.",
        lambda view: view.undecided,
    ),
    gauge(
        "offsite_metastore_file_bytes",
        "Size of the backup file, without its sidecar.",
        lambda view: view.size_bytes,
    ),
    gauge(
        "offsite_metastore_last_command_timestamp_seconds",
        "Time of the newest command in the backup file.",
        lambda view: seconds(view.last_command_ms),
    ),
    gauge(
        "offsite_metastore_seen_timestamp_seconds",
        "When the topic was last read to its end, or last found missing.",
        lambda view: seconds(view.seen_ms),
    ),
    gauge(
        "offsite_metastore_flush_seconds",
        "How long it took to write the newest commands to disk.",
        lambda view: view.flush_s,
    ),
)


class MetastoreMonitor:
    """The newest view. Readers in other threads see a whole view."""

    def __init__(self, view: MetastoreView, *, clock: Clock) -> None:
        self.view, self._clock = view, clock

    def metrics(self, accept: str) -> Exposition:
        return Metrics(series=METASTORE_SERIES, view=self.view, labels={TOPIC: self.view.topic}).expose(accept)

    def health(self) -> Health:
        """Always alive: a process that waits for Kafka lives."""
        return Health(ok=True, reason=f"alive: {self.view.verdict.value}")

    def ready(self) -> Health:
        """Whether the file holds everything in the topic, and the topic has lost nothing."""
        view = self.view
        if view.seen_ms < 0:
            return Health(ok=False, reason="the topic was not read yet")
        silent_s = max(0, self._clock.now_ms() - view.seen_ms) / 1000
        if silent_s > SILENT_MAX_S:
            return Health(ok=False, reason=f"the topic was not read for {format_duration(silent_s)}")
        undecided_s = (self._clock.now_ms() - view.undecided_since_ms) / 1000 if view.undecided else 0.0
        if undecided_s > SILENT_MAX_S:
            for_long = format_duration(undecided_s)
            return Health(ok=False, reason=f"a transaction is open for {for_long}: later commands are not backed up")
        if view.verdict.is_alarm:
            missing = amount(view.missing, "command is", "commands are")
            return Health(ok=False, reason=f"the topic is {view.verdict.value}: {missing} missing")
        if not view.is_there:
            return Health(ok=False, reason="the topic does not exist yet: is the service id right?")
        return Health(ok=True, reason=f"{view.verdict.value}: {amount(view.commands, 'command')}")


class MetastoreServer(StatusServer):
    """The server of a metastore backup. `show` replaces the view."""

    def __init__(self, topic: str, *, listen: ListenAddress, clock: Clock) -> None:
        self._shown = MetastoreMonitor(
            MetastoreView(topic=topic, verdict=MetastoreVerdict.EMPTY, file=None), clock=clock
        )
        super().__init__(self._shown, listen=listen, clock=clock)

    def show(self, view: MetastoreView) -> None:
        self._shown.view = view
