"""Health probes and Prometheus metrics of an operator, in any home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from offsite.model.clock import Clock
from offsite.monitor.metrics import Exposition, Metrics, Series, gauge
from offsite.monitor.view import Health
from offsite.operator.resources.parse import KINDS

SILENT_MAX_S = 600.0
"""A round takes as long as its slowest repositories: with a lower limit a waiting operator would be restarted."""
KIND = "kind"
"""The label of all series."""


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


OPERATOR_SERIES: tuple[Series[RoundSummary], ...] = (
    gauge(
        "offsite_operator_resources",
        "Declared resources, as of the last round.",
        lambda rounds: _by_kind(rounds.resources),
        KIND,
    ),
    gauge(
        "offsite_operator_unreconciled_resources",
        "Declared resources that were not as declared: their conditions give the reason. A failed restore counts "
        "until it is deleted.",
        lambda rounds: _by_kind(rounds.waiting),
        KIND,
    ),
    gauge(
        "offsite_operator_failing_expiries",
        "Declared resources whose expiry jobs fail repeatedly: their condition ExpiryFailing gives the reason.",
        lambda rounds: _by_kind(rounds.failing),
        KIND,
    ),
)


def _by_kind(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {kind: counts.get(kind, 0) for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeMonitor:
    """Implements the port `StatusSource`."""

    home: Home
    clock: Clock

    def metrics(self, accept: str) -> Exposition:
        return Metrics(series=OPERATOR_SERIES, view=self.home.rounds, labels={}).expose(accept)

    def health(self) -> Health:
        silent_s = self.clock.monotonic_s() - self.home.rounds.ended_s
        if silent_s > SILENT_MAX_S:
            return Health(ok=False, reason=f"stuck: no round has ended for {silent_s:.0f} s")
        return Health(ok=True, reason=f"alive: the last round ended {silent_s:.0f} s ago")

    def ready(self) -> Health:
        return self.health()
