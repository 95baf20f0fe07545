"""The end and the result of a restore: the written records are read back and compared with the backup, the outcome is
recorded, and the result says it to people and scripts.

A result must never claim a verification that did not happen, nor call a backup empty when the command left out its
records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.groups.run import AppliedGroups
from offsite.model.names import amount
from offsite.model.options import SchemaIdsWay
from offsite.model.units import format_time
from offsite.points.incarnations import IncarnationSummary
from offsite.points.point_in_time import PointInTime
from offsite.points.record_rewrite import NOTHING_CHANGED, RewriteCounts
from offsite.reports.point_report import (
    ConsistencyReport,
    HoleReport,
    expected_deletions,
    hole_reports,
    report_consistency,
)
from offsite.repository.restores.record import RestoreRecord
from offsite.restore.cluster_settings import AppliedMetadata
from offsite.restore.compare.proof import Proof, ProofFinding, UncomparedPartition
from offsite.restore.plan import PlannedRestore, newer_commit
from offsite.restore.preflight import AT_ONCE
from offsite.restore.write.attempt import RestoreReceipt
from offsite.restore.write.plan import RestorePlan, TopicRestore

_NAMED_MAX = 12
"""Topics in one sentence."""
_TEXT_MAX = 120
"""Characters of an option's value in one sentence."""
_CUTS = (("checkpoint", "--checkpoint"), ("ends", "--offsets-file"), ("before", "--before"))
"""Fields of a request that end partitions before the end of the commit, and their options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedRecords:
    """Records of the backup at the commit that `options` left out; several options count together."""

    options: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """Result for one topic. `records` are in the target; `invisible_records` were left out as aborted or undecided at
    the restore point, or, with `same_offsets`, are in the target and aborted."""

    source: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    undecided_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredIds:
    """What the restore did with ids of schemas: the `way`, and by target topic the keys and values whose ids were
    changed to those of `registry`, and those left with what may be an id of the backup's registry."""

    way: SchemaIdsWay
    registry: str
    topics: Mapping[str, RewriteCounts] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        return sum(counts.changed for counts in self.topics.values())

    @property
    def left(self) -> int:
        return sum(fields.fields for counts in self.topics.values() for fields in counts.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Result of a restore.

    - `topics` by target name; `skipped` lists (topic, reason).
    - `held_back` lists (topic, setting, value): settings of the source not set, because they would delete restored
      records at once; `left_out` lists (topic, setting, reason): settings that the target cannot have.
    - `verified`: the written records were read back and equal the backup. None when not read (`compared_records` is
      None, too), without anything to compare, or with unreadable partitions (`uncompared`).
    - `findings` has the first difference of every partition. `lacking`: data of the restored topics that the backup
      itself lacks. `expected_deletions`: number of holes without a loss, not counted in `holes`.
    - `groups` is None when no groups were requested. `incarnations`: of topics deleted and created again, the taken
      incarnation and the rest.
    - Without any restored record, `problem` gives the reason, and `excluded` the records of the backup by the options
      that left them out.
    - `newer_commit`: the commit that the request means by now, when later than `commit`; None: not later, or unknown.
    - `consistency`: how far the topics are consistent with one another, and the transactions left out. `notes`:
      sentences for a person, for instance about settings that somebody changed meanwhile.
    - `schema_ids` is None when no registry of the target was named.
    """

    restore: str
    backup: str
    commit: int
    offsets: str
    isolation: str
    resumed: bool
    records: int
    bytes: int
    topics: Mapping[str, RestoredTopic]
    skipped: tuple[tuple[str, str], ...]
    held_back: tuple[tuple[str, str, str], ...]
    left_out: tuple[tuple[str, str, str], ...]
    holes: int
    verified: bool | None
    findings: tuple[ProofFinding, ...]
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    groups: AppliedGroups | None = None
    compared_records: int | None = None
    uncompared: tuple[UncomparedPartition, ...] = ()
    lacking: tuple[HoleReport, ...] = ()
    incarnations: tuple[IncarnationSummary, ...] = ()
    problem: str = ""
    excluded: tuple[ExcludedRecords, ...] = ()
    notes: tuple[str, ...] = ()
    newer_commit: int | None = None
    consistency: ConsistencyReport | None = None
    expected_deletions: int = 0
    schema_ids: RestoredIds | None = None


def excluded_records(
    point: PointInTime, plan: RestorePlan, record: RestoreRecord, *, invisible_records: int
) -> tuple[ExcludedRecords, ...]:
    """The records of the plan's topics in the backup, although only `invisible_records` (aborted or undecided) came
    back, by the options responsible."""
    incarnations = {topic.source.incarnation for topic in plan.topics}
    backup_records = {
        partition: sum(segment.records for segment in segments)
        for partition, segments in point.commit.segments.items()
        if partition.incarnation in incarnations
    }
    chosen = {
        partition: n
        for partition, n in backup_records.items()
        if point.partitions.includes(partition.topic, partition.partition)
    }
    is_cut = any(point.state.positions[partition].end < point.commit.positions[partition].end for partition in chosen)
    exclusions = (
        ExcludedRecords(
            options=(_option("--partitions", str(point.partitions)),),
            records=sum(backup_records.values()) - sum(chosen.values()),
        ),
        ExcludedRecords(
            options=tuple(_point_options(point, dict(record.request), is_cut=is_cut)),
            records=sum(chosen.values()) - invisible_records,
        ),
    )
    return tuple(exclusion for exclusion in exclusions if exclusion.options and exclusion.records > 0)


def describe_nothing_restored(result: RestoreResult) -> str:
    """The sentence for a restore without records; empty for any other restore."""
    if result.records:
        return ""
    topics = _topics(result)
    aborted = sum(topic.invisible_records for topic in result.topics.values())
    is_left_out = result.consistency is not None and result.consistency.left_out_count > 0
    kinds = "aborted, undecided or left out by the cut" if is_left_out else "aborted or undecided"
    but = f", but {aborted:,} {kinds} ones" if aborted else ""
    if not result.excluded:
        return f"nothing was restored: at commit {result.commit} the backup has no records of {topics}{but}"
    parts = [f"{' and '.join(exclusion.options)} left out {exclusion.records:,}" for exclusion in result.excluded]
    aborted_note = f"; the other {aborted:,} are {kinds}" if aborted else ""
    total = aborted + sum(exclusion.records for exclusion in result.excluded)
    return (
        f"nothing was restored: of the {amount(total, 'record')} of {topics} that the backup has at commit "
        f"{result.commit}, {', '.join(parts)}{aborted_note}"
    )


def _point_options(point: PointInTime, request: dict[str, str], *, is_cut: bool) -> Iterator[str]:
    if point.until_ms is not None:
        yield f"--at {format_time(point.until_ms)}"
    if is_cut and point.cut.used is not None:
        yield "--cut consistent"
    for name, option in _CUTS if is_cut else ():
        if name in request:
            yield option if name == "ends" else _option(option, request[name])


def _option(name: str, value: str) -> str:
    return f"{name} {value if len(value) <= _TEXT_MAX else f'{value[:_TEXT_MAX]}…'}"


def _topics(result: RestoreResult) -> str:
    chosen = {incarnation.topic: incarnation for incarnation in result.incarnations if incarnation.taken}
    names = [
        f"{topic.source} (incarnation {chosen[topic.source].number})" if topic.source in chosen else topic.source
        for topic in sorted(result.topics.values(), key=lambda topic: topic.source)
    ]
    more = f" and {amount(len(names) - _NAMED_MAX, 'more topic')}" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{more}"


def _counted(prepared: PlannedRestore, receipts: Sequence[RestoreReceipt], proof: Proof | None) -> RestoreResult:
    left_out = tuple(
        (topic_settings.topic, omitted)
        for topic_settings in prepared.record.settings
        for omitted in topic_settings.left_out
    )
    within = prepared.plan.holes_within(prepared.point.commit)
    holes = hole_reports(within)
    return RestoreResult(
        restore=prepared.record.restore,
        backup=prepared.plan.backup,
        commit=prepared.plan.commit,
        offsets=prepared.record.offsets,
        isolation=prepared.record.isolation,
        resumed=prepared.resumes,
        records=sum(receipt.records for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in receipts),
        topics={topic.target: _topic(topic, receipts, prepared.record) for topic in prepared.plan.topics},
        skipped=prepared.plan.skipped,
        held_back=tuple(
            (topic, omitted.setting, omitted.value) for topic, omitted in left_out if omitted.reason == AT_ONCE
        ),
        left_out=tuple(
            (topic, omitted.setting, omitted.reason) for topic, omitted in left_out if omitted.reason != AT_ONCE
        ),
        holes=len(holes),
        verified=None if proof is None else proof.verified,
        findings=() if proof is None else proof.findings,
        compared_records=None if proof is None else proof.records,
        uncompared=() if proof is None else proof.uncompared,
        lacking=holes,
        incarnations=prepared.point.incarnations_of(prepared.plan.source_names),
        newer_commit=newer_commit(prepared),
        consistency=report_consistency(prepared.point.cut, prepared.plan.source_names),
        expected_deletions=len(expected_deletions(within)),
        schema_ids=None if prepared.registry is None else _restored_ids(prepared, receipts),
    )


def _restored_ids(prepared: PlannedRestore, receipts: Sequence[RestoreReceipt]) -> RestoredIds:
    by_topic: dict[str, list[RewriteCounts]] = {}
    for receipt in receipts:
        by_topic.setdefault(receipt.target.topic, []).append(receipt.rewritten)
    counts = {topic: RewriteCounts.sum(of_topic) for topic, of_topic in sorted(by_topic.items())}
    return RestoredIds(
        way=prepared.schema_ids.way,
        registry=prepared.schema_ids.registry,
        topics={topic: of_topic for topic, of_topic in counts.items() if of_topic != NOTHING_CHANGED},
    )


def restore_result(prepared: PlannedRestore, receipts: Sequence[RestoreReceipt], proof: Proof | None) -> RestoreResult:
    """The result of a restore as written and compared, before cluster settings and groups."""
    result = _counted(prepared, receipts, proof)
    if result.records:
        return result
    invisible = sum(topic.invisible_records for topic in result.topics.values())
    excluded = excluded_records(prepared.point, prepared.plan, prepared.record, invisible_records=invisible)
    result = replace(result, excluded=excluded)
    return replace(result, problem=describe_nothing_restored(result))


def _topic(topic: TopicRestore, receipts: Sequence[RestoreReceipt], record: RestoreRecord) -> RestoredTopic:
    topic_receipts = [receipt for receipt in receipts if receipt.target.topic == topic.target]
    return RestoredTopic(
        source=topic.source.topic,
        partitions=topic.partitions,
        same_offsets=topic.target in record.preserved,
        records=sum(receipt.records for receipt in topic_receipts),
        bytes=sum(receipt.bytes for receipt in topic_receipts),
        invisible_records=sum(receipt.invisible_records for receipt in topic_receipts),
        undecided_transactions=sum(receipt.undecided for receipt in topic_receipts),
    )
