"""The series of a continuous backup: every name, help and label, in the order of the reference page."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.model.version import __version__
from offsite.monitor.view import (
    DurationSeries,
    FollowState,
    FollowView,
    MetricType,
    Series,
    TopicSeries,
    TopicView,
    flag,
    seconds,
    silence_limit_s,
)
from offsite.upkeep.retention.report import RetentionOutlook

HOLE_REASONS = ("retention", "truncation")
"""Reasons with a series from the start, so that the first hole is seen as an increase."""


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

DURATION_SERIES = (
    DurationSeries(
        name="offsite_round_duration_seconds",
        help="How long rounds took, from the read of the source's state to the end of the commit.",
        read=lambda view: {(): view.round_durations},
    ),
    DurationSeries(
        name="offsite_commit_duration_seconds",
        help="How long commits took, from the last copied byte to the commit.",
        read=lambda view: {(): view.commit_durations},
    ),
    DurationSeries(
        name="offsite_storage_request_duration_seconds",
        help="How long requests of the driver to the store took, with retries, by operation (clock, delete, get, "
        "head, list, put, write) and outcome (ok, failed). A listing counts as one request. Requests of workers, "
        "which write the segments, are not included.",
        read=lambda view: view.store_requests,
        labels=("op", "outcome"),
    ),
)

SERIES = (
    Series(
        name="offsite_build_info",
        kind=MetricType.GAUGE,
        help="Always 1; the version of offsite that runs.",
        read=lambda _, __: {__version__: 1.0},
        labels=("version",),
    ),
    Series(
        name="offsite_job_info",
        kind=MetricType.GAUGE,
        help="Always 1 while the process runs; what it does.",
        read=lambda _, __: {"follow": 1.0},
        labels=("kind",),
    ),
    Series(
        name="offsite_job_state",
        kind=MetricType.GAUGE,
        help="1 for what it is doing now, 0 for the other states: starting, catching_up, following, outage.",
        read=lambda view, _: {state.value: flag(value=view.state is state) for state in FollowState},
        labels=("state",),
    ),
    Series(
        name="offsite_job_progress_ratio",
        kind=MetricType.GAUGE,
        help="How much of the work of the newest round is done, from 0 to 1, counted in Spark tasks. Absent before "
        "the first round.",
        read=lambda view, _: view.progress,
    ),
    Series(
        name="offsite_start_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When the process began.",
        read=lambda view, _: seconds(view.started_ms),
    ),
    Series(
        name="offsite_interval_seconds",
        kind=MetricType.GAUGE,
        help="How often a round should begin (--interval).",
        read=lambda view, _: view.interval_s,
    ),
    Series(
        name="offsite_round_limit_seconds",
        kind=MetricType.GAUGE,
        help="How long a round may take before /healthz calls the process stuck.",
        read=lambda view, _: silence_limit_s(view),
    ),
    Series(
        name="offsite_last_round_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When the newest round ended.",
        read=lambda view, _: seconds(view.round_ended_ms),
    ),
    Series(
        name="offsite_rounds_total",
        kind=MetricType.COUNTER,
        help="Rounds that ended.",
        read=lambda view, _: view.rounds,
    ),
    Series(
        name="offsite_passes_total",
        kind=MetricType.COUNTER,
        help="Rounds that were complete: all records of the source were copied, or are named as a hole.",
        read=lambda view, _: view.passes,
    ),
    Series(
        name="offsite_pass_complete",
        kind=MetricType.GAUGE,
        help="1 when the newest round was complete, else 0.",
        read=lambda view, _: flag(value=view.pass_complete),
    ),
    Series(
        name="offsite_commits_total",
        kind=MetricType.COUNTER,
        help="Commits that this process made.",
        read=lambda view, _: view.commits,
    ),
    Series(
        name="offsite_head_commit",
        kind=MetricType.GAUGE,
        help="Number of the backup's newest commit.",
        read=lambda view, _: view.head_commit,
    ),
    Series(
        name="offsite_last_commit_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When the newest commit was made, by the store's clock.",
        read=lambda view, _: seconds(view.last_commit_ms),
    ),
    Series(
        name="offsite_records_total",
        kind=MetricType.COUNTER,
        help="Records that this process put into commits.",
        read=lambda view, _: view.records,
    ),
    Series(
        name="offsite_bytes_total",
        kind=MetricType.COUNTER,
        help="Bytes of log read from the brokers, and bytes written to the store.",
        read=lambda view, _: {"read": view.bytes_read, "written": view.bytes_written},
        labels=("kind",),
    ),
    Series(
        name="offsite_repository_bytes",
        kind=MetricType.GAUGE,
        help="Stored bytes of the segments that the newest restore point needs.",
        read=lambda view, _: {"live": view.live_bytes} if view.live_bytes >= 0 else None,
        labels=("state",),
    ),
    Series(
        name="offsite_holes_total",
        kind=MetricType.COUNTER,
        help="Holes of the backup: ranges that the source lost before the copy.",
        read=lambda view, _: dict.fromkeys(HOLE_REASONS, 0) | dict(view.holes),
        labels=("reason",),
    ),
    Series(
        name="offsite_failed_partitions",
        kind=MetricType.GAUGE,
        help="Partitions that the newest round could not copy, by error id. The next round tries again.",
        read=lambda view, _: view.failed,
        labels=("reason",),
    ),
    Series(
        name="offsite_outage_start_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When the current outage began, by error id. Absent without an outage.",
        read=lambda view, _: {view.outage.error.id: view.outage.since_ms / 1000} if view.outage else None,
        labels=("reason",),
    ),
    Series(
        name="offsite_outages_total",
        kind=MetricType.COUNTER,
        help="Outages that ended, by error id.",
        read=lambda view, _: view.outages,
        labels=("reason",),
    ),
    Series(
        name="offsite_retries_total",
        kind=MetricType.COUNTER,
        help="Failures that were tried again, by error id: whole rounds (op round), and partitions that a round could "
        "not copy and the next round tried again (op partition).",
        read=lambda view, _: _retries(view),
        labels=("op", "reason"),
    ),
    Series(
        name="offsite_throttled_seconds_total",
        kind=MetricType.COUNTER,
        help="Time that the copy waited for rate limits.",
        read=lambda view, _: view.throttled_ms / 1000,
    ),
    Series(
        name="offsite_last_verify_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When this installation last checked the backup, by depth (quick, deep). Absent for a depth without a "
        "check.",
        read=lambda view, _: {depth: at / 1000 for depth, at in view.repository.verified_ms.items()},
        labels=("depth",),
    ),
    Series(
        name="offsite_last_verify_claimed_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When another installation checked the backup, as a record in the repository claims, by depth. The claim "
        "is not confirmed. Absent if it is not later than the last check of this installation.",
        read=lambda view, _: {depth: at / 1000 for depth, at in view.repository.claimed_ms.items()} or None,
        labels=("depth",),
    ),
    Series(
        name="offsite_verify_damaged_objects",
        kind=MetricType.GAUGE,
        help="How many objects the last check found damaged or missing, also as others claim, unless a later deep "
        "check of this installation found none. Absent without a check and without a claim of damage.",
        read=lambda view, _: view.repository.damaged,
    ),
    Series(
        name="offsite_restore_test_last_success_timestamp_seconds",
        kind=MetricType.GAUGE,
        help=(
            "When a drill of this installation last proved that the backup can be restored. Absent without such a "
            "drill."
        ),
        read=lambda view, _: seconds(view.repository.drilled_ms),
    ),
    Series(
        name="offsite_restore_test_claimed_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When a drill of another installation proved that the backup can be restored, as a report in the "
        "repository claims. The claim is not confirmed. Absent if it is not later than the last drill of this "
        "installation.",
        read=lambda view, _: seconds(view.repository.claimed_drill_ms),
    ),
    Series(
        name="offsite_restore_points",
        kind=MetricType.GAUGE,
        help="Restore points that are kept, by whether a person has pinned them. Absent if retention never "
        "deleted anything and nothing is pinned.",
        read=lambda view, _: _points(view.repository.retention),
        labels=("pinned",),
    ),
    Series(
        name="offsite_restore_points_let_go_total",
        kind=MetricType.COUNTER,
        help="Restore points deleted since this process began, by the kind of work that the audit names; `nobody` "
        "without an audit line.",
        read=lambda view, _: view.repository.let_go or None,
        labels=("by",),
    ),
    Series(
        name="offsite_retention_last_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="When retention last deleted something. Absent if it never did.",
        read=lambda view, _: (
            retention.applied_ms / 1000 if (retention := view.repository.retention) and retention.applied_ms else None
        ),
    ),
    Series(
        name="offsite_retention_next_timestamp_seconds",
        kind=MetricType.GAUGE,
        help="The earliest time at which the next restore point may be deleted. Absent if no time is known.",
        read=lambda view, _: (
            retention.next_ms / 1000 if (retention := view.repository.retention) and retention.next_ms else None
        ),
    ),
    Series(
        name="offsite_retention_waiting_bytes",
        kind=MetricType.GAUGE,
        help="Stored bytes that were deleted from the backup and wait for their collection.",
        read=lambda view, _: retention.waiting_bytes if (retention := view.repository.retention) else None,
    ),
)

TOPICS_LEFT_OUT = Series(
    name="offsite_topics_without_series",
    kind=MetricType.GAUGE,
    help='Topics without their own series, because there are too many: they are together under topic="".',
    read=lambda _, __: None,
)
