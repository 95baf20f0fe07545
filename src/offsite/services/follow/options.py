"""Options of a run that follows, as a person writes them."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadOption
from offsite.model.time import parse_duration_s
from offsite.services.monitor.address import Address, parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTimes:
    """Seconds from the beginning of one round to that of the next, for which an outage is waited out, and for which
    what was replaced is kept; and where to listen for metrics, if at all."""

    interval_s: float
    give_up_after_s: float
    collect_after_s: float
    metrics: Address | None = None


def parse_follow(interval: str, give_up_after: str, metrics_port: str | None, collect_after: str) -> FollowTimes:
    """Raises `BadOption` for what is no duration, an interval of nothing, or no port."""
    times = FollowTimes(
        interval_s=parse_duration_s(interval),
        give_up_after_s=parse_duration_s(give_up_after),
        collect_after_s=parse_duration_s(collect_after),
        metrics=None if metrics_port is None else parse_address(metrics_port),
    )
    if times.interval_s <= 0:
        raise BadOption(f"an interval of {interval} would ask the brokers without a pause", hint="choose 1s or more")
    return times
