"""The series of a continuous backup: every name, help and label, in the order of the reference page.

Topics can be many, and every series costs server memory. Only a limited number of topics have series of their own: the
first by name, which stay the same from scrape to scrape. The rest share `topic=""`, so that an alert about the worst
topic sees them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.model.version import __version__
from offsite.monitor.metrics import Exposition, Metrics, Series, counter, gauge, seconds
from offsite.monitor.view import FollowState, FollowView, TopicView, silence_limit_s
from offsite.upkeep.retention.report import RetentionOutlook

BACKUP = "backup"
TOPIC = "topic"
TOPICS_MAX = 1000
"""Number of topics with series of their own."""

HOLE_REASONS = ("retention", "truncation")
"""Reasons with a series from the start, so that the first hole is seen as an increase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeries:
    """A gauge of a topic, read from the view, the topic and the time of the scrape (epoch ms). `merge` combines the
    values of topics without a series of their own: the sum of amounts, the worst of times."""

    name: str
    help: str
    read: Callable[[FollowView, TopicView, int], float | None]
    merge: Callable[[Iterable[float]], float]

    def over(self, topics: Mapping[str, Sequence[TopicView]], now_ms: int) -> Series[FollowView]:
        """The series with a value for every label of `topics`."""

        def read(view: FollowView) -> Mapping[str, float]:
            values = {}
            for label, of_label in topics.items():
                amounts = (self.read(view, topic, now_ms) for topic in of_label)
                if known_amounts := [amount for amount in amounts if amount is not None]:
                    values[label] = self.merge(known_amounts)
            return values

        return gauge(self.name, self.help, read, TOPIC)


def _rpo_s(view: FollowView, topic: TopicView, now_ms: int) -> float | None:
    point_ms = view.recovery_point_ms(topic)
    return None if point_ms < 0 else max(0.0, (now_ms - point_ms) / 1000)


def _retries(view: FollowView) -> Mapping[tuple[str, ...], float]:
    by_operation = (("partition", view.retried_partitions), ("round", view.retries))
    return {(op, reason): count for op, by_reason in by_operation for reason, count in by_reason.items()}


def _points(retention: RetentionOutlook | None) -> Mapping[str, float] | None:
    return {"false": retention.restore_points - retention.pinned, "true": retention.pinned} if retention else None


TOPIC_SERIES = (
    TopicSeries(
        name="offsite_rpo_seconds",
        help="Recovery point: how much time would be lost if the source failed now. The time since the newest "
        "restorable record, or since all records of the source were last seen in a commit.",
        read=_rpo_s,
        merge=max,
    ),
    TopicSeries(
        name="offsite_restorable_from_timestamp_seconds",
        help="Time of the oldest restorable record.",
        read=lambda _, topic, __: seconds(topic.restorable_from_ms),
        merge=max,
    ),
    TopicSeries(
        name="offsite_restorable_to_timestamp_seconds",
        help="Time up to which the topic is known to be restorable; the recovery point as a time.",
        read=lambda view, topic, _: seconds(view.recovery_point_ms(topic)),
        merge=min,
    ),
    TopicSeries(
        name="offsite_source_lag_records",
        help="Offsets of the source that are in no commit yet, as of the newest round.",
        read=lambda _, topic, __: None if topic.lag_records < 0 else topic.lag_records,
        merge=sum,
    ),
    TopicSeries(
        name="offsite_source_retention_headroom_seconds",
        help="How long until the source may delete records that are not copied yet, by retention.ms and "
        "retention.bytes; 0 when it may already. Absent when everything is copied, when the source deletes "
        "nothing, or when it is unknown.",
        read=lambda _, topic, __: topic.headroom_s,
        merge=min,
    ),
)

