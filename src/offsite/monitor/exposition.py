"""Makes the text that Prometheus scrapes from a view, in the Prometheus format or as OpenMetrics.

Topics can be many, and every series costs server memory. Only a limited number of topics have series of their own: the
first by name, which stay the same from scrape to scrape. The rest share `topic=""`, so that an alert about the worst
topic sees them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.monitor.backup_series import DURATION_SERIES, SERIES, TOPIC_SERIES, TOPICS_LEFT_OUT
from offsite.monitor.view import (
    BACKUP,
    TOPIC,
    DurationSeries,
    FollowView,
    MetricType,
    Series,
    TopicSeries,
    TopicView,
    Values,
)

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

TOPICS_MAX = 1000
"""Number of topics with series of their own."""

OPEN_METRICS = "application/openmetrics-text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """The text of a scrape and its `Content-Type`."""

    text: bytes
    content_type: str


def expose(view: FollowView, *, now_ms: int, accept: str = "", topics_max: int = TOPICS_MAX) -> Exposition:
    """Make the answer to a scrape at `now_ms`: OpenMetrics if the `Accept` header names it, else the plain text
    format."""
    from prometheus_client import exposition as plain
    from prometheus_client.openmetrics import exposition as openmetrics

    scrape = _Scrape(view=view, now_ms=now_ms, labelled=_labelled(view.topics, topics_max))
    if OPEN_METRICS in accept:
        text: bytes = openmetrics.generate_latest(scrape)  # type: ignore[no-untyped-call]
        return Exposition(text=text, content_type=openmetrics.CONTENT_TYPE_LATEST)
    return Exposition(text=plain.generate_latest(scrape), content_type=plain.CONTENT_TYPE_PLAIN_0_0_4)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scrape:
    """A collector in the terms of prometheus_client."""

    view: FollowView
    now_ms: int
    labelled: Mapping[str, Sequence[TopicView]]

    def collect(self) -> Iterator[Metric]:
        yield from map(self._series, SERIES)
        yield from map(self._durations, DURATION_SERIES)
        yield from map(self._topics, TOPIC_SERIES)
        yield self._family(TOPICS_LEFT_OUT, len(self.labelled.get("", ())))

    def _series(self, series: Series) -> Metric:
        return self._family(series, series.read(self.view, self.now_ms))

    def _family(self, series: Series, values: Values) -> Metric:
        family = _new(series, [BACKUP, *series.labels])
        if isinstance(values, int | float):
            family.add_metric([self.view.backup], values)
        elif values is not None:
            for label_values, value in sorted(values.items()):
                family.add_metric(
                    [self.view.backup, *([label_values] if isinstance(label_values, str) else label_values)], value
                )
        return family

    def _durations(self, series: DurationSeries) -> HistogramMetricFamily:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(series.name, series.help, labels=[BACKUP, *series.labels])
        for label_values, durations in sorted(series.read(self.view).items()):
            family.add_metric(
                [self.view.backup, *label_values], buckets=durations.cumulative(), sum_value=durations.sum_s
            )
        return family

    def _topics(self, series: TopicSeries) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(series.name, series.help, labels=[BACKUP, TOPIC])
        for label, topics in self.labelled.items():
            values = [series.read(self.view, topic, self.now_ms) for topic in topics]
            if known_values := [value for value in values if value is not None]:
                family.add_metric([self.view.backup, label], series.merge(known_values))
        return family


def _labelled(topics: Iterable[TopicView], topics_max: int) -> dict[str, list[TopicView]]:
    """The topics by their label. A label must be unique: Prometheus would refuse the whole scrape."""
    by_name: dict[str, list[TopicView]] = {}
    for topic in sorted(topics, key=lambda view: view.topic):
        has_own_series = topic.topic in by_name or len(by_name) < topics_max
        by_name.setdefault(topic.topic if has_own_series else "", []).append(topic)
    return by_name


def _new(series: Series, labels: list[str]) -> GaugeMetricFamily | CounterMetricFamily:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    if series.kind is MetricType.COUNTER:
        return CounterMetricFamily(series.name, series.help, labels=labels)
    return GaugeMetricFamily(series.name, series.help, labels=labels)
