"""A restore's plan for people and scripts before they agree: topics, settings, and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsite.kafka.producer import CLUSTER_ACTION
from offsite.log.records.record import LOG_APPEND_TIME
from offsite.model.cleanup_policy import is_compacted
from offsite.model.names import amount
from offsite.model.options import OffsetsMode
from offsite.model.units import format_time
from offsite.points.incarnations import IncarnationSummary
from offsite.points.point_in_time import CutReport, PointInTime
from offsite.reports.point_report import (
    ConsistencyReport,
    HoleReport,
    expected_deletions,
    hole_reports,
    late_topics,
    report_consistency,
)
from offsite.repository.records_place import NEEDS_PLACE
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.restore.cluster_settings import MetadataPlan
from offsite.restore.groups_outlook import GroupOutlook
from offsite.restore.offsets import (
    OffsetsVerdict,
    PreservedPartition,
    describe_slow_transaction,
)
from offsite.restore.plan import PlannedRestore, newer_commit
from offsite.restore.schema_ids import SchemaIds
from offsite.restore.target_topics import THE_DEFAULT
from offsite.restore.write.plan import RestorePlan
from offsite.restore.write_jobs import repartition_notes
from offsite.stores.wrapped_store import uses_own_clock

_TOLD_FROM_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDiff:
    """A setting of a topic on the target before, in the backup, and on the target afterwards. None: the cluster's
    default."""

    setting: str
    now: str | None
    backup: str | None
    then: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlanReport:
    """One topic of the plan. `records` and `bytes` are those of the backup; with read_committed, aborted records among
    them are not restored. `settings` are the settings that change or differ; a `replication_factor` of -1 stays
    unchanged."""

    source: str
    target: str
    partitions: int
    create: bool
    records: int
    bytes: int
    holds_schemas: bool
    replication_factor: int
    settings: tuple[SettingDiff, ...]
    offsets: OffsetsReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlanReport:
    """The plan of a restore. `newer_commit`: the commit that the request means by now, when an unfinished run began
    with an earlier `commit`. `lacking`: data of the restored topics that the backup itself lacks. `consistency`: how
    far the topics are consistent with one another, and the transactions left out. `expected_deletions`: number of holes
    without a loss. `groups`: where consumer groups will continue; None when no groups were requested. `records_at`: the
    place of the restore's record, at `restore` below the backup's `restores`. `schema_ids`: the topics in which ids of
    a schema registry were seen."""

    restore: str
    resumes: bool
    backup: str
    commit: int
    newer_commit: int | None
    cluster_id: str
    offsets: str
    isolation: str
    topics: tuple[TopicPlanReport, ...]
    records: int
    bytes: int
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    metadata: MetadataPlan
    until_ms: int | None
    cuts: tuple[CutReport, ...]
    lacking: tuple[HoleReport, ...]
    consistency: ConsistencyReport
    incarnations: tuple[IncarnationSummary, ...] = ()
    expected_deletions: int = 0
    groups: GroupOutlook | None = None
    records_at: str = ""
    schema_ids: SchemaIds = field(default_factory=SchemaIds)


def report_plan(prepared: PlannedRestore) -> RestorePlanReport:
    """The report of the actions of `prepared`, with notes for a person before the start."""
    record, plan = prepared.record, prepared.plan
    within = plan.holes_within(prepared.point.commit)
    offsets = {verdict.target: verdict for verdict in prepared.offsets}
    decided = {settings.topic: settings for settings in record.settings}
    return RestorePlanReport(
        restore=record.restore,
        resumes=prepared.resumes,
        backup=plan.backup,
        commit=plan.commit,
        newer_commit=newer_commit(prepared),
        cluster_id=record.cluster_id,
        offsets=record.offsets,
        isolation=record.isolation,
        topics=tuple(
            TopicPlanReport(
                source=topic.source.topic,
                target=topic.target,
                partitions=topic.partitions,
                create=topic.target in record.created,
                records=topic.records,
                bytes=topic.raw_bytes,
                holds_schemas=topic.source.holds_schemas,
                replication_factor=decided[topic.target].replication_factor,
                settings=tuple(_differences(dict(topic.source.configs), decided[topic.target])),
                offsets=report_offsets(offsets[topic.target]),
            )
            for topic in plan.topics
        ),
        records=plan.records,
        bytes=plan.raw_bytes,
        skipped=plan.skipped,
        notes=tuple(_notes(prepared)),
        metadata=prepared.metadata,
        until_ms=prepared.point.until_ms,
        cuts=tuple(cut for cut in prepared.point.cuts() if cut.topic in plan.source_names),
        lacking=hole_reports(within),
        expected_deletions=len(expected_deletions(within)),
        groups=prepared.outlook,
        records_at=prepared.backup.record_store.url,
        schema_ids=prepared.schema_ids,
        consistency=report_consistency(prepared.point.cut, plan.source_names),
        incarnations=prepared.point.incarnations_of(plan.source_names),
    )


def _notes(prepared: PlannedRestore) -> Iterator[str]:
    plan, records = prepared.plan, prepared.backup.record_store
    if uses_own_clock(records):
        yield f"{records.url} cannot be written, and the record of a restore belongs there: {NEEDS_PLACE}"
    elif prepared.backup.records_at is not None:
        yield (
            f"the record, lease and maps of the restore will be in {records.url}. Give the same --records to all "
            "later commands of this restore. Retention and collection of the backup do not see this restore"
        )
    yield from _point_notes(prepared.point, plan)
    yield from repartition_notes(plan, prepared.request.repartition)
    broker_dated = sorted(
        {
            partition.source.topic
            for partition in plan.all_chains
            if any(LOG_APPEND_TIME in segment.timestamp_types for segment in partition.segments)
        }
    )
    for topic in broker_dated:
        yield f"{topic} has LogAppendTime: its records keep their times, but as CreateTime"
    replicas = {topic.target: topic.source.replication_factor for topic in plan.topics}
    for settings in prepared.record.settings:
        yield from _settings_notes(settings, replicas[settings.topic])
    for verdict in prepared.offsets:
        yield from offsets_notes(verdict)
    yield from prepared.metadata.notes
    if prepared.group_note:
        yield prepared.group_note
    yield from prepared.schema_ids.notes
    yield from map(str, prepared.unfinished)


def _point_notes(point: PointInTime, plan: RestorePlan) -> Iterator[str]:
    """Notes for a person on the point, and on partitions with mixed contents."""
    if point.commit.incomplete:
        yield (
            f"commit {point.commit.seq} was made during a run: each partition ends where the run was at that time, "
            "some partitions may have no records yet, and the groups come from the run before"
        )
    if point.until_ms is not None:
        yield (
            f"only records with a timestamp up to {format_time(point.until_ms)}: transactions may be restored in "
            "part; the figures are upper bounds"
        )
        yield from _compacted_notes(plan)
    elif any(segment.end > chain.end for chain in plan.all_chains for segment in chain.segments):
        yield "the segments also have later records, which are not restored: the figures are upper bounds"
    yield from map(str, late_topics(topic.source for topic in plan.topics))
    for topic in plan.topics:
        if topic.source.configs_unread:
            yield (
                f"the settings of {topic.source.topic} come from an earlier run: the run of the restore point had no "
                "permission to read them (DESCRIBE_CONFIGS)"
            )
        if topic.repartition is not None:
            yield (
                f"{topic.target} gets {amount(topic.partitions, 'partition')} instead of {topic.source.partitions}: "
                "records are distributed by key, and offsets of groups cannot be translated"
            )


def _compacted_notes(plan: RestorePlan) -> Iterator[str]:
    """Notes on compacted topics: they lack replaced records, whatever the time says."""
    for topic in plan.topics:
        if is_compacted(dict(topic.source.configs)):
            yield (
                f"{topic.source.topic} is compacted: values that compaction removed before the backup are missing, "
                "even if they were current at that time"
            )


def _differences(backup: Mapping[str, str], settings: TargetTopicSettings) -> Iterator[SettingDiff]:
    own_configs = dict(settings.configs)
    then: Mapping[str, str | None] = {**own_configs, **dict(settings.at_end)}
    now = {} if settings.create else own_configs
    for name in sorted(own_configs.keys() | backup.keys()):
        if not now.get(name) == backup.get(name) == then.get(name):
            yield SettingDiff(setting=name, now=now.get(name), backup=backup.get(name), then=then.get(name))


def _settings_notes(settings: TargetTopicSettings, source_replicas: int) -> Iterator[str]:
    if settings.create and settings.replication_factor < source_replicas:
        replicas = settings.replication_factor
        yield f"{settings.topic} gets {replicas} replicas instead of {source_replicas}: the target has too few brokers"
    for omitted in settings.left_out:
        yield f"{settings.topic} will not get {omitted.setting}={omitted.value or THE_DEFAULT}: {omitted.reason}"
    if settings.meanwhile and not settings.create:
        meanwhile = ", ".join(f"{name}={value}" for name, value in settings.meanwhile)
        yield f"{settings.topic} exists: it has {meanwhile} while records are written, and its own settings afterwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsetsReport:
    """The cost of one partition's offsets: `head_offsets` below the log's start are used up and deleted; `gap_offsets`
    without a record are filled with `filler` (control records of our own, or empty transactions); `outcomes` of
    transactions are replayed. Gaps and `extra_s` are estimates."""

    partition: int
    head_offsets: int
    gap_offsets: int
    filler: str
    outcomes: int
    extra_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsReport:
    """The choice for one topic's offsets. `mode` is preserve or translate; `reason`: why offsets that might be kept are
    not kept. `partitions` are the partitions with a cost, `extra_s` is the additional time of the topic."""

    mode: OffsetsMode
    reason: str
    extra_s: float
    partitions: tuple[PartitionOffsetsReport, ...]


def report_offsets(offsets: OffsetsVerdict) -> OffsetsReport:
    costs_any = (
        partition
        for partition in offsets.partitions
        if partition.head_offsets or partition.gap_offsets or partition.outcomes
    )
    return OffsetsReport(
        mode=OffsetsMode.PRESERVE if offsets.preserve else OffsetsMode.TRANSLATE,
        reason=offsets.reason,
        extra_s=round(offsets.extra_s, 1),
        partitions=tuple(map(_partition_offsets, costs_any)),
    )


def offsets_notes(offsets: OffsetsVerdict) -> list[str]:
    """Sentences for a person about a topic that keeps its offsets, or does not."""
    if not offsets.preserve:
        return [f"{offsets.source} does not keep its offsets: {offsets.reason}"] if offsets.reason else []
    notes = []
    if slow := describe_slow_transaction(offsets.partitions):
        notes.append(f"{offsets.source} may not keep its offsets: {slow}; --offsets translate has no such limit")
    replayed = [partition for partition in offsets.partitions if not partition.way.direct]
    missing = next((partition.way.missing for partition in replayed), "")
    if offsets.extra_s >= _TOLD_FROM_S and missing:
        notes.append(f"{offsets.source} keeps its offsets, but slowly: with {missing} it is fast")
    elif missing != CLUSTER_ACTION and any(partition.needs_transactions for partition in replayed):
        notes.append(f"{offsets.source} keeps its offsets by transactions of its own: the target lacks {missing}")
    return notes


def _partition_offsets(partition: PreservedPartition) -> PartitionOffsetsReport:
    return PartitionOffsetsReport(
        partition=partition.partition.chain.source.partition,
        head_offsets=partition.head_offsets,
        gap_offsets=partition.gap_offsets,
        filler=partition.way.filler,
        outcomes=partition.outcomes,
        extra_s=round(partition.extra_s, 1),
    )