SERIES: tuple[Series[FollowView], ...] = (
    gauge(
        "offsite_build_info",
        "Always 1; the version of offsite that runs.",
        lambda _: {__version__: 1.0},
        "version",
    ),
    gauge(
        "offsite_job_info",
        "Always 1 while the process runs; what it does.",
        lambda _: {"follow": 1.0},
        "kind",
    ),
    gauge(
        "offsite_job_state",
        "1 for what it is doing now, 0 for the other states: starting, catching_up, following, outage.",
        lambda view: {state.value: float(view.state is state) for state in FollowState},
        "state",
    ),
    gauge(
        "offsite_job_progress_ratio",
        "How much of the work of the newest round is done, from 0 to 1, counted in Spark tasks. Absent before "
        "the first round.",
        lambda view: view.progress,
    ),
    gauge(
        "offsite_start_timestamp_seconds",
        "When the process began.",
        lambda view: seconds(view.started_ms),
    ),
    gauge(
        "offsite_interval_seconds",
        "How often a round should begin (--interval).",
        lambda view: view.interval_s,
    ),
    gauge(
        "offsite_round_limit_seconds",
        "How long a round may take before /healthz calls the process stuck.",
        silence_limit_s,
    ),
    gauge(
        "offsite_last_round_timestamp_seconds",
        "When the newest round ended.",
        lambda view: seconds(view.round_ended_ms),
    ),
    counter(
        "offsite_rounds_total",
        "Rounds that ended.",
        lambda view: view.rounds,
    ),
    counter(
        "offsite_passes_total",
        "Rounds that were complete: all records of the source were copied, or are named as a hole.",
        lambda view: view.passes,
    ),
    gauge(
        "offsite_pass_complete",
        "1 when the newest round was complete, else 0.",
        lambda view: float(view.pass_complete),
    ),
    counter(
        "offsite_commits_total",
        "Commits that this process made.",
        lambda view: view.commits,
    ),
    gauge(
        "offsite_head_commit",
        "Number of the backup's newest commit.",
        lambda view: view.head_commit,
    ),
    gauge(
        "offsite_last_commit_timestamp_seconds",
        "When the newest commit was made, by the store's clock.",
        lambda view: seconds(view.last_commit_ms),
    ),
    counter(
        "offsite_records_total",
        "Records that this process put into commits.",
        lambda view: view.records,
    ),
    counter(
        "offsite_bytes_total",
        "Bytes of log read from the brokers, and bytes written to the store.",
        lambda view: {"read": view.bytes_read, "written": view.bytes_written},
        "kind",
    ),
    gauge(
        "offsite_repository_bytes",
        "Stored bytes of the segments that the newest restore point needs.",
        lambda view: {"live": view.live_bytes} if view.live_bytes >= 0 else None,
        "state",
    ),
    counter(
        "offsite_holes_total",
        "Holes of the backup: ranges that the source lost before the copy.",
        lambda view: dict.fromkeys(HOLE_REASONS, 0) | dict(view.holes),
        "reason",
    ),
    gauge(
        "offsite_late_read_topics",
        "Compacted topics that a run read later than delete.retention.ms allows: a restore of the newest commit may "
        "bring back deleted keys.",
        lambda view: view.late_topics,
    ),
    gauge(
        "offsite_failed_partitions",
        "Partitions that the newest round could not copy, by error id. The next round tries again.",
        lambda view: view.failed,
        "reason",
    ),
    gauge(
        "offsite_outage_start_timestamp_seconds",
        "When the current outage began, by error id. Absent without an outage.",
        lambda view: {view.outage.error.id: view.outage.since_ms / 1000} if view.outage else None,
        "reason",
    ),
    counter(
        "offsite_outages_total",
        "Outages that ended, by error id.",
        lambda view: view.outages,
        "reason",
    ),
    counter(
        "offsite_retries_total",
        "Failures that were tried again, by error id: whole rounds (op round), and partitions that a round could "
        "not copy and the next round tried again (op partition).",
        _retries,
        "op",
        "reason",
    ),
    counter(
        "offsite_notices_total",
        "Hooks that ran, messages and pings that were sent, by outcome: worked, failed, left_out (too many waited). "
        "Absent without --hook and --notify.",
        lambda view: view.notices,
        "outcome",
    ),
    counter(
        "offsite_throttled_seconds_total",
        "Time that the copy waited for rate limits.",
        lambda view: view.throttled_ms / 1000,
    ),
    gauge(
        "offsite_last_verify_timestamp_seconds",
        "When this installation last checked the backup, by depth (quick, deep). Absent for a depth without a check.",
        lambda view: {depth: at / 1000 for depth, at in view.repository.verified_ms.items()},
        "depth",
    ),
    gauge(
        "offsite_last_verify_claimed_timestamp_seconds",
        "When another installation checked the backup, as a record in the repository claims, by depth. The claim "
        "is not confirmed. Absent if it is not later than the last check of this installation.",
        lambda view: {depth: at / 1000 for depth, at in view.repository.claimed_ms.items()} or None,
        "depth",
    ),
    gauge(
        "offsite_verify_damaged_objects",
        "How many objects the last check found damaged or missing, also as others claim, unless a later deep "
        "check of this installation found none. Absent without a check and without a claim of damage.",
        lambda view: view.repository.damaged,
    ),
    gauge(
        "offsite_restore_test_last_success_timestamp_seconds",
        ("When a drill of this installation last proved that the backup can be restored. Absent without such a drill."),
        lambda view: seconds(view.repository.drilled_ms),
    ),
    gauge(
        "offsite_restore_test_claimed_timestamp_seconds",
        "When a drill of another installation proved that the backup can be restored, as a report in the "
        "repository claims. The claim is not confirmed. Absent if it is not later than the last drill of this "
        "installation.",
        lambda view: seconds(view.repository.claimed_drill_ms),
    ),
    gauge(
        "offsite_restore_points",
        "Restore points that are kept, by whether a person has pinned them. Absent if retention never "
        "deleted anything and nothing is pinned.",
        lambda view: _points(view.repository.retention),
        "pinned",
    ),
    counter(
        "offsite_restore_points_let_go_total",
        "Restore points deleted since this process began, by the kind of work that the audit names; `nobody` "
        "without an audit line.",
        lambda view: view.repository.let_go or None,
        "by",
    ),
    gauge(
        "offsite_retention_last_timestamp_seconds",
        "When retention last deleted something. Absent if it never did.",
        lambda view: (
            retention.applied_ms / 1000 if (retention := view.repository.retention) and retention.applied_ms else None
        ),
    ),
    gauge(
        "offsite_retention_next_timestamp_seconds",
        "The earliest time at which the next restore point may be deleted. Absent if no time is known.",
        lambda view: (
            retention.next_ms / 1000 if (retention := view.repository.retention) and retention.next_ms else None
        ),
    ),
    gauge(
        "offsite_retention_waiting_bytes",
        "Stored bytes that were deleted from the backup and wait for their collection.",
        lambda view: retention.waiting_bytes if (retention := view.repository.retention) else None,
    ),
)

