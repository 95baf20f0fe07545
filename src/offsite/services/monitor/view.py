"""The view of a continuous backup that is shown to whoever watches it: plain data, and what follows from it.

The loop makes a new view after each round, and while it waits out an outage, and hands it over as a whole; readers in
other threads see the old one or the new one, never half of each. Times are epoch ms, -1 where they are not known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.services.outages import Outage
from offsite.services.retention.outlook import RetentionOutlook

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of durations, inclusive: from an idle round to one that copies until it must commit."""

REQUEST_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)
"""The same of requests to the store: from a file on this machine to an upload that was retried for minutes."""

UNKNOWN_MS = -1


class FollowState(StrEnum):
    """What the loop is doing: it has not ended a round yet, it copies what is old, it has all that there was at the end
    of a round, or it waits for brokers or the store to come back."""

    STARTING = "starting"
    CATCHING_UP = "catching_up"
    FOLLOWING = "following"
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Histogram of durations. `counts` has a number for each of `bounds`, not cumulative, and one for all that took
    longer."""

    bounds: tuple[float, ...] = BUCKETS_S
    counts: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)
    sum_s: float = 0.0

    @classmethod
    def within(cls, bounds: tuple[float, ...]) -> Durations:
        """An empty histogram with buckets up to `bounds` (seconds, rising)."""
        return cls(bounds=bounds, counts=(0,) * (len(bounds) + 1))

    def with_one(self, duration_s: float) -> Durations:
        """The histogram with one duration more."""
        at = bisect_left(self.bounds, duration_s)
        counts = (*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :])
        return Durations(bounds=self.bounds, counts=counts, sum_s=self.sum_s + duration_s)

    def cumulative(self) -> list[tuple[str, float]]:
        """The upper bound of each bucket as Prometheus writes it, and the number of durations up to it."""
        bounds = [*map(str, self.bounds), "+Inf"]
        return [(bound, sum(self.counts[: at + 1])) for at, bound in enumerate(bounds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic, its latest incarnation, as of the newest commit. `caught_up_ms`: when all that the source held was
    last seen to be in a commit; it was asked for the end before. `lag_records`: offsets that the source had and no
    commit covers, -1 not known. `headroom_s`: see `retention_headroom`."""

    topic: str
    restorable_from_ms: int = UNKNOWN_MS
    newest_record_ms: int = UNKNOWN_MS
    caught_up_ms: int = UNKNOWN_MS
    lag_records: int = -1
    headroom_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryView:
    """What is remembered of the checks of a backup. `verified_ms`: the last one of each depth that was made here;
    `damaged`: what the newest of them found damaged, or others claim, None without any; `drilled_ms`: the last drill of
    ours that proved the backup; `claimed_ms`, `claimed_drill_ms`: later ones that others claim to have made;
    `retention`: what is kept and what goes next, None where nothing ever went and nothing is pinned; `let_go`: how many
    restore points went since the process began, by kind of work."""

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

    Since the process began: `rounds`, `passes` (the complete ones: all that the source held was copied or is named as a
    hole), `commits`, `records`, `bytes_read` (in the log), `bytes_written` (to the store), `outages` and `retries` by
    error id, `retried_partitions` (those that a round could not copy, and that the next one tried again) too,
    `throttled_ms` (time that rate limits of ours or of the brokers took), the durations, and those of the driver's
    requests to the store by operation and outcome. As of now: `holes`, all that the backup has, by reason; `failed`,
    partitions that the newest round could not copy, by error id; `outage`; `pass_complete`, whether the newest round
    was such a pass; `progress`, which part of the round's tasks have ended, None before the first; `live_bytes`, what
    the segments of the backup
    take in the store, -1 not known.
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
        """The time up to which `topic` is known to be restorable, -1 where nothing is known.

        That of its newest record, or later, when all there was had been copied. Producers set the times of records, and
        a wrong clock may set them in the future: a record is no evidence for a time after the commit that holds it.
        """
        newest_ms = min(topic.newest_record_ms, self.last_commit_ms)
        return max(newest_ms, topic.caught_up_ms, UNKNOWN_MS)
