"""A view in which everything is told, and its parts."""

from __future__ import annotations

from dataclasses import replace

from offsite.backup.outages import Outage
from offsite.model.errors import KafkaUnreachable
from offsite.monitor.view import Durations, FollowView, RepositoryView, TopicView
from offsite.upkeep.retention.report import RetentionOutlook

NOW_MS = 1_800_000_000_000
S, H, DAY = 1000, 3_600_000, 86_400_000

OUTAGE = Outage(
    error=KafkaUnreachable("no broker answers", hint=""), attempts=3, since_ms=NOW_MS - 5 * 60 * S, wait_s=4.0
)
NEW = FollowView(backup="shop", interval_s=10, started_ms=NOW_MS - H)
ORDERS = TopicView(
    topic="orders",
    restorable_from_ms=NOW_MS - 30 * DAY,
    newest_record_ms=NOW_MS - 3 * H,
    caught_up_ms=NOW_MS - 12 * S,
    lag_records=70,
    headroom_s=3600.5,
)
DURATIONS = Durations()
for round_s in (0.3, 0.1, 7000.0):
    DURATIONS.rounds.observe(round_s)
DURATIONS.commits.observe(0.05)
for request_s in (0.02, 300.0):
    DURATIONS.note_request("get", "ok", request_s)
FULL = replace(
    NEW,
    round_ended_ms=NOW_MS - 4 * S,
    rounds=12,
    passes=11,
    pass_complete=True,
    commits=10,
    head_commit=4711,
    last_commit_ms=NOW_MS - 5 * S,
    records=123_456_789,
    bytes_read=987_654_321,
    bytes_written=123_456,
    live_bytes=55_555,
    holes={"retention": 2},
    late_topics=1,
    failed={"OFF-1503": 3},
    outage=OUTAGE,
    outages={"OFF-1501": 2, "OFF-1601": 1},
    retries={"OFF-1501": 9},
    retried_partitions={"OFF-1503": 4},
    progress=0.25,
    throttled_ms=1500,
    notices={"worked": 3, "failed": 1, "left_out": 0},
    durations=DURATIONS,
    topics=(ORDERS, replace(ORDERS, topic="users", newest_record_ms=NOW_MS - 2 * S)),
    repository=RepositoryView(
        let_go={"retention": 13, "nobody": 7},
        verified_ms={"quick": NOW_MS - H, "deep": NOW_MS - DAY},
        damaged=1,
        drilled_ms=NOW_MS - 20 * DAY,
        claimed_ms={"deep": NOW_MS - DAY},
        claimed_drill_ms=NOW_MS - DAY,
        retention=RetentionOutlook(
            applied_ms=NOW_MS - H,
            applied_commit=4700,
            rule="not kept by age 7 d 0 h",
            restore_points=900,
            pinned=2,
            next_commit=3800,
            next_ms=NOW_MS + H,
            waiting_bytes=4096,
        ),
    ),
)
FINE = replace(FULL, outage=None, failed={}, topics=(replace(ORDERS, lag_records=0, headroom_s=None),))


def request_counts(durations: Durations) -> dict[tuple[str, str], float]:
    """How many requests to the store were observed, by operation and outcome."""
    (family,) = durations.store_requests.collect()
    counts = (sample for sample in family.samples if sample.name.endswith("_count"))
    return {(sample.labels["op"], sample.labels["outcome"]): sample.value for sample in counts}
