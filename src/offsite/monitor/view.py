"""The view of a continuous backup for monitoring: plain data, and conclusions from it.

The loop makes a new view after every round and during an outage, and hands over the whole view. Readers in other
threads see the old view or the new view, never half of both. Times are epoch ms, -1 where unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.backup.outages import Outage
from offsite.upkeep.retention.outlook import RetentionOutlook

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of durations, inclusive: from an idle round to a round that copies until it must
commit."""

REQUEST_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)
"""The same for requests to the store: from a file on the local machine to an upload that was retried for minutes."""

UNKNOWN_MS = -1


class FollowState(StrEnum):
    """What the loop is doing: before its first finished round, copying old records, up to date at the end of a round,
    or waiting for brokers or the store."""

    STARTING = "starting"
    CATCHING_UP = "catching_up"
    FOLLOWING = "following"
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Histogram of durations. `counts`: a non-cumulative number for every bound in `bounds`, and a last number for
    longer durations."""

    bounds: tuple[float, ...] = BUCKETS_S
    counts: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    sum_s: float = 0.0

    @classmethod
    def within(cls, bounds: tuple[float, ...]) -> Durations:
        """An empty histogram with buckets up to `bounds` (seconds, rising)."""
        return cls(bounds=bounds, counts=(0,) * (len(bounds) + 1))

    def with_one(self, duration_s: float) -> Durations:
        """The histogram with another duration."""
        at = bisect_left(self.bounds, duration_s)
        counts = (*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :])
        return Durations(bounds=self.bounds, counts=counts, sum_s=self.sum_s + duration_s)

    def cumulative(self) -> list[tuple[str, float]]:
        """The upper bound of every bucket as Prometheus writes it, and the number of durations up to the bound."""
        bounds = [*map(str, self.bounds), "+Inf"]
        return [(bound, sum(self.counts[: at + 1])) for at, bound in enumerate(bounds)]


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
    `throttled_ms` (time taken by rate limits of ours or of the brokers), the durations of rounds and commits, and
    `store_requests`, durations of the driver's requests to the store by operation and outcome. As of now: `holes`, all
    holes of the backup by reason; `failed`, partitions that the newest round could not copy, by error id; `outage`;
    `pass_complete`, whether the newest round was complete; `progress`, the ended share of the round's tasks, None
    before the first; `live_bytes`, size of the backup's segments in the store, -1 unknown.
    """

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
    failed: Mapping[str, int] = field(default_factory=dict)
    outage: Outage | None = None
    outages: Mapping[str, int] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_partitions: Mapping[str, int] = field(default_factory=dict)
    progress: float | None = None
    throttled_ms: int = 0
    round_durations: Durations = field(default_factory=Durations)
    commit_durations: Durations = field(default_factory=Durations)
    store_requests: Mapping[tuple[str, ...], Durations] = field(default_factory=dict)
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
        """The time up to which `topic` is known to be restorable, -1 where unknown.

        The time of the topic's newest record, or a later time when everything had been copied. Producers set the times
        of records, and a wrong clock may set them in the future: a record is no evidence for a time after its commit.
        """
        newest_ms = min(topic.newest_record_ms, self.last_commit_ms)
        return max(newest_ms, topic.caught_up_ms, UNKNOWN_MS)
