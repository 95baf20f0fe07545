"""What probes and Prometheus see of the operator in Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.clock import Clock
from offsite.operator.kubernetes.home import KubernetesHome
from offsite.services.monitor.exposition import Exposition
from offsite.services.monitor.health import Health

SILENT_MAX_S = 600.0
"""A round takes as long as its slowest repositories: with less, an operator that waits would be ended."""
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeShown:
    """The port `Shows`."""

    home: KubernetesHome
    clock: Clock

    def metrics(self, accept: str) -> Exposition:  # noqa: ARG002  # there is one form
        rounds = self.home.rounds
        lines = (
            "# HELP offsite_operator_backups Backups that are declared.",
            "# TYPE offsite_operator_backups gauge",
            f"offsite_operator_backups {rounds.resources}",
            "# HELP offsite_operator_unreconciled_backups Those of them that were not as declared in the last round.",
            "# TYPE offsite_operator_unreconciled_backups gauge",
            f"offsite_operator_unreconciled_backups {rounds.waiting}",
        )
        return Exposition(text="".join(f"{line}\n" for line in lines).encode(), content_type=_TEXT)

    def health(self) -> Health:
        silent_s = self.clock.monotonic_s() - self.home.rounds.ended_s
        if silent_s > SILENT_MAX_S:
            return Health(ok=False, reason=f"stuck: no round has ended for {silent_s:.0f} s")
        return Health(ok=True, reason=f"alive: the last round ended {silent_s:.0f} s ago")

    def ready(self) -> Health:
        return self.health()
