"""Health probes and Prometheus metrics of an operator, in any home."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from offsite.model.clock import Clock
from offsite.monitor.exposition import Exposition
from offsite.monitor.view import Health
from offsite.operator.resources.parse import KINDS

SILENT_MAX_S = 600.0
"""A round takes as long as its slowest repositories: with a lower limit a waiting operator would be restarted."""
KIND = "kind"
"""The label of all series."""
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSummary:
    """The last round. `ended_s`: end, by the monotonic clock. `resources`: count by kind. `waiting`: resources that
    were not as declared. `failing`: resources whose expiry jobs fail repeatedly."""

    ended_s: float
    resources: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, int] = field(default_factory=dict)


class Home(Protocol):
    """A place that manages resources: a folder or Kubernetes."""

    @property
    def rounds(self) -> RoundSummary:
        """The last round. Other threads may read the property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSeries:
    """One gauge, with a value for every kind of resource."""

    name: str
    help: str
    read: Callable[[RoundSummary], Mapping[str, int]]


OPERATOR_SERIES = (
    OperatorSeries(
        name="offsite_operator_resources",
        help="Declared resources, as of the last round.",
        read=lambda rounds: rounds.resources,
    ),
    OperatorSeries(
        name="offsite_operator_unreconciled_resources",
        help="Declared resources that were not as declared: their conditions give the reason. A failed restore counts "
        "until it is deleted.",
        read=lambda rounds: rounds.waiting,
    ),
    OperatorSeries(
        name="offsite_operator_failing_expiries",
        help="Declared resources whose expiry jobs fail repeatedly: their condition ExpiryFailing gives the reason.",
        read=lambda rounds: rounds.failing,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMonitor:
    """Implements the port `StatusSource`."""

    home: Home
    clock: Clock

    def metrics(self, accept: str) -> Exposition:  # noqa: ARG002  # there is one form
        rounds = self.home.rounds
        text = "".join(_lines(series, series.read(rounds)) for series in OPERATOR_SERIES)
        return Exposition(text=text.encode(), content_type=_TEXT)

    def health(self) -> Health:
        silent_s = self.clock.monotonic_s() - self.home.rounds.ended_s
        if silent_s > SILENT_MAX_S:
            return Health(ok=False, reason=f"stuck: no round has ended for {silent_s:.0f} s")
        return Health(ok=True, reason=f"alive: the last round ended {silent_s:.0f} s ago")

    def ready(self) -> Health:
        return self.health()


def _lines(series: OperatorSeries, values: Mapping[str, int]) -> str:
    samples = "".join(f'{series.name}{{{KIND}="{kind}"}} {values.get(kind, 0)}\n' for kind in KINDS)
    return f"# HELP {series.name} {series.help}\n# TYPE {series.name} gauge\n{samples}"
