"""What the screen of a following backup shows, and that of `offsite status --watch`: rates, what is behind, what holds
the run back. Pure: figures in, a frame out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsite.cli.live import Frame
from offsite.cli.output import Table
from offsite.cli.views.repository import render_status
from offsite.model.names import amount, named
from offsite.model.units import format_duration, format_size, format_time
from offsite.monitor.view import round_limit_s

if TYPE_CHECKING:
    from offsite.engine.runner import RunProgress
    from offsite.monitor.view import FollowView, TopicView
    from offsite.monitor.waiting import Waiting
    from offsite.overview.status import Status
    from offsite.repository.state import BackupState

RATE_OVER_S = 60.0
_LOOKS = 12
"""Looks that are kept for a rate: one in five seconds."""
_NAMED_MAX = 3


def topic_ends(state: BackupState) -> Mapping[str, int]:
    """Topic → the sum of the offsets up to which its partitions are backed up."""
    ends = Counter[str]()
    for partition_id, position in state.positions.items():
        ends[partition_id.topic] += position.end
    return ends


class Rates:
    """How fast topics grow in a backup, in records per second (offsets, precisely) over the last minute. A thread may
    look while another asks."""

    def __init__(self) -> None:
        self._looks: tuple[tuple[float, Mapping[str, int]], ...] = ()

    def look(self, ends: Mapping[str, int], *, now_s: float) -> None:
        """Take the ends of all topics at `now_s`."""
        kept = [look for look in self._looks if now_s - look[0] <= RATE_OVER_S]
        if len(kept) > 1 and now_s - kept[-2][0] < RATE_OVER_S / _LOOKS:
            kept.pop()
        self._looks = (*(kept or self._looks[-1:]), (now_s, ends))

    def of(self, topic: str) -> float | None:
        """The rate of a topic; None until it was seen twice."""
        seen = [(at_s, ends[topic]) for at_s, ends in self._looks if topic in ends]
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return None
        return max(0.0, (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a run is doing beside its last round; nothing any more once it `has_ended`. `progress`: of the tasks of the
    round under way (`is_copying`), or of the newest round; None where it had no tasks. `waiting`: what the run waits
    for. `checkpoint_in_s`: seconds until the next checkpoint, None without a schedule."""

    progress: RunProgress | None = None
    is_copying: bool = False
    waiting: Waiting | None = None
    checkpoint_in_s: float | None = None
    has_ended: bool = False


def follow_frame(view: FollowView, rates: Rates, activity: Activity, *, now_ms: int) -> Frame:
    """The screen of a run that follows."""
    table = Table("topic", "behind", "records/s", "restorable to")
    for topic in sorted(view.topics, key=lambda topic: _importance(topic, rates)):
        recovery_ms = view.recovery_point_ms(topic)
        table.add_row(
            topic.topic,
            "?" if topic.lag_records < 0 else f"{topic.lag_records:,}",
            _rate(rates.of(topic.topic)),
            "-" if recovery_ms < 0 else format_time(recovery_ms),
        )
    return Frame(lines=tuple(_follow_lines(view, activity, now_ms)), table=table)


def status_frame(report: Status, ends: Mapping[str, Mapping[str, int]], rates: Mapping[str, Rates]) -> Frame:
    """The screen of `offsite status --watch`. `ends`: by backup, the ends of its topics."""
    table = Table("backup", "topic", "records/s")
    growing = [(backup, topic, rates[backup].of(topic)) for backup in ends for topic in ends[backup]]
    for backup, topic, rate in sorted(growing, key=lambda row: (-(row[2] or 0.0), row[:2])):
        table.add_row(backup, topic, _rate(rate))
    lines = [line for line in render_status(report) if isinstance(line, str)]
    complete = [backup for backup in report.backups if backup.completed_ms]
    lines += [f"  {backup.backup}: had all of its source at {format_time(backup.completed_ms)}" for backup in complete]
    return Frame(lines=tuple(lines), table=table)


def _importance(topic: TopicView, rates: Rates) -> tuple[float, float, str]:
    return -topic.lag_records, -(rates.of(topic.topic) or 0.0), topic.topic


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.1f}" if 0 < rate < 10 else f"{rate:,.0f}"


