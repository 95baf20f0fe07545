"""Options of a run that follows."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadOption
from offsite.model.units import parse_duration_s
from offsite.monitor.server import ListenAddress, parse_address
from offsite.upkeep.retention.policy import OFF, RetentionPolicy, parse_retain


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTimes:
    """`interval_s`: seconds between the beginnings of rounds. `give_up_after_s`: seconds to wait out an outage.
    `collect_after_s`: seconds to keep replaced objects. `metrics`: where to listen, if anywhere. `retain`: which
    restore points to keep (None: all), decided every `retain_every_s` seconds. `checkpoint_every_s`: seconds between
    checkpoints (None: requested only)."""

    interval_s: float
    give_up_after_s: float
    collect_after_s: float
    metrics: ListenAddress | None = None
    retain: RetentionPolicy | None = None
    retain_every_s: float = 3600.0
    checkpoint_every_s: float | None = None


def parse_follow(  # noqa: PLR0913, PLR0917  # as they are typed
    interval: str,
    give_up_after: str,
    metrics_port: str | None,
    collect_after: str,
    retain: str = OFF,
    retain_every: str = "1h",
    every: str | None = None,
) -> FollowTimes:
    """Parse the options. Raises `BadOption` for an invalid duration, an empty interval, an invalid port or an invalid
    rule."""
    times = FollowTimes(
        interval_s=parse_duration_s(interval),
        give_up_after_s=parse_duration_s(give_up_after),
        collect_after_s=parse_duration_s(collect_after),
        metrics=None if metrics_port is None else parse_address(metrics_port),
        retain=parse_retain(retain),
        retain_every_s=parse_duration_s(retain_every),
        checkpoint_every_s=None if every is None else parse_duration_s(every),
    )
    if every is not None and not times.checkpoint_every_s:
        raise BadOption(f"a checkpoint every {every} would take a checkpoint in every round", hint="choose 1m or more")
    if times.interval_s <= 0:
        raise BadOption(
            f"an interval of {interval} would send requests to the brokers without a pause", hint="choose 1s or more"
        )
    return times
