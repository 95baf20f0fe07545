"""What the server beside a metastore backup shows: `/metrics`, and whether the topic has lost commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.model.clock import Clock
from offsite.model.units import format_duration
from offsite.monitor.exposition import OPEN_METRICS, Exposition
from offsite.monitor.server import ListenAddress, StatusServer
from offsite.monitor.view import TOPIC, Health, MetricType

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

SILENT_MAX_S = 60.0
"""Seconds without a look at the topic after which the backup counts as behind: the backup looks every second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreSeries:
    """A series, with its labels beside the topic's name. `read` returns its value, or None without a value."""

    name: str
    kind: MetricType
    help: str
    read: Callable[[MetastoreView], float | None]


def _time_s(time_ms: int) -> float | None:
    return None if time_ms < 0 else time_ms / 1000


METASTORE_SERIES = (
    MetastoreSeries(
        name="offsite_metastore_commands",
        kind=MetricType.GAUGE,
        help="Commands in the backup file.",
        read=lambda view: view.commands,
    ),
    MetastoreSeries(
        name="offsite_metastore_appended_commands",
        kind=MetricType.COUNTER,
        help="Commands that this process has added to backup files.",
        read=lambda view: view.appended,
    ),
    MetastoreSeries(
        name="offsite_metastore_missing_commands",
        kind=MetricType.GAUGE,
        help="Commands in the backup file that the topic no longer has: it was deleted, emptied or cut. Above 0 is an "
        "alarm.",
        read=lambda view: view.missing,
    ),
    MetastoreSeries(
        name="offsite_metastore_diverged",
        kind=MetricType.GAUGE,
        help="1 when this process has started a new file, because the topic had another command than the file.",
        read=lambda view: float(bool(view.diverged)),
    ),
    MetastoreSeries(
        name="offsite_metastore_undecided_offsets",
        kind=MetricType.GAUGE,
        help="Offsets from the oldest open transaction of the topic on: they cannot be read yet, and are not backed "
        "up.",
        read=lambda view: view.undecided,
    ),
    MetastoreSeries(
        name="offsite_metastore_file_bytes",
        kind=MetricType.GAUGE,
        help="Size of the backup file, without its sidecar.",
        read=lambda view: view.size_bytes,
    ),
    MetastoreSeries(
        name="offsite_metastore_last_command_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="Time of the newest command in the backup file.",
        read=lambda view: _time_s(view.last_command_ms),
    ),
    MetastoreSeries(
        name="offsite_metastore_seen_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When the topic was last read to its end, or last found missing.",
        read=lambda view: _time_s(view.seen_ms),
    ),
    MetastoreSeries(
        name="offsite_metastore_flush_seconds",
        kind=MetricType.GAUGE,
        help="How long it took to write the newest commands to disk.",
        read=lambda view: view.flush_s,
    ),
)


class MetastoreMonitor:
    """The newest view. Readers in other threads see a whole view."""

    def __init__(self, view: MetastoreView, *, clock: Clock) -> None:
        self.view, self._clock = view, clock

    def metrics(self, accept: str) -> Exposition:
        from prometheus_client import exposition as plain
        from prometheus_client.openmetrics import exposition as openmetrics

        scrape = _Scrape(view=self.view)
        if OPEN_METRICS in accept:
            text: bytes = openmetrics.generate_latest(scrape)  # type: ignore[no-untyped-call]
            return Exposition(text=text, content_type=openmetrics.CONTENT_TYPE_LATEST)
        return Exposition(text=plain.generate_latest(scrape), content_type=plain.CONTENT_TYPE_PLAIN_0_0_4)

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
            return Health(ok=False, reason=f"the topic is {view.verdict.value}: {view.missing:,} commands are missing")
        if not view.is_there:
            return Health(ok=False, reason="the topic does not exist yet: is the service id right?")
        return Health(ok=True, reason=f"{view.verdict.value}: {view.commands:,} commands")


class MetastoreServer(StatusServer):
    """The server of a metastore backup. `show` replaces the view."""

    def __init__(self, topic: str, *, listen: ListenAddress, clock: Clock) -> None:
        self._shown = MetastoreMonitor(
            MetastoreView(topic=topic, verdict=MetastoreVerdict.EMPTY, file=None), clock=clock
        )
        super().__init__(self._shown, listen=listen, clock=clock)

    def show(self, view: MetastoreView) -> None:
        self._shown.view = view


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scrape:
    """A collector in the terms of prometheus_client."""

    view: MetastoreView

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = {MetricType.COUNTER: CounterMetricFamily, MetricType.GAUGE: GaugeMetricFamily}
        for series in METASTORE_SERIES:
            family = kinds[series.kind](series.name, series.help, labels=[TOPIC])
            if (value := series.read(self.view)) is not None:
                family.add_metric([self.view.topic], value)
            yield family