def _follow_lines(view: FollowView, activity: Activity, now_ms: int) -> Iterator[str]:
    state, lasted = view.state.value.replace("_", " "), _ago(view.started_ms, now_ms)
    lasts = f"ran for {lasted}" if activity.has_ended else f"running for {lasted}, Ctrl-C ends the run in order"
    yield f"backup {view.backup}: {state}; {lasts}"
    yield f"  last commit: {_last_commit(view, now_ms)}"
    yield f"  behind: {_behind(view)}"
    yield f"  held back: {', '.join(_holding_back(view, activity, now_ms)) or 'no'}"
    if activity.checkpoint_in_s is not None:
        yield f"  next checkpoint: {_soon(activity.checkpoint_in_s)}"
    yield f"  copying: {_copying(activity)}"
    if view.failed:
        failed = ", ".join(f"{error_id}: {count:,}" for error_id, count in sorted(view.failed.items()))
        yield f"  partitions that failed in the newest round: {failed}"
    if holes := sum(view.holes.values()):
        yield f"  {amount(holes, 'hole')}: records that the source had lost (offsite show {view.backup})"


def _last_commit(view: FollowView, now_ms: int) -> str:
    if not view.head_commit:
        return "none yet"
    since_start = f"{amount(view.commits, 'commit')} with {amount(view.records, 'record')} since the run began"
    return (
        f"{view.head_commit} at {format_time(view.last_commit_ms)}, {_ago(view.last_commit_ms, now_ms)} ago; "
        f"{since_start}"
    )


def _behind(view: FollowView) -> str:
    if not view.rounds:
        return "not known before the first round ends"
    behind = sorted((topic for topic in view.topics if topic.lag_records > 0), key=lambda topic: -topic.lag_records)
    unseen = [topic.topic for topic in view.topics if topic.lag_records < 0]
    lag = sum(topic.lag_records for topic in behind)
    parts = [f"{amount(lag, 'record')} of {_names(behind)}"] if behind else []
    parts += [f"not seen in the newest round: {named(unseen, most=_NAMED_MAX)}"] if unseen else []
    return "; ".join(parts) or "nothing, when the newest round began"


def _names(topics: Sequence[TopicView]) -> str:
    return named([topic.topic for topic in topics], most=_NAMED_MAX)


def _holding_back(view: FollowView, activity: Activity, now_ms: int) -> Iterator[str]:
    """By whom, in the order of what a person can do about it."""
    if view.outage is not None:
        error = view.outage.error
        yield f"an outage for {_ago(view.outage.since_ms, now_ms)} now: [{error.id}] {error.message}"
    elif not activity.has_ended and 0 < view.round_ended_ms < now_ms - 1000 * round_limit_s(view):
        yield f"no round has ended for {_ago(view.round_ended_ms, now_ms)}"
    if activity.waiting is not None:
        yield f"{activity.waiting.subject}, for {_seconds(activity.waiting.waited_s)} now"
    if (progress := activity.progress) is not None:
        if progress.throttled_s:
            yield f"by the cluster's quota, {_seconds(progress.throttled_s)} of all tasks together"
        if progress.limited_s:
            yield f"by the limits of the command, {_seconds(progress.limited_s)} of all tasks together"
        if progress.note and activity.is_copying:
            yield progress.note


def _copying(activity: Activity) -> str:
    """Always a line: the rows below stay at their place."""
    if (progress := activity.progress) is None or not activity.is_copying:
        return "nothing at the moment"
    rate = format_size(progress.moved_bytes / max(progress.elapsed_s, 1e-3))
    return (
        f"{format_size(progress.moved_bytes)}, {amount(progress.records, 'record')}, {rate}/s, "
        f"{progress.tasks_done}/{amount(progress.tasks_total, 'task')}"
    )


def _soon(in_s: float) -> str:
    return f"in {_seconds(in_s)}" if in_s > 0 else "in the next round"


def _ago(since_ms: int, now_ms: int) -> str:
    return _seconds(max(0, now_ms - since_ms) / 1000)


def _seconds(duration_s: float) -> str:
    """Whole seconds, so that a figure changes once a second at most."""
    return f"{duration_s:.0f} s" if duration_s < 60 else format_duration(duration_s)
