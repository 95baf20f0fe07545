"""Liveness and readiness of a continuous backup, each with a reason in a line.

A process lives while its loop reports: the end of a round, or waiting for an outage to end. The allowed silence follows
from the interval and from the longest time that a round copies before a commit. An outage of brokers or store is no
reason to restart the process, but makes the backup not ready.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.backup.outages import Outage
from offsite.model.units import format_duration, format_time
from offsite.model.untrusted.text import printable
from offsite.monitor.view import FollowState, FollowView

_INTERVALS = 3
_ROUND_AT_LEAST_S = 15.0
"""Seconds allowed for a round and its roll-up, however short the interval is."""
_ROUND_S = 900.0
"""Seconds: three times the five minutes after which a long pass commits, so that a slow store is not called dead."""
_MESSAGE_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """An answer with its reason in a line."""

    ok: bool
    reason: str


def silence_limit_s(view: FollowView) -> float:
    """Seconds of silence after which the loop counts as stuck."""
    return _INTERVALS * view.interval_s + _ROUND_S


def liveness(view: FollowView, *, silent_s: float) -> Health:
    """Whether the process is alive. `silent_s`: time since its last view."""
    limit_s = silence_limit_s(view)
    if silent_s > limit_s:
        longest = f"a round takes at most {format_duration(limit_s)}"
        return Health(ok=False, reason=f"stuck: no sign of progress for {format_duration(silent_s)}, {longest}")
    return Health(ok=True, reason=f"alive: {view.state.value.replace('_', ' ')}")


def round_limit_s(view: FollowView) -> float:
    """Seconds after the end of a round, without another end, after which the backup counts as behind."""
    return max(_INTERVALS * view.interval_s, _ROUND_AT_LEAST_S)


def readiness(view: FollowView, *, silent_s: float, round_ended_s: float, now_ms: int, waiting: str = "") -> Health:
    """Whether everything that the source held a moment ago is in a commit or named as a hole. `silent_s` and
    `round_ended_s`: times since the last view, and since the end of the newest round. `waiting`: what the round under
    way waits for, if known."""
    alive = liveness(view, silent_s=silent_s)
    if not alive.ok:
        return alive
    if view.outage is not None:
        return Health(ok=False, reason=_outage(view.outage, now_ms))
    if not view.passes:
        return Health(ok=False, reason=f"no complete round yet{_behind(view)}{_waits(waiting)}")
    if view.state is not FollowState.FOLLOWING:
        detail = f"{_failed(view)}{_behind(view)}{_waits(waiting)}"
        return Health(ok=False, reason=f"the newest round is not complete{detail}")
    if round_ended_s > round_limit_s(view):
        detail = f"no round has ended for {format_duration(round_ended_s)}, the interval is"
        return Health(ok=False, reason=f"{detail} {format_duration(view.interval_s)}{_waits(waiting)}")
    return Health(ok=True, reason=f"up to date: {view.head_commit} is the newest commit")


def _outage(outage: Outage, now_ms: int) -> str:
    lasted_s = max(0, now_ms - outage.since_ms) / 1000
    since = f"since {format_time(outage.since_ms)} ({format_duration(lasted_s)})"
    return f"outage {since}: {outage.error.id} {printable(outage.error.message)[:_MESSAGE_MAX]}"


def _failed(view: FollowView) -> str:
    counts = ", ".join(f"{error_id}: {count:,}" for error_id, count in sorted(view.failed.items()))
    return f", partitions failed ({counts})" if counts else ""


def _waits(waiting: str) -> str:
    return f": {printable(waiting)[:_MESSAGE_MAX]}" if waiting else ""


def _behind(view: FollowView) -> str:
    lag = sum(max(0, topic.lag_records) for topic in view.topics)
    return f", {lag:,} records behind" if lag else ""
