"""A restore's plan as people and scripts read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from offsite.log.record import LOG_APPEND_TIME
from offsite.repository.topic_settings import TopicSettings
from offsite.services.restore import PlannedRestore


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlanReport:
    """`records` and `bytes` are those of the backup; aborted records among them stay behind with read_committed."""

    source: str
    target: str
    partitions: int
    create: bool
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlanReport:
    restore: str
    resumes: bool
    backup: str
    commit: int
    cluster_id: str
    offsets: str
    isolation: str
    topics: tuple[TopicPlanReport, ...]
    records: int
    bytes: int
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def report_plan(prepared: PlannedRestore) -> RestorePlanReport:
    """What `prepared` will do, and what a person should know before it does."""
    record, plan = prepared.record, prepared.plan
    return RestorePlanReport(
        restore=record.restore,
        resumes=prepared.resumes,
        backup=plan.backup,
        commit=plan.commit,
        cluster_id=record.cluster_id,
        offsets=record.offsets,
        isolation=record.isolation,
        topics=tuple(
            TopicPlanReport(
                source=topic.source.topic,
                target=topic.target,
                partitions=topic.source.partitions,
                create=topic.target in record.created,
                records=topic.records,
                bytes=topic.raw_bytes,
            )
            for topic in plan.topics
        ),
        records=plan.records,
        bytes=plan.raw_bytes,
        skipped=plan.skipped,
        notes=tuple(_notes(prepared)),
    )


def _notes(prepared: PlannedRestore) -> Iterator[str]:
    plan = prepared.plan
    broker_dated = sorted(
        {
            partition.source.topic
            for partition in plan.partitions
            if any(LOG_APPEND_TIME in segment.timestamp_types for segment in partition.segments)
        }
    )
    for topic in broker_dated:
        yield f"{topic} has LogAppendTime: its records keep their times, and show them as CreateTime"
    for settings in prepared.record.settings:
        yield from _settings_notes(settings)
    for hole in plan.holes:
        yield f"{hole.partition_id} lacks offsets {hole.start} to {hole.end - 1}: gone at the source ({hole.reason})"


def _settings_notes(settings: TopicSettings) -> Iterator[str]:
    for each in settings.left_out:
        yield f"{settings.topic} will not get {each.setting}={each.value}: {each.reason}"
    if settings.meanwhile and not settings.create:
        meanwhile = ", ".join(f"{name}={value}" for name, value in settings.meanwhile)
        yield f"{settings.topic} exists: it has {meanwhile} while records are written, and its own settings afterwards"
