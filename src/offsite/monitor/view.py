"""The view of a continuous backup for monitoring: plain data, and its health.

The loop makes a new view after every round and during an outage, and hands over the whole view. Readers in other
threads see the old view or the new view, never half of both; all views of a process share its histograms of durations.
Times are epoch ms, -1 where unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.backup.outages import Outage
from offsite.model.names import amount
from offsite.model.units import format_duration, format_time
from offsite.model.untrusted.text import printable
from offsite.upkeep.retention.report import RetentionOutlook

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of durations, inclusive: from an idle round to a round that copies until it must
commit."""

REQUEST_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)
"""The same for requests to the store: from a file on the local machine to an upload that was retried for minutes."""

UNKNOWN_MS = -1

_INTERVALS = 3
_ROUND_AT_LEAST_S = 15.0
"""Seconds allowed for a round and its roll-up, however short the interval is."""
_ROUND_S = 900.0
"""Seconds: three times the five minutes after which a long pass commits, so that a slow store is not called dead."""
_MESSAGE_MAX = 300


class FollowState(StrEnum):
    """What the loop is doing: before its first finished round, copying old records, up to date at the end of a round,
    or waiting for brokers or the store."""

    STARTING = "starting"
    CATCHING_UP = "catching_up"
    FOLLOWING = "following"
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSeries:
    """A histogram of durations. `bounds_s`: the upper bounds of its buckets, inclusive."""

    name: str
    help: str
    bounds_s: tuple[float, ...]
    labels: tuple[str, ...] = ()


DURATION_SERIES = (
    DurationSeries(
        name="offsite_round_duration_seconds",
        help="How long rounds took, from the read of the source's state to the end of the commit.",
        bounds_s=BUCKETS_S,
    ),
    DurationSeries(
        name="offsite_commit_duration_seconds",
        help="How long commits took, from the last copied byte to the commit.",
        bounds_s=BUCKETS_S,
    ),
    DurationSeries(
        name="offsite_storage_request_duration_seconds",
        help="How long requests of the driver to the store took, with retries, by operation (clock, delete, get, "
        "head, list, put, write) and outcome (ok, failed). A listing counts as one request. Requests of workers, "
        "which write the segments, are not included.",
        bounds_s=REQUEST_BUCKETS_S,
        labels=("op", "outcome"),
    ),
)


class Durations:
    """The durations of a process, as histograms: of rounds, of commits, and of the driver's requests to the store.
    Several threads may observe at once."""

    def __init__(self) -> None:
        from prometheus_client import Histogram

        self.rounds, self.commits, self.store_requests = self.histograms = tuple(
            Histogram(series.name, series.help, series.labels, buckets=series.bounds_s, registry=None)
            for series in DURATION_SERIES
        )

    def note_request(self, operation: str, outcome: str, took_s: float) -> None:
        """Note a finished request to the store."""
        self.store_requests.labels(operation, outcome).observe(took_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic, in its latest incarnation, as of the newest commit. `caught_up_ms`: when everything at the source was
    last seen to be in a commit; the end was asked for before. `lag_records`: offsets of the source outside of all
    commits, -1 unknown. `headroom_s`: see `retention_headroom`."""

    topic: str
    restorable_from_ms: int = UNKNOWN_MS
    newest_record_ms: int = UNKNOWN_MS
    caught_up_ms: int = UNKNOWN_MS
    lag_records: int = -1
    headroom_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryView:
    """The recorded checks of a backup. `verified_ms`: the last own check of every depth. `damaged`: damage found by the
    newest checks, claimed checks included; None without any. `drilled_ms`: the last own drill that proved the backup.
    `claimed_ms`, `claimed_drill_ms`: later claims of other installations. `retention`: what is kept and what goes next;
    None where nothing ever went and nothing is pinned. `let_go`: restore points that went since the process began, by
    kind of work."""

    verified_ms: Mapping[str, int] = field(default_factory=dict)
    damaged: int | None = None
    drilled_ms: int = UNKNOWN_MS
    claimed_ms: Mapping[str, int] = field(default_factory=dict)
    claimed_drill_ms: int = UNKNOWN_MS
    retention: RetentionOutlook | None = None
    let_go: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowView:
    """A continuous backup as of its newest round.

    Since the process began: `rounds`, `passes` (complete rounds: everything at the source was copied or is named as a
    hole), `commits`, `records`, `bytes_read` (in the log), `bytes_written` (to the store), `outages` and `retries` by
    error id, `retried_partitions` by error id (partitions that a round could not copy and the next round tried again),
    `throttled_ms` (time taken by rate limits of ours or of the brokers), `notices` (hooks, messages and pings, by
    outcome; empty without any), and `durations`, which all views of a process share. As of now: `holes`, all holes of
    the backup by reason; `late_topics`, compacted topics with a late read, None before the first round; `failed`,
    partitions that the newest round could not copy, by error id; `outage`; `pass_complete`, whether the newest round
    was complete; `progress`, the ended share of the round's tasks, None before the first; `live_bytes`, size of the
    backup's segments in the store, -1 unknown."""

    backup: str
    interval_s: float
    started_ms: int
    round_ended_ms: int = UNKNOWN_MS
    rounds: int = 0
    passes: int = 0
    pass_complete: bool = False
    commits: int = 0
    head_commit: int = 0
    last_commit_ms: int = UNKNOWN_MS
    records: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    live_bytes: int = -1
    holes: Mapping[str, int] = field(default_factory=dict)
    late_topics: int | None = None
    failed: Mapping[str, int] = field(default_factory=dict)
    outage: Outage | None = None
    outages: Mapping[str, int] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_partitions: Mapping[str, int] = field(default_factory=dict)
    progress: float | None = None
    throttled_ms: int = 0
    notices: Mapping[str, int] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations, compare=False)
    topics: tuple[TopicView, ...] = ()
    repository: RepositoryView = field(default_factory=RepositoryView)

    @property
    def state(self) -> FollowState:
        if self.outage is not None:
            return FollowState.OUTAGE
        if not self.rounds:
            return FollowState.STARTING
        return FollowState.FOLLOWING if self.pass_complete else FollowState.CATCHING_UP

    def recovery_point_ms(self, topic: TopicView) -> int:
        """See `recovery_point_ms`."""
        return recovery_point_ms(
            newest_record_ms=topic.newest_record_ms,
            last_commit_ms=self.last_commit_ms,
            caught_up_ms=topic.caught_up_ms,
        )


def recovery_point_ms(*, newest_record_ms: int, last_commit_ms: int, caught_up_ms: int) -> int:
    """The time up to which a topic is known to be restorable, -1 where unknown.

    The time of the topic's newest record, or a later time when everything had been copied. Producers set the times of
    records, and a wrong clock may set them in the future: a record is no evidence for a time after its commit.
    """
    return max(min(newest_record_ms, last_commit_ms), caught_up_ms, UNKNOWN_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """An answer with its reason in a line.

    Liveness and readiness each have a reason in a line. A process lives while its loop reports: the end of a round, or
    waiting for an outage to end. The allowed silence follows from the interval and from the longest time that a round
    copies before a commit. An outage of brokers or store is no reason to restart the process, but makes the backup not
    ready.
    """

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
    return f", {amount(lag, 'record')} behind" if lag else ""