TOPICS_LEFT_OUT: Series[FollowView] = gauge(
    "offsite_topics_without_series",
    'Topics without their own series, because there are too many: they are together under topic="".',
    lambda _: 0,
)


def expose(view: FollowView, *, now_ms: int, accept: str = "", topics_max: int = TOPICS_MAX) -> Exposition:
    """Make the answer to a scrape at `now_ms`: OpenMetrics if the `Accept` header names it, else the plain text
    format."""
    topics = _by_label(view.topics, topics_max)
    left_out = len(topics.get("", ()))
    series = (
        *SERIES,
        *(series.over(topics, now_ms) for series in TOPIC_SERIES),
        replace(TOPICS_LEFT_OUT, read=lambda _: left_out),
    )
    return Metrics(series=series, view=view, labels={BACKUP: view.backup}, histograms=view.durations.histograms).expose(
        accept
    )


def _by_label(topics: Iterable[TopicView], topics_max: int) -> dict[str, list[TopicView]]:
    """The topics by their label. A label must be unique: Prometheus would refuse the whole scrape."""
    by_name: dict[str, list[TopicView]] = {}
    for topic in sorted(topics, key=lambda view: view.topic):
        has_own_series = topic.topic in by_name or len(by_name) < topics_max
        by_name.setdefault(topic.topic if has_own_series else "", []).append(topic)
    return by_name
