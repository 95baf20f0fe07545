"""Metrics: series, each declared once with name, type, help and labels, and the text that Prometheus scrapes.

The values of a series are read from a view when a client scrapes. Scrapes and the reference page come from the same
declarations. An unknown value has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client import Histogram
    from prometheus_client.core import Metric

ViewT = TypeVar("ViewT")
Values = Mapping[str, float] | Mapping[tuple[str, ...], float] | float | None
"""The values of a series: by the value of its label, by the values of its labels, a single value, or None where
unknown."""

OPEN_METRICS = "application/openmetrics-text"


class MetricType(StrEnum):
    """The type of a single-valued series, in Prometheus' terms."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Series(Generic[ViewT]):
    """A series. `read` takes the values from a view. `labels`: labels beside those of all series of the view."""

    kind: MetricType
    name: str
    help: str
    read: Callable[[ViewT], Values]
    labels: tuple[str, ...] = ()


def gauge(name: str, meaning: str, read: Callable[[ViewT], Values], *labels: str) -> Series[ViewT]:
    """A series that rises and falls."""
    return Series(MetricType.GAUGE, name, meaning, read, labels)


def counter(name: str, meaning: str, read: Callable[[ViewT], Values], *labels: str) -> Series[ViewT]:
    """A series that only rises while the process runs."""
    return Series(MetricType.COUNTER, name, meaning, read, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """The text of a scrape and its `Content-Type`."""

    text: bytes
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Generic[ViewT]):
    """The metrics of a view: a collector in the terms of prometheus_client. `labels`: the labels of all series.
    `histograms`: instruments with further observations, without these labels."""

    series: Iterable[Series[ViewT]]
    view: ViewT
    labels: Mapping[str, str]
    histograms: Iterable[Histogram] = ()

    def expose(self, accept: str) -> Exposition:
        """Make the answer to a scrape: OpenMetrics if the `Accept` header names it, else the plain text format. The
        version is ours: a client chooses no part of an answer."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(OPEN_METRICS if OPEN_METRICS in accept else "")
        return Exposition(text=encode(self), content_type=content_type)

    def collect(self) -> Iterator[Metric]:
        for series in self.series:
            yield self._family(series)
        for histogram in self.histograms:
            for family in histogram.collect():
                family.samples = [
                    sample._replace(labels={**self.labels, **sample.labels})
                    for sample in family.samples
                    if not sample.name.endswith("_created")
                ]
                yield family

    def _family(self, series: Series[ViewT]) -> Metric:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        new_family = {MetricType.COUNTER: CounterMetricFamily, MetricType.GAUGE: GaugeMetricFamily}[series.kind]
        family: CounterMetricFamily | GaugeMetricFamily = new_family(
            series.name, series.help, labels=[*self.labels, *series.labels]
        )
        values = series.read(self.view)
        by_labels = {(): values} if isinstance(values, int | float) else values or {}
        for labels, value in sorted(by_labels.items()):
            family.add_metric([*self.labels.values(), *((labels,) if isinstance(labels, str) else labels)], value)
        return family


def seconds(time_ms: int) -> float | None:
    """A time as Prometheus expects; None for an unknown time."""
    return None if time_ms < 0 else time_ms / 1000
