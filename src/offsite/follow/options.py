"""Options of a run that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

from offsite.model.errors import BadOption
from offsite.model.options import Option, with_defaults
from offsite.model.units import parse_duration_s

if TYPE_CHECKING:
    from offsite.follow.follower import FollowTimes
    from offsite.monitor.server import ListenAddress


class FollowWords(TypedDict, total=False):
    """Options of `backup follow`, and of `backup run --follow`."""

    interval: Annotated[str, Option("Time from one round to the next.", "10s")]
    give_up_after: Annotated[str, Option("How long to wait during an outage before the command fails.", "24h")]
    metrics_port: Annotated[str | None, Option("Where to show metrics, as 9464 or 0.0.0.0:9464.")]
    collect_after: Annotated[str, Option("How long to keep objects that a roll-up replaced.", "24h")]
    retain: Annotated[
        str,
        Option(
            "What to keep: off = everything; mirror = what the topics' own retention keeps; or rules, "
            "as keep-age=7d,keep-daily=30,max-bytes=10GiB,floor=3d (see offsite retention plan).",
            "off",
        ),
    ]
    retain_every: Annotated[str, Option("With --retain: how often to apply the rules.", "1h")]
    every: Annotated[str | None, Option("Take a checkpoint when up to date, then one per interval, such as 15m.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """When to do what. `give_up_after_s`: seconds to wait out an outage. `metrics`: where to listen, if anywhere."""

    times: FollowTimes
    give_up_after_s: float
    metrics: ListenAddress | None


def parse_follow(words: FollowWords) -> FollowOptions:
    """Parse the options. Raises `BadOption` for an invalid duration, an empty interval, an invalid port or an invalid
    rule."""
    from offsite.follow.follower import FollowTimes
    from offsite.monitor.server import parse_address
    from offsite.upkeep.retention.policy import parse_retain

    words = with_defaults(FollowWords, words)
    metrics_port, every = words["metrics_port"], words["every"]
    times = FollowTimes(
        interval_s=parse_duration_s(words["interval"]),
        collect_after_s=parse_duration_s(words["collect_after"]),
        retain=parse_retain(words["retain"]),
        retain_every_s=parse_duration_s(words["retain_every"]),
        checkpoint_every_s=None if every is None else parse_duration_s(every),
    )
    if every is not None and not times.checkpoint_every_s:
        raise BadOption(f"a checkpoint every {every} would take a checkpoint in every round", hint="choose 1m or more")
    if times.interval_s <= 0:
        raise BadOption(
            f"an interval of {words['interval']} would send requests to the brokers without a pause",
            hint="choose 1s or more",
        )
    return FollowOptions(
        times=times,
        give_up_after_s=parse_duration_s(words["give_up_after"]),
        metrics=None if metrics_port is None else parse_address(metrics_port),
    )
